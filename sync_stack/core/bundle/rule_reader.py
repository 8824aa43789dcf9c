"""Rules read from the bundle: references, identity, and what their fields must agree on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlsplit

from readers.tree import Kind
from sync_stack.core.bundle.datasources import Datasource, datasource_kinds
from sync_stack.core.bundle.diagnostics import InvalidValue, LocatedValue
from sync_stack.core.bundle.fields import BundleEntries, ParsedFields, read_fields
from sync_stack.core.bundle.model import DisabledRule
from sync_stack.core.bundle.platforms import Platform
from sync_stack.core.bundle.rules import (
    RESERVED_SEGMENT,
    RULE,
    SINK_FLAGS,
    CleanupAction,
    Prune,
    Rule,
)
from sync_stack.core.bundle.secret_managers import SecretManager, read_manager
from sync_stack.core.bundle.urls import clone_host, is_inner
from sync_stack.core.bundle.values import expect
from sync_stack.core.globs import BadGlob, check_glob, is_literal
from sync_stack.core.templates import names_in

_ENVIRONMENT_SOURCES: Final = (
    *("branch_map", "file_path_map", "env_as_branch", "env_as_pr", "env_as_tags", "default_env"),
)
_CLEANUP_NEEDS: Final = {
    "on_branch_delete": "env_as_branch",
    "on_tag_delete": "env_as_tags",
    "on_pr_close": "env_as_pr",
}


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


def read_rules(located: LocatedValue | None, context: RuleContext) -> list[ParsedRule]:
    """Read every rule; record an error for a second one of one name: they would share ledgers."""
    rules: dict[str, ParsedRule] = {}
    for item in located.items() if located else ():
        parsed = _read_rule(item, context)
        if parsed is None:
            continue
        first = rules.setdefault(parsed.rule.name, parsed)
        if first is not parsed:
            line = first.located.tree.line
            where = f" (the other one: line {line})" if line else ""
            message = f'a second rule "{parsed.rule.name}": give it a name of its own{where}'
            item.at("name").error("duplicate_rule", message)
    return list(rules.values())


def _read_rule(located: LocatedValue, context: RuleContext) -> ParsedRule | None:
    """Return None when something required is wrong."""
    parsed = read_fields(RULE, located)
    platform = context.platforms.resolve(parsed.at("platform")) if parsed.get("platform") else ""
    datasource = ""
    if segment := parsed.get("datasource"):
        datasource = context.datasources.resolve(parsed.at("datasource"))
    repositories, excluded = _repositories(parsed, context.org_names.get(platform, ""))
    _check_alone(parsed)
    if sink := context.datasources.built.get(datasource):
        _check_against_sink(parsed, sink)
    host = context.platforms.built.get(platform)
    _check_repo_url(parsed, repositories, host, production=context.production)
    if not parsed.complete or not platform or not datasource:
        return None
    name = parsed.get("name") or default_name(platform, datasource, parsed)
    managers, manager = _managers(name, parsed, context.managers)
    kind = context.datasources.kinds[datasource]
    if kind not in datasource_kinds:
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


def _check_alone(rule: ParsedFields) -> None:
    """Check what needs nothing but the rule."""
    if rule.has("file_name") and rule.has("file_path_map"):
        message = "file_name and file_path_map exclude each other"
        rule.at("file_path_map").error("mutually_exclusive", message)
    if rule.get("datasource") == RESERVED_SEGMENT:  # the last part of the path of its webhooks
        message = (
            f'"{RESERVED_SEGMENT}" is taken: /webhooks/{RESERVED_SEGMENT} is for the pushes of the '
            "schema registry; give the datasource another tag, or write its name"
        )
        rule.at("datasource").error("duplicate_name", message)
    template = rule.get("destination_template", "")
    if "env" in names_in(template) and not any(map(rule.get, _ENVIRONMENT_SOURCES)):
        message = f"{{env}} needs one of {', '.join(_ENVIRONMENT_SOURCES)}"
        rule.at("destination_template").error("env_source_missing", message)
    if rule.get("pr_from_forks"):
        code, message = "no_effect", "pr_from_forks counts only with env_as_pr"
        if rule.get("env_as_pr"):
            code, message = "risky_setting", "content of forks reaches a datasource"
        rule.at("pr_from_forks").warn(code, message)
    _check_branches(rule)
    _check_cleanup_and_prune(rule)


def _check_branches(rule: ParsedFields) -> None:
    branches: Mapping[str, str] = rule.get("branch_map", {})
    taken: dict[str, str] = {}
    for branch, env in branches.items():
        located = rule.at("branch_map").at(branch)
        try:
            check_glob(branch)
        except BadGlob as error:
            located.error("bad_glob", str(error))
        if env in taken:
            message = f'"{taken[env]}" and "{branch}" both write to environment "{env}"'
            located.warn("risky_setting", message)
        taken.setdefault(env, branch)


def _check_cleanup_and_prune(rule: ParsedFields) -> None:
    cleanup: ParsedFields | None = rule.get("cleanup")
    for name, source in _CLEANUP_NEEDS.items() if cleanup else ():
        if cleanup and cleanup.get(name) is CleanupAction.PRUNE and not rule.get(source):
            cleanup.at(name).warn("no_effect", f"{name} counts only with {source}")
    prune: ParsedFields | None = rule.get("prune")
    for name, other in (("protection", "prune_protection"), ("dry_run", "dry_run_prune")):
        if prune and name in prune.values and rule.has(other):
            message = f"prune.{name} and {other} are one field"
            rule.at(other).error("mutually_exclusive", message)


def _check_against_sink(rule: ParsedFields, sink: Datasource) -> None:
    kind = datasource_kinds[sink.kind]
    for name in SINK_FLAGS:
        if rule.has(name) and name not in kind.flags:
            rule.at(name).warn("no_effect", f"a {sink.kind} datasource has no {name}")
    wanted = rule.get("key_format")
    if wanted and wanted not in kind.key_formats:
        known = ", ".join(kind.key_formats)
        message = f"a {sink.kind} datasource takes {known}, not {wanted}"
        rule.at("key_format").error("bad_enum", message)
    sink.options.check_rule(rule, sink.update_strategy)


def _check_repo_url(
    rule: ParsedFields,
    repositories: tuple[str, ...],
    platform: Platform | None,
    *,
    production: bool,
) -> None:
    """A clone URL of its own belongs to one repository, on the platform's host."""
    url = rule.get("repo_url", "")
    located, parts = rule.at("repo_url"), urlsplit(url)
    outer_http = parts.scheme == "http" and not is_inner(parts.hostname or "")
    if production and (parts.scheme == "file" or outer_http):
        message = "in production https or ssh is required, http only to private addresses"
        located.error("production_requirement", message)
    if url and (len(repositories) != 1 or not is_literal(repositories[0])):
        message = "repo_url needs exactly one repository without wildcards"
        located.error("mutually_exclusive", message)
    if not url or platform is None:
        return
    host, expected = clone_host(url), urlsplit(platform.endpoint).hostname or ""
    if host != expected:
        message = f'"{host}" is not the host of the platform, "{expected}"'
        located.error("out_of_range", message)
