"""Mocks on the pages of suites and runs: try-it with its explanation, calls and state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.api import Principal, Role, principal_of
from apps.console import conf
from apps.console.domain import mock_display
from apps.console.forms.mocks import ExplainForm, ResetForm
from apps.console.views import page
from apps.executions import api as executions
from apps.mocks import api as mocks
from apps.mocks.api import CallFilter, ExplainedCall, SpaceName
from kernel.errors import InvalidInput, PlatformError

MAX_CALLS: Final = 50
MAX_UNMATCHED: Final = 20
MAX_RECORDS: Final = 200


@require_POST
@page
def explain(
    request: HttpRequest, principal: Principal, suite_id: str, surface_id: str, operation_id: str
) -> HttpResponse:
    """Render why the shared mock would answer a call as it would, for htmx."""
    name = SpaceName(suite_id)
    call = ExplainForm(request.POST).call(surface_id, operation_id)
    context: dict[str, object] = {"defaults_only": not principal.is_admin}
    try:
        context |= explanation(name, call, defaults_only=not principal.is_admin)
    except PlatformError as error:
        context["problem"] = error
    return render(request, "console/_mock_explanation.html", context)


def explanation(name: SpaceName, call: ExplainedCall, *, defaults_only: bool) -> dict[str, object]:
    document = mocks.explain_call(name, call, defaults_only=defaults_only)
    transition = document.get("transition")
    nearest = document.get("error", {}).get("nearest")
    return {
        "explained": document,
        "candidates": mock_display.candidates(document),
        "verdict": mock_display.verdict(document),
        "state": sorted(document.get("state", {}).items()),
        "transition": mock_display.transition_words(transition) if transition else "",
        "near": mock_display.near(nearest) if nearest else None,
    }


@require_safe
@page
def shared_space(request: HttpRequest, principal: Principal, suite_id: str) -> HttpResponse:
    """Render state and calls of the shared space of a suite, for htmx."""
    name = SpaceName(suite_id)
    mocks.require_space_reader(principal, name)
    return _shared_space(request, name)


@require_POST
@page
def reset_shared_space(request: HttpRequest, principal: Principal, suite_id: str) -> HttpResponse:
    name = SpaceName(suite_id)
    mocks.require_space_writer(principal, name)
    form = ResetForm(request.POST)
    form.require_valid()
    _empty(form, name)
    return _shared_space(request, name)


def _shared_space(request: HttpRequest, name: SpaceName) -> HttpResponse:
    section = space_section(name, call_filter(request), may_change=True)
    context = {
        "sections": [section],
        "address": reverse("console:suite-mocks", args=[name.suite_id]),
        "no_calls": "No recent calls.",
    }
    return _spaces(request, context, reverse("console:suite", args=[name.suite_id]))


@require_safe
@page
def run_spaces(request: HttpRequest, principal: Principal, run_id: str) -> HttpResponse:
    """Render calls and state of every space of a run, for htmx."""
    return _run_spaces(request, principal, run_id)


@require_POST
@page
def reset_run_space(request: HttpRequest, principal: Principal, run_id: str) -> HttpResponse:
    served = [each for _, each, _ in executions.mock_spaces(principal, run_id)]
    principal.require(Role.RUNNER)
    form = ResetForm(request.POST)
    form.require_valid()
    wanted = form.cleaned_data["space"]
    name = next((each for each in served if str(each) == wanted), None)
    if name is None:
        raise InvalidInput("the run has no such space")
    _empty(form, name)
    return _run_spaces(request, principal, run_id)


def _prefix() -> str:
    return conf.step_env_prefixes()[0]


def _run_spaces(request: HttpRequest, principal: Principal, run_id: str) -> HttpResponse:
    addresses: dict[SpaceName, list[str]] = {}
    for node_id, name, surfaces in executions.mock_spaces(principal, run_id):
        keys = [f"{node_id}#{each}" for each in surfaces] if len(surfaces) > 1 else [node_id]
        addresses.setdefault(name, []).extend(keys)
    may_change = principal.has_role(Role.RUNNER)
    wanted = call_filter(request)
    context = {
        "sections": [
            {
                **space_section(name, wanted, may_change=may_change),
                "title": (name.import_path or name.suite_id) if len(addresses) > 1 else "",
                "variables": [mock_display.address_variable(each, _prefix()) for each in keys],
            }
            for name, keys in addresses.items()
        ],
        "address": reverse("console:run-mocks", args=[run_id]),
        "no_calls": "No call so far. Without Redis, a restart of Partita forgets calls and state.",
        "variable": mock_display.address_variable("psp", _prefix()),
    }
    return _spaces(request, context, reverse("console:run", args=[run_id]))


def _spaces(request: HttpRequest, context: Mapping[str, object], page_of: str) -> HttpResponse:
    """Render the calls and state for htmx; opened by hand, as a page with the way to `page_of`."""
    if "HX-Request" in request.headers:
        return render(request, "console/_mock_space.html", context)
    whole = {**context, "page_of": page_of, "principal": principal_of(request)}
    return render(request, "console/mock_space.html", whole)


def _empty(form: ResetForm, name: SpaceName) -> None:
    """Remove a record, the whole state, or the calls, as the pressed button says."""
    what, key = form.cleaned_data["what"], form.cleaned_data["key"]
    if what == "calls":
        mocks.clear_journal(name)
    else:
        mocks.remove_state(name, key=key if what == "record" else "")


def call_filter(request: HttpRequest) -> CallFilter:
    """Return the filter of the address; one that matches nothing for an unknown outcome."""
    return CallFilter(
        surface_id=request.GET.get("surface", ""), outcome=request.GET.get("outcome", "")
    )


def space_section(name: SpaceName, wanted: CallFilter, *, may_change: bool) -> dict[str, object]:
    """Return what there is in a space: the newest calls and records, and how many of all."""
    everything = mocks.read_journal(name)
    shown = [each for each in everything if wanted.matches(each)]
    unmatched = mock_display.unmatched_rows(everything)
    state = mocks.read_state(name)
    return {
        "id": f"space-{name.import_path or name.suite_id}",
        "space": str(name),
        "may_change": may_change,
        "calls": [mock_display.call_row(each) for each in shown[:MAX_CALLS]],
        "call_count": len(everything),
        "shown_count": len(shown),
        "is_filtered": wanted != CallFilter(),
        "unmatched": unmatched[:MAX_UNMATCHED],
        "unmatched_count": sum(each.outcome in mock_display.UNMATCHED for each in everything),
        "records": [mock_display.record_row(each) for each in state.records[:MAX_RECORDS]],
        "record_count": len(state.records),
        "counters": state.counters,
    }
