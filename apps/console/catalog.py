"""The pages of the catalog: what can be found, and one package.

Filters and pages are parameters of the address, so a list can be shared and the Back button works.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.api import Principal, Role
from apps.catalog import api as packages
from apps.catalog.api import OFFICIAL, CatalogEntry, Facet, PackageFilter
from apps.console import selectors
from apps.console.domain import catalog_display, display
from apps.console.domain.markdown import markdown_html
from apps.console.forms.filters import PackageFilters
from apps.console.views import page, same_site
from apps.platform_settings.api import registries
from apps.suites import api as suites

PACKAGES_A_PAGE: Final = 50
_MARKS: Final = ("runnable", "inspectable", "starred")


@require_safe
@page
def catalog(request: HttpRequest, principal: Principal) -> HttpResponse:
    form = PackageFilters(request.GET)
    wanted = _filter(form.read())
    given = {name: value for name, value in form.read().items() if value}
    filters = {name: value for name, value in given.items() if name != "sort"}
    favorites = packages.favorites_of(principal)
    everything = packages.list_entries()
    accepted = [entry for entry in everything if wanted.accepts(entry, favorites)]
    found = _in_order(accepted, given.get("sort", ""))
    shown, more = _page_of(found, request.GET.get("after", ""))
    names = {each.registry_id: each.name for each in registries()}
    context = {
        "form": form,
        "hidden": {name: value for name, value in filters.items() if name != "q"},
        "filtered": bool(filters),
        "unfiltered": _address({"sort": given["sort"]} if "sort" in given else {}),
        "total": len(found),
        "known": len(everything),
        "rows": rows(shown, favorites, may_launch=principal.has_role(Role.RUNNER)),
        "facets": _facets(packages.facets(everything, wanted, favorites), given),
        "next": _address({**given, "after": shown[-1]["package"]["id"]}) if more else "",
        "here": request.get_full_path(),
        "failing": _failing(everything, names),
        "registries": names,
        "empty_registries": _without_packages(everything, names),
        "principal": principal,
        "nav": "catalog",
    }
    return render(request, "console/catalog.html", context)


@require_safe
@page
def package(request: HttpRequest, principal: Principal, package_id: str) -> HttpResponse:
    entry = packages.find_entry(package_id)
    favorites = packages.favorites_of(principal)
    suite_id = entry["package"].get("suiteId", "")
    suite: Any = suites.get_definition(suite_id) if suite_id else {}
    if suite:  # the list may not have waited for its evaluation
        entry = {**entry, "launchable": suite["launchable"]}
    (row,) = rows([entry], favorites, may_launch=principal.has_role(Role.RUNNER))
    nodes = suite.get("topology", ())
    context = {
        **row,
        "suite": suite,
        "readme": _readme(suite),
        "problem": suite.get("topologyError"),
        "nodes": nodes,
        "graph": selectors.graph(nodes),
        "graph_address": reverse("console:suite-graph", args=[suite_id]) if suite_id else "",
        "module": _module(entry),
        "registry": {each.registry_id: each.name for each in registries()}.get(
            entry["package"].get("registryId", ""), ""
        ),
        "here": request.get_full_path(),
        "principal": principal,
        "nav": "catalog",
    }
    return render(request, "console/package.html", context)


@require_POST
@page
def star(request: HttpRequest, principal: Principal, package_id: str) -> HttpResponse:
    """Set or take away the reader's mark; htmx gets the button anew, a form its page."""
    is_starred = request.POST.get("starred") == "true"
    change = packages.add_favorite if is_starred else packages.remove_favorite
    change(principal, package_id)
    here = same_site(request.POST.get("next", reverse("console:catalog")))
    if "HX-Request" not in request.headers:
        return HttpResponseRedirect(here, status=303)
    title = packages.find_entry(package_id)["package"]["title"]
    context = {"id": package_id, "title": title, "starred": is_starred, "here": here}
    return render(request, "console/_star.html", context)


def rows(
    entries: Sequence[CatalogEntry], favorites: frozenset[str], *, may_launch: bool
) -> list[dict[str, object]]:
    """Return what a card shows of each package, with the profiles to launch it with."""
    launchable = {entry["package"].get("suiteId", "") for entry in entries if entry["launchable"]}
    profiles = {
        suite["id"]: suite["profiles"]
        for suite in (suites.list_suites() if launchable and may_launch else ())
        if suite["id"] in launchable
    }
    now = timezone.now()
    return [
        {
            "package": entry["package"],
            "description": entry["package"].get("description", "").replace("`", ""),
            "starred": entry["package"]["id"] in favorites,
            "status_text": catalog_display.status_text(entry["package"]["status"]),
            "merits": catalog_display.merits(entry),
            "versions": catalog_display.versions(entry["package"]),
            "digest": display_digest(entry["package"].get("digest", "")),
            "seen": display.ago(entry["seenAt"], now) if entry["seenAt"] else "",
            "seen_at": entry["seenAt"],
            "error": entry["package"].get("error", ""),
            "launch": entry["package"].get("suiteId", "") in profiles,
            "profiles": profiles.get(entry["package"].get("suiteId", ""), ()),
        }
        for entry in entries
    ]


def display_digest(digest: str) -> str:
    return digest[:19]


def _filter(given: dict[str, str]) -> PackageFilter:
    return PackageFilter(
        kind=given["kind"],
        provider=given["provider"],
        owner=given["owner"],
        module=given["module"],
        runnable=bool(given["runnable"]),
        inspectable=bool(given["inspectable"]),
        starred=bool(given["starred"]),
        words=given["q"],
    )


def _in_order(found: list[CatalogEntry], sort: str) -> list[CatalogEntry]:
    """Return the packages, which come by kind and title, in the order that `sort` asks for."""
    if sort == "score":
        return sorted(found, key=lambda entry: -entry["package"]["score"])
    if sort == "updated":
        return sorted(found, key=lambda entry: entry["seenAt"], reverse=True)
    return found


def _page_of(found: list[CatalogEntry], after: str) -> tuple[list[CatalogEntry], bool]:
    """Return the packages after that of the id, from the start if it is gone; and if more come."""
    ids = [entry["package"]["id"] for entry in found]
    start = ids.index(after) + 1 if after in ids else 0
    return found[start : start + PACKAGES_A_PAGE], len(found) > start + PACKAGES_A_PAGE


def _facets(found: Sequence[Facet], given: dict[str, str]) -> list[dict[str, object]]:
    """Return each facet with its choices, the marks as one facet."""
    groups: dict[str, list[dict[str, object]]] = {}
    for facet in found:
        group = groups.setdefault("only" if facet.name in _MARKS else facet.name, [])
        group += [_choice(facet.name, value, count, given) for value, count in facet.counts]
    return [
        {"name": name, "label": catalog_display.FACETS[name], "choices": choices}
        for name, choices in groups.items()
        if choices
    ]


def _choice(name: str, value: str, count: int, given: dict[str, str]) -> dict[str, object]:
    """Return a choice; its address sets it, or takes it back."""
    return {
        "text": catalog_display.choice_text(name, value),
        "count": count,
        "chosen": given.get(name) == value,
        "address": _address(_toggle(given, name, value)),
    }


def _toggle(given: dict[str, str], name: str, value: str) -> dict[str, str]:
    others = {each: text for each, text in given.items() if each != name}
    return others if given.get(name) == value else {**others, name: value}


def _failing(everything: Sequence[CatalogEntry], names: dict[str, str]) -> list[dict[str, str]]:
    """Return the registries that fail, with the time of the content that is shown instead."""
    now = timezone.now()
    seen: dict[str, str] = {}
    for entry in everything:
        registry_id = entry["package"].get("registryId", "")
        seen[registry_id] = max(seen.get(registry_id, ""), entry["seenAt"])
    return [
        {
            "name": names.get(each["registryId"]) or each["registryId"],
            "detail": each["detail"],
            "seen_at": seen.get(each["registryId"], ""),
            "seen": display.ago(seen[each["registryId"]], now)
            if seen.get(each["registryId"])
            else "",
        }
        for each in packages.failing_registries()
    ]


def _without_packages(everything: Sequence[CatalogEntry], names: dict[str, str]) -> list[str]:
    full = {entry["package"].get("registryId") for entry in everything}
    return [name or registry_id for registry_id, name in names.items() if registry_id not in full]


def _readme(suite: dict[str, Any]) -> str:
    contents = {file["path"]: file["content"] for file in suite.get("sourceFiles", ())}
    if "README.md" not in contents:
        return ""
    links = selectors.file_links(contents, page=reverse("console:suite", args=[suite["id"]]))
    return markdown_html(contents["README.md"], links)


def _module(entry: CatalogEntry) -> dict[str, object]:
    """Return what a built-in module offers, nothing for other packages."""
    if entry["package"]["status"] != OFFICIAL:
        return {}
    (name,) = entry["package"]["modules"]
    found = next(each for each in suites.built_in_modules() if each.name == name)
    functions = [
        {"signature": each.signature, "doc": markdown_html(each.doc)} for each in found.functions
    ]
    return {"load": found.load, "functions": functions}


def _address(parameters: dict[str, str]) -> str:
    return reverse("console:catalog", query=parameters)
