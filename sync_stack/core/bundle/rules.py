"""Rules of the bundle: what they refer to, what their fields mean together, their identity."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from readers.tree import Kind
from sync_stack.core.bundle.datasource_fields import UNSUPPORTED
from sync_stack.core.bundle.datasources import Datasource
from sync_stack.core.bundle.diagnostics import Diagnostics, LocatedValue
from sync_stack.core.bundle.entries import Names
from sync_stack.core.bundle.fields import ParsedFields, read_table
from sync_stack.core.bundle.managers import read_manager
from sync_stack.core.bundle.model import Cleanup, DisabledRule, Platform, Prune, Rule
from sync_stack.core.bundle.rule_checks import (
    check_against_sink,
    check_alone,
    check_repo_url,
    check_repo_url_in_production,
)
from sync_stack.core.bundle.rule_fields import RULE
from sync_stack.core.bundle.secret_refs import SecretManager
from sync_stack.core.bundle.values import expect

_MODEL_FIELDS: Final = frozenset(known.name for known in fields(Rule))


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What rules may name, by the names of the lists; entries with errors are missing below."""

    platform_names: Names
    datasource_names: Names
    manager_names: Names
    platforms: Mapping[str, Platform]
    datasources: Mapping[str, Datasource]
    org_names: Mapping[str, str]
    production: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRule:
    """One rule of the file: in use or disabled, neither after an error."""

    name: str
    spot: LocatedValue
    rule: Rule | None = None
    disabled: DisabledRule | None = None
    managers: tuple[SecretManager, ...] = ()


def read_rule(spot: LocatedValue, around: Surroundings, findings: Diagnostics) -> ReadRule | None:
    """None when not even its name is known."""
    given = read_table(RULE, spot, findings)
    platform = _reference(given, "platform", around.platform_names, findings)
    datasource = _reference(given, "datasource", around.datasource_names, findings)
    repositories = _Repositories(given, around.org_names.get(platform, ""), findings)
    check_alone(given, findings)
    sink = around.datasources.get(datasource)
    if sink:
        check_against_sink(given, sink, findings)
    check_repo_url(given, repositories.wanted, around.platforms.get(platform), findings)
    if around.production:
        check_repo_url_in_production(given, findings)
    if not given.complete or not platform or not datasource:
        return None
    name = given.get("name") or default_name(platform, datasource, given)
    managers, manager = _managers(name, given, around.manager_names, findings)
    values = _model_values(given)
    values |= {"name": name, "platform": platform, "datasource": datasource}
    values |= {"segment": given.at("datasource").text, "secret_manager": manager}
    values |= {"repositories": repositories.wanted}
    values |= {"exclude_repositories": repositories.unwanted}
    kind = around.datasource_names.kinds[datasource]
    if kind in UNSUPPORTED:
        reason = f"this build cannot write to {kind}"
        disabled = DisabledRule(name=name, segment=values["segment"], reason=reason)
        return ReadRule(name=name, spot=spot, disabled=disabled)
    return ReadRule(name=name, spot=spot, rule=Rule(place=spot.place, **values), managers=managers)


def default_name(platform: str, datasource: str, given: ParsedFields) -> str:
    """`<platform>.<datasource>.<8 hex>` of what the rule syncs and where to."""
    files = [[entry.path, entry.env] for entry in given.get("file_path_map", ())]
    identity = {
        "destination_template": given.get("destination_template"),
        "file_name": given.get("file_name"),
        "file_path_map": files or None,
        "repositories": list(given.get("repositories", ())),
    }
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"{platform}.{datasource}.{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def complain_of_duplicates(rules: list[ReadRule], findings: Diagnostics) -> None:
    """Two rules of one identity would share ledgers."""
    first: dict[str, LocatedValue] = {}
    for entry in rules:
        if entry.name in first:
            line = first[entry.name].tree.line
            where = f" (the other one: line {line})" if line else ""
            message = f'a second rule "{entry.name}": give it a name of its own{where}'
            findings.error(entry.spot.at("name"), "duplicate_rule", message)
        first.setdefault(entry.name, entry.spot)


def _reference(given: ParsedFields, name: str, names: Names, findings: Diagnostics) -> str:
    return names.resolve(given.at(name), findings) if given.get(name) else ""


def _model_values(given: ParsedFields) -> dict[str, Any]:
    values = {key: value for key, value in given.values.items() if key in _MODEL_FIELDS}
    if cleanup := given.get("cleanup"):
        values["cleanup"] = Cleanup(**cleanup.values)
    prune = dict(given.get("prune") or {})
    for own, other in (("protection", "prune_protection"), ("dry_run", "dry_run_prune")):
        if given.get(other) is not None:
            prune[own] = given.get(other)
    values["prune"] = Prune(**prune)
    return values


class _Repositories:
    """Patterns with overrides and org_name applied."""

    def __init__(self, given: ParsedFields, org_name: str, findings: Diagnostics) -> None:
        self._org_name = org_name
        self._findings = findings
        wanted = self._patterns(given, "repositories")
        unwanted = self._patterns(given, "exclude_repositories")
        for override in given.get("overrides", ()):
            if override.get("enable", True):
                wanted += self._patterns(override, "match_repositories")
                unwanted += self._patterns(override, "exclude_repositories")
        for name, override in given.get("repository_overrides", {}).items():
            if not override.get("enabled", True):
                unwanted.append(self._whole(name, override.spot))
        self.wanted = tuple(dict.fromkeys(wanted))
        self.unwanted = tuple(dict.fromkeys(unwanted))

    def _patterns(self, given: ParsedFields, name: str) -> list[str]:
        patterns = given.get(name, ())
        return [
            self._whole(pattern, spot)
            for pattern, spot in zip(patterns, given.at(name).items(), strict=False)
        ]

    def _whole(self, pattern: str, spot: LocatedValue) -> str:
        if ".*" in pattern:
            message = f'"{pattern}" looks like a regular expression; "." is itself here'
            self._findings.warn(spot, "looks_like_regex", message)
        if "/" in pattern or "**" in pattern:
            return pattern
        if self._org_name:
            return f"{self._org_name}/{pattern}"
        message = f'"{pattern}" matches no owner/name: write "{pattern}/*", or set org_name'
        self._findings.error(spot, "bad_glob", message)
        return pattern


def _managers(
    rule: str, given: ParsedFields, names: Names, findings: Diagnostics
) -> tuple[tuple[SecretManager, ...], str]:
    """The rule's own secret managers, and the name of the one that holds its secrets."""
    own = _own_managers(rule, given, findings)
    if given.has("secret_manager"):
        wanted = given.get("secret_manager", "")
        if wanted in own:
            return _made(own), _full_name(rule, wanted)
        both = Names(
            what="secret manager", kinds=names.kinds | dict.fromkeys(own, "vault"), tags=names.tags
        )
        spot = given.at("secret_manager")
        return _made(own), both.resolve(spot, findings) if spot.kind is Kind.STRING else ""
    only = [_full_name(rule, name) for name in own] or list(names.kinds)
    return _made(own), only[0] if len(only) == 1 else ""


def _made(own: Mapping[str, SecretManager | None]) -> tuple[SecretManager, ...]:
    return tuple(manager for manager in own.values() if manager)


def _full_name(rule: str, name: str) -> str:
    return f"{rule}/{name}"


def _own_managers(
    rule: str, given: ParsedFields, findings: Diagnostics
) -> dict[str, SecretManager | None]:
    spot: LocatedValue | None = given.get("secrets")
    if spot is None or not expect(spot, findings, "a map", Kind.MAP):
        return {}
    return {
        name: read_manager(member, _full_name(rule, name), findings)
        for name, member in spot.members()
    }
