"""What the fields of a rule must agree on: with one another, with its sink, with its platform."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from sync_stack.core.bundle.datasources import (
    Datasource,
    RedisMode,
    RedisOptions,
    RedisStructure,
    UpdateStrategy,
)
from sync_stack.core.bundle.fields import ParsedFields
from sync_stack.core.bundle.platforms import Platform
from sync_stack.core.bundle.rules import CleanupAction, KeyFormat
from sync_stack.core.bundle.urls import clone_host, is_inner
from sync_stack.core.globs import BadGlob, check_glob, is_literal
from sync_stack.core.templates import NAMES, names_in, render

RESERVED_SEGMENT: Final = "schema-registry"  # the path of the schema registry's own webhooks
ENVIRONMENT_SOURCES: Final = (
    *("branch_map", "file_path_map", "env_as_branch", "env_as_pr", "env_as_tags", "default_env"),
)
_SINK_FLAGS: Final[Mapping[str, frozenset[str]]] = {
    "mongo": frozenset({"env_as_collection"}),
    "redis": frozenset({"env_as_key_prefix"}),
    "s3": frozenset({"env_as_prefix"}),
    "configmap": frozenset({"env_as_namespace", "env_as_name_suffix"}),
    "file": frozenset({"env_as_dir", "env_as_filename"}),
}
_KEY_FORMATS: Final[Mapping[str, tuple[KeyFormat, ...]]] = {
    "mongo": (KeyFormat.DOT,),
    "redis": (KeyFormat.DOT, KeyFormat.FLAT),
    "s3": (KeyFormat.DOT,),
    "configmap": (KeyFormat.FLAT, KeyFormat.DOT),
    "file": (KeyFormat.DOT, KeyFormat.FLAT),
}
_CLEANUP_NEEDS: Final = {
    "on_branch_delete": "env_as_branch",
    "on_tag_delete": "env_as_tags",
    "on_pr_close": "env_as_pr",
}
_HASH_TAG: Final = re.compile(r"\{[^{}]+\}")


def check_alone(rule: ParsedFields) -> None:
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
    if "env" in names_in(template) and not any(map(rule.get, ENVIRONMENT_SOURCES)):
        message = f"{{env}} needs one of {', '.join(ENVIRONMENT_SOURCES)}"
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


def check_against_sink(rule: ParsedFields, sink: Datasource) -> None:
    for kind, flags in _SINK_FLAGS.items():
        for name in flags if kind != sink.kind else ():
            if rule.has(name):
                rule.at(name).warn("no_effect", f"a {sink.kind} datasource has no {name}")
    wanted = rule.get("key_format")
    if wanted and wanted not in _KEY_FORMATS[sink.kind]:
        known = ", ".join(_KEY_FORMATS[sink.kind])
        message = f"a {sink.kind} datasource takes {known}, not {wanted}"
        rule.at("key_format").error("bad_enum", message)
    if isinstance(sink.options, RedisOptions):
        _check_redis(rule, sink, sink.options)


def _check_redis(rule: ParsedFields, sink: Datasource, options: RedisOptions) -> None:
    if options.ttl_s and rule.get("self_heal"):
        message = "keys expire by ttl, and the watcher does not bring them back"
        rule.at("self_heal").warn("risky_setting", message)
    by_key = (
        sink.update_strategy is UpdateStrategy.KEY_VALUE
        and options.data_structure is RedisStructure.STRING
    )
    if not by_key or options.mode is not RedisMode.CLUSTER:
        return
    template = rule.get("destination_template", "")
    name = render(template, dict.fromkeys(NAMES, "x")) if template else options.key_prefix
    if not _HASH_TAG.search(name):
        message = "STRING on a cluster needs a hash tag in the destination, such as {{{repo}}}"
        rule.at("destination_template").error("bad_template", message)


def check_repo_url(
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
