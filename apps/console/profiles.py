"""The pages of profiles: all suites, the profiles of one, and the editor."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.api import Principal
from apps.console.forms.profiles import SecretRefForm, draft_form, read_draft
from apps.console.views import page
from apps.executions.api import explain_env
from apps.http.api import strong_etag
from apps.operations.api import DatastoreUnavailable
from apps.platform_settings.api import known_secret_providers
from apps.profiles.api import (
    Draft,
    Edit,
    Profile,
    ProfileInvalid,
    ProfileSet,
    chain_of,
    create_profile,
    default_profile,
    delete_profile,
    explain_chain,
    make_default,
    may_write,
    preview_profile,
    profiles_of,
    replace_profile,
    require_profile,
    warnings_of,
)
from apps.suites.api import (
    ProfilesChanged,
    Suite,
    current_profiles,
    every_suite,
    find_suite_by_id,
    profile_edit,
    profile_summary,
    profiles_document,
)
from kernel.errors import PlatformError
from kernel.problems import PROBLEMS

_BLANK_ROWS: Final = 2  # of secret references, to write into
_OTHER_LOCAL: Final = "secrets"  # another name of `local`
_FIRST_TEXT: Final = """\
# extendsId: base          # a profile of this suite whose values come first
env:
  LOG_LEVEL: info
# services:                # for one step, by its id or name
#   api:
#     env: {PORT: "8080"}
# secretRefs:              # where a secret is, never its value
#   - {key: API_TOKEN, provider: local, ref: api_token}
"""


@require_safe
@page
def suites(request: HttpRequest, principal: Principal) -> HttpResponse:
    summaries = [profile_summary(suite) for suite in every_suite()]
    summaries.sort(key=lambda each: (each["title"].casefold(), each["id"]))
    context = {"suites": summaries, "principal": principal, "nav": "profiles"}
    return render(request, "console/profiles.html", context)


@require_safe
@page
def suite(request: HttpRequest, principal: Principal, suite_id: str) -> HttpResponse:
    return _suite_page(request, principal, find_suite_by_id(suite_id))


@require_safe
@page
def new(request: HttpRequest, principal: Principal, suite_id: str) -> HttpResponse:
    return _editor(request, principal, find_suite_by_id(suite_id))


@require_safe
@page
def edit(
    request: HttpRequest, principal: Principal, suite_id: str, profile_id: str
) -> HttpResponse:
    found = find_suite_by_id(suite_id)
    profile = require_profile(current_profiles(found), profile_id)
    return _editor(request, principal, found, profile.profile_id)


@require_POST
@page
def save(
    request: HttpRequest, principal: Principal, suite_id: str, profile_id: str = ""
) -> HttpResponse:
    """Store the form, new without `profile_id`; after an error, show it again as it was sent."""
    found = find_suite_by_id(suite_id)
    own = profile_edit(principal, found, if_match=request.POST.get("ifMatch", ""))
    try:
        if profile_id:
            written = replace_profile(own, profile_id, read_draft(request.POST))
        else:
            written = create_profile(own, read_draft(request.POST))
    except DatastoreUnavailable:
        raise
    except PlatformError as error:
        return _editor(request, principal, found, profile_id, error=error)
    return _to_profile(found, written.profile_id)


def _change_profile(
    request: HttpRequest, principal: Principal, suite_id: str, change: Callable[[Edit], object]
) -> HttpResponse:
    """Change a profile and lead back to its suite; after an error, render the suite with it."""
    found = find_suite_by_id(suite_id)
    own = profile_edit(principal, found, if_match=request.POST.get("ifMatch", ""))
    try:
        change(own)
    except DatastoreUnavailable:
        raise
    except PlatformError as error:
        return _suite_page(request, principal, found, error=error)
    return _to_suite(found)


@require_POST
@page
def default(
    request: HttpRequest, principal: Principal, suite_id: str, profile_id: str
) -> HttpResponse:
    return _change_profile(request, principal, suite_id, lambda own: make_default(own, profile_id))


@require_POST
@page
def delete(
    request: HttpRequest, principal: Principal, suite_id: str, profile_id: str
) -> HttpResponse:
    return _change_profile(
        request, principal, suite_id, lambda own: delete_profile(own, profile_id)
    )


@require_POST
@page
def check(
    request: HttpRequest, principal: Principal, suite_id: str, profile_id: str = ""
) -> HttpResponse:
    """Render what the form would be: its faults with their lines, else the merged profile."""
    found = find_suite_by_id(suite_id)
    return render(
        request,
        "console/_profile_check.html",
        _check(principal, found, read_draft(request.POST), profile_id),
    )


@require_safe
@page
def environment(
    request: HttpRequest, _principal: Principal, suite_id: str, profile_id: str
) -> HttpResponse:
    """Render the environment of one step under the stored profile, a fragment for htmx."""
    context = _environment(find_suite_by_id(suite_id), profile_id, request.GET.get("step", ""))
    return render(request, "console/_profile_env.html", {"profile_id": profile_id, **context})


def _suite_page(
    request: HttpRequest, principal: Principal, found: Suite, error: PlatformError | None = None
) -> HttpResponse:
    current = current_profiles(found)
    document = profiles_document(found, current, principal)
    context = {
        "document": document,
        "etag": strong_etag(document),
        "may_write": may_write(principal),
        "error": error,
        "principal": principal,
        "nav": "profiles",
    }
    status = PROBLEMS[error.problem_code] if error else 200
    return render(request, "console/profiles_of_suite.html", context, status=status)


def _editor(
    request: HttpRequest,
    principal: Principal,
    found: Suite,
    profile_id: str = "",
    *,
    error: PlatformError | None = None,
) -> HttpResponse:
    current = current_profiles(found)
    profile = current.find(profile_id)
    profile_id = profile.profile_id if profile else profile_id
    document = profiles_document(found, current, principal)
    records = {each["id"]: each for each in document["profiles"]}
    record = records.get(profile_id)
    copied = records.get(request.GET.get("from", ""))
    draft = (
        read_draft(request.POST) if error else _stored_draft(record or copied, is_copy=not record)
    )
    if profile is not None and not error:
        draft = replace(draft, scope=profile.given_scope)
    is_writer = may_write(principal)
    context = {
        "suite": found,
        "profile": profile,
        "profile_id": profile_id,
        "record": record,
        "draft": draft,
        "form": draft_form(draft, scope=record["scope"] if record else "", may_write=is_writer),
        "rows": _rows(draft, may_write=is_writer),
        "secret_providers": [each for each in known_secret_providers() if each != _OTHER_LOCAL],
        "etag": strong_etag(document),
        "may_write": is_writer,
        "error": error,
        "conflict": _conflict(draft, record) if isinstance(error, ProfilesChanged) else None,
        "saved": "saved" in request.GET,
        "consequences": _consequences(current, profile_id),
        "principal": principal,
        "nav": "profiles",
        **_check(principal, found, draft, profile_id, is_shown=record is not None or bool(error)),
    }
    if record is not None:
        context |= _environment(found, profile_id, request.GET.get("step", ""))
    status = PROBLEMS[error.problem_code] if error else 200
    return render(request, "console/profile_editor.html", context, status=status)


def _stored_draft(record: Mapping[str, Any] | None, *, is_copy: bool) -> Draft:
    if record is None:
        return Draft(name="", file_name="", yaml=_FIRST_TEXT)
    return Draft(
        name="" if is_copy else record["name"],
        file_name="" if is_copy else record["fileName"],
        yaml=record["yaml"],
        description=record.get("description", ""),
        secret_refs=tuple(record["secretRefs"]),
        launchable=record["launchable"],
    )


def _rows(draft: Draft, *, may_write: bool) -> list[SecretRefForm]:
    """Return the secret references that the YAML does not have, and blank rows."""
    read = profiles_of({"profiles/draft.yaml": draft.yaml.encode()})
    in_yaml = [each.as_dict() for profile in read for each in profile.secret_refs]
    own = [dict(row) for row in draft.secret_refs if dict(row) not in in_yaml]
    rows = [*own, *({} for _ in range(_BLANK_ROWS if may_write else 0))]
    return [SecretRefForm(initial=row, may_write=may_write) for row in rows]


def _check(
    principal: Principal, found: Suite, draft: Draft, profile_id: str, *, is_shown: bool = True
) -> dict[str, Any]:
    if not is_shown:
        return {"is_checked": False}
    preview = preview_profile(profile_edit(principal, found), draft, profile_id)
    context: dict[str, Any] = {"is_checked": True, "faults": preview.faults}
    if preview.written is None:
        read = profiles_of({"profiles/draft.yaml": draft.yaml.encode()})
        context["check_warnings"] = [each for own in read for each in warnings_of(own)]
    else:
        profiles = preview.written.profiles
        own = require_profile(profiles, preview.written.profile_id)
        context["check_warnings"] = list(warnings_of(own))
        context |= _merge_chain(profiles, own)
    return context


def _merge_chain(profiles: ProfileSet, own: Profile) -> dict[str, Any]:
    """Return the chain from its root, and the merged values with their origins."""
    try:
        values = explain_chain(profiles.profiles, own)
    except ProfileInvalid as error:
        return {"chain_error": error}
    chain = [each.file_name for each in chain_of(profiles.profiles, own)]
    return {"chain": chain, "merged": values, "own_file": own.file_name}


def _environment(found: Suite, profile_id: str, step: str) -> dict[str, Any]:
    try:
        return {"env": explain_env(found.suite_id, profile_id, step)}
    except DatastoreUnavailable:
        raise
    except PlatformError as error:
        return {"env_error": error}


def _conflict(draft: Draft, record: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what is stored now, and how the text that was sent differs from it."""
    if record is None:
        return {"is_gone": True}
    theirs, mine = record["yaml"].splitlines(), draft.yaml.splitlines()
    lines = list(difflib.unified_diff(theirs, mine, "stored now", "yours", lineterm=""))
    marks = {"+": "added", "-": "removed", "@": "place"}
    return {
        "by": record.get("updatedBy", ""),
        "at": record.get("updatedAt", ""),
        "lines": [(marks.get(line[:1], ""), line) for line in lines[2:]],
    }


def _consequences(current: ProfileSet, profile_id: str) -> dict[str, Any]:
    """Return what the deletion of a profile changes, and what prevents it."""
    profile = current.find(profile_id)
    if profile is None:
        return {}
    rest = [each for each in current.profiles if each is not profile]
    following = default_profile([replace(each, default=False) for each in rest])
    return {
        "dependants": [each.file_name for each in current.dependants(profile_id)],
        "file": profile_id in current.seeds,
        "is_default": profile is current.default,
        "next_default": following.file_name if following else "",
    }


def _to_profile(found: Suite, profile_id: str) -> HttpResponse:
    target = reverse("console:profile", args=[found.suite_id, profile_id])
    return HttpResponseRedirect(f"{target}?saved", status=303)


def _to_suite(found: Suite) -> HttpResponse:
    target = reverse("console:profiles-of-suite", args=[found.suite_id])
    return HttpResponseRedirect(target, status=303)


PARTS: Final = {
    "save": save,
    "default": default,
    "delete": delete,
    "check": check,
    "env": environment,
}
