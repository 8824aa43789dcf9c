"""Rules read from the bundle: what they refer to, their patterns, their identity."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace

from readers.tree import Kind
from sync_stack.core.bundle.datasources import UNSUPPORTED, Datasource
from sync_stack.core.bundle.diagnostics import InvalidValue, LocatedValue
from sync_stack.core.bundle.entries import BundleEntries
from sync_stack.core.bundle.fields import ParsedFields, read_fields
from sync_stack.core.bundle.model import DisabledRule
from sync_stack.core.bundle.platforms import Platform
from sync_stack.core.bundle.rule_checks import check_against_sink, check_alone, check_repo_url
from sync_stack.core.bundle.rules import RULE, Prune, Rule
from sync_stack.core.bundle.secret_managers import SecretManager, read_manager
from sync_stack.core.bundle.values import expect


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleContext:
    """What rules may refer to."""

    platforms: BundleEntries[Platform]
    datasources: BundleEntries[Datasource]
    managers: BundleEntries[SecretManager]
    org_names: dict[str, str]  # by platform
    production: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRule:
    """One rule of the file, in use or disabled."""

    rule: Rule | DisabledRule
    located: LocatedValue
    managers: tuple[SecretManager, ...] = ()


def read_rule(located: LocatedValue, context: RuleContext) -> ParsedRule | None:
    """Return None when something required is wrong."""
    parsed = read_fields(RULE, located)
    platform = context.platforms.resolve(parsed.at("platform")) if parsed.get("platform") else ""
    datasource = ""
    if segment := parsed.get("datasource"):
        datasource = context.datasources.resolve(parsed.at("datasource"))
    repositories, excluded = _repositories(parsed, context.org_names.get(platform, ""))
    check_alone(parsed)
    if sink := context.datasources.built.get(datasource):
        check_against_sink(parsed, sink)
    host = context.platforms.built.get(platform)
    check_repo_url(parsed, repositories, host, production=context.production)
    if not parsed.complete or not platform or not datasource:
        return None
    name = parsed.get("name") or default_name(platform, datasource, parsed)
    managers, manager = _managers(name, parsed, context.managers)
    kind = context.datasources.kinds[datasource]
    if kind in UNSUPPORTED:
        reason = f"this build cannot write to {kind}"
        disabled = DisabledRule(name=name, segment=segment, reason=reason)
        return ParsedRule(rule=disabled, located=located)
    rule: Rule = parsed.build(
        name=name,
        platform=platform,
        datasource=datasource,
        segment=segment,
        repositories=repositories,
        exclude_repositories=excluded,
        prune=_prune(parsed),
        secret_manager=manager,
        location=located.location,
    )
    return ParsedRule(rule=rule, located=located, managers=managers)


def default_name(platform: str, datasource: str, parsed: ParsedFields) -> str:
    """Return `<platform>.<datasource>.<8 hex>` of what the rule syncs and where to."""
    files = [[entry.path, entry.env] for entry in parsed.get("file_path_map", ())]
    identity = {
        "destination_template": parsed.get("destination_template"),
        "file_name": parsed.get("file_name"),
        "file_path_map": files or None,
        "repositories": list(parsed.get("repositories", ())),
    }
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"{platform}.{datasource}.{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def check_duplicates(rules: list[ParsedRule]) -> None:
    """Record an error for each second rule of one identity: they would share ledgers."""
    first: dict[str, LocatedValue] = {}
    for entry in rules:
        name = entry.rule.name
        if name in first:
            line = first[name].tree.line
            where = f" (the other one: line {line})" if line else ""
            message = f'a second rule "{name}": give it a name of its own{where}'
            entry.located.at("name").error("duplicate_rule", message)
        first.setdefault(name, entry.located)


def _prune(parsed: ParsedFields) -> Prune:
    nested: ParsedFields | None = parsed.get("prune")
    values = dict(nested.values) if nested else {}
    for name, other in (("protection", "prune_protection"), ("dry_run", "dry_run_prune")):
        if other in parsed.values:
            values[name] = parsed.get(other)
    return Prune(**values)


def _repositories(parsed: ParsedFields, org_name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the patterns that count and those that are excluded, overrides applied."""
    wanted = _patterns(parsed, "repositories", org_name)
    excluded = _patterns(parsed, "exclude_repositories", org_name)
    for override in parsed.get("overrides", ()):
        if override.get("enable", True):
            wanted += _patterns(override, "match_repositories", org_name)
            excluded += _patterns(override, "exclude_repositories", org_name)
    for name, override in parsed.get("repository_overrides", {}).items():
        if not override.get("enabled", True):
            excluded.append(_with_owner(name, override.located, org_name))
    return tuple(dict.fromkeys(wanted)), tuple(dict.fromkeys(excluded))


def _patterns(parsed: ParsedFields, name: str, org_name: str) -> list[str]:
    if name not in parsed.values:
        return []
    return [_with_owner(item.text, item, org_name) for item in parsed.at(name).items()]


def _with_owner(pattern: str, located: LocatedValue, org_name: str) -> str:
    if ".*" in pattern:
        message = f'"{pattern}" looks like a regular expression; "." is itself here'
        located.warn("looks_like_regex", message)
    if "/" in pattern or "**" in pattern:
        return pattern
    if org_name:
        return f"{org_name}/{pattern}"
    message = f'"{pattern}" matches no owner/name: write "{pattern}/*", or set org_name'
    located.error("bad_glob", message)
    return pattern


def _managers(
    rule: str, parsed: ParsedFields, managers: BundleEntries[SecretManager]
) -> tuple[tuple[SecretManager, ...], str]:
    """Return the rule's own secret managers, and the name of the one that holds its secrets."""
    own = _own_managers(rule, parsed.get("secrets"))
    built = tuple(manager for manager in own.values() if manager)
    if not parsed.has("secret_manager"):
        only = [f"{rule}/{name}" for name in own] or list(managers.kinds)
        return built, only[0] if len(only) == 1 else ""
    located = parsed.at("secret_manager")
    if parsed.get("secret_manager") in own:
        return built, f"{rule}/{located.text}"
    kinds = managers.kinds | dict.fromkeys(own, "vault")
    return built, replace(managers, kinds=kinds).resolve(
        located
    ) if located.kind is Kind.STRING else ""


def _own_managers(rule: str, located: LocatedValue | None) -> dict[str, SecretManager | None]:
    try:
        if located:
            expect(located, "a map", Kind.MAP)
    except InvalidValue:
        return {}
    members = located.members() if located else ()
    return {name: read_manager(member, f"{rule}/{name}") for name, member in members}
