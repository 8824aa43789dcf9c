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
from sync_stack.core.bundle.diagnostics import Diagnostics
from sync_stack.core.bundle.fields import ParsedFields
from sync_stack.core.bundle.model import CleanupAction, KeyFormat, Platform
from sync_stack.core.bundle.urls import BadUrl, clone_host, is_inner
from sync_stack.core.globs import BadGlob, check_glob, is_literal
from sync_stack.core.templates import NAMES, names_in, render

ENVIRONMENT_SOURCES: Final = (
    "branch_map",
    "file_path_map",
    "env_as_branch",
    "env_as_pr",
    "env_as_tags",
    "default_env",
)
_SINK_FLAGS: Final[Mapping[str, frozenset[str]]] = {
    "mongo": frozenset({"env_as_collection"}),
    "redis": frozenset({"env_as_key_prefix"}),
    "s3": frozenset({"env_as_prefix"}),
    "configmap": frozenset({"env_as_namespace", "env_as_name_suffix"}),
    "file": frozenset({"env_as_dir", "env_as_filename"}),
}
_ALL_SINK_FLAGS: Final = frozenset().union(*_SINK_FLAGS.values())
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
RESERVED_SEGMENT: Final = "schema-registry"  # the path of the schema registry's own webhooks
_HASH_TAG: Final = re.compile(r"\{[^{}]+\}")


def check_alone(given: ParsedFields, findings: Diagnostics) -> None:
    """Checks that need nothing but the rule."""
    if given.has("file_name") and given.has("file_path_map"):
        message = "file_name and file_path_map exclude each other"
        findings.error(given.at("file_path_map"), "mutually_exclusive", message)
    _check_segment(given, findings)
    _check_branches(given, findings)
    _check_template(given, findings)
    _check_forks(given, findings)
    _check_cleanup(given, findings)
    prune = given.get("prune") or {}
    for own, other in (("protection", "prune_protection"), ("dry_run", "dry_run_prune")):
        if own in prune and given.has(other):
            message = f"prune.{own} and {other} are one field"
            findings.error(given.at(other), "mutually_exclusive", message)


def _check_segment(given: ParsedFields, findings: Diagnostics) -> None:
    """The text in `datasource` is the last part of the path of the rule's webhooks."""
    if given.get("datasource") == RESERVED_SEGMENT:
        message = (
            f'"{RESERVED_SEGMENT}" is taken: /webhooks/{RESERVED_SEGMENT} is for the pushes of the '
            "schema registry; give the datasource another tag, or write its name"
        )
        findings.error(given.at("datasource"), "duplicate_name", message)


def _check_branches(given: ParsedFields, findings: Diagnostics) -> None:
    branches: Mapping[str, str] = given.get("branch_map", {})
    taken: dict[str, str] = {}
    for branch, env in branches.items():
        spot = given.at("branch_map").at(branch)
        try:
            check_glob(branch)
        except BadGlob as error:
            findings.error(spot, "bad_glob", str(error))
        if env in taken:
            message = f'"{taken[env]}" and "{branch}" both write to environment "{env}"'
            findings.warn(spot, "risky_setting", message)
        taken.setdefault(env, branch)


def _check_template(given: ParsedFields, findings: Diagnostics) -> None:
    template = given.get("destination_template", "")
    if "env" in names_in(template) and not any(given.get(name) for name in ENVIRONMENT_SOURCES):
        message = f"{{env}} needs one of {', '.join(ENVIRONMENT_SOURCES)}"
        findings.error(given.at("destination_template"), "env_source_missing", message)


def _check_forks(given: ParsedFields, findings: Diagnostics) -> None:
    if not given.get("pr_from_forks"):
        return
    spot = given.at("pr_from_forks")
    if given.get("env_as_pr"):
        findings.warn(spot, "risky_setting", "content of forks reaches a datasource")
    else:
        findings.warn(spot, "no_effect", "pr_from_forks counts only with env_as_pr")


def _check_cleanup(given: ParsedFields, findings: Diagnostics) -> None:
    cleanup = given.get("cleanup")
    for name, source in _CLEANUP_NEEDS.items() if cleanup else ():
        if cleanup.get(name) is CleanupAction.PRUNE and not given.get(source):
            findings.warn(cleanup.at(name), "no_effect", f"{name} counts only with {source}")


def check_against_sink(given: ParsedFields, sink: Datasource, findings: Diagnostics) -> None:
    """Checks of a rule with its datasource."""
    for name in sorted(_ALL_SINK_FLAGS - _SINK_FLAGS[sink.kind]):
        if given.has(name):
            findings.warn(given.at(name), "no_effect", f"a {sink.kind} datasource has no {name}")
    wanted = given.get("key_format")
    if wanted and wanted not in _KEY_FORMATS[sink.kind]:
        known = ", ".join(_KEY_FORMATS[sink.kind])
        message = f"a {sink.kind} datasource takes {known}, not {wanted}"
        findings.error(given.at("key_format"), "bad_enum", message)
    if isinstance(sink.options, RedisOptions):
        _check_redis(given, sink, sink.options, findings)


def _check_redis(
    given: ParsedFields, sink: Datasource, options: RedisOptions, findings: Diagnostics
) -> None:
    if options.ttl_s and given.get("self_heal"):
        message = "keys expire by ttl, and the watcher does not bring them back"
        findings.warn(given.at("self_heal"), "risky_setting", message)
    by_key = (
        sink.update_strategy is UpdateStrategy.KEY_VALUE
        and options.data_structure is RedisStructure.STRING
    )
    if not by_key or options.mode is not RedisMode.CLUSTER:
        return
    template = given.get("destination_template", "")
    name = render(template, dict.fromkeys(NAMES, "x")) if template else options.key_prefix
    if not _HASH_TAG.search(name):
        message = "STRING on a cluster needs a hash tag in the destination, such as {{{repo}}}"
        findings.error(given.at("destination_template"), "bad_template", message)


def check_repo_url(
    given: ParsedFields,
    repositories: tuple[str, ...],
    platform: Platform | None,
    findings: Diagnostics,
) -> None:
    """A clone URL of its own belongs to one repository, on the platform's host."""
    url = given.get("repo_url")
    if not url:
        return
    spot = given.at("repo_url")
    if len(repositories) != 1 or not is_literal(repositories[0]):
        message = "repo_url needs exactly one repository without wildcards"
        findings.error(spot, "mutually_exclusive", message)
    if platform is None:
        return
    try:
        host = clone_host(url)
    except BadUrl:
        return  # said when it was read
    expected = urlsplit(platform.endpoint).hostname or ""
    if host != expected:
        message = f'"{host}" is not the host of the platform, "{expected}"'
        findings.error(spot, "out_of_range", message)


def check_repo_url_in_production(given: ParsedFields, findings: Diagnostics) -> None:
    """As for endpoints: http only to private addresses, never files."""
    parts = urlsplit(given.get("repo_url", ""))
    if parts.scheme == "file" or (parts.scheme == "http" and not is_inner(parts.hostname or "")):
        message = "in production https or ssh is required, http only to private addresses"
        findings.error(given.at("repo_url"), "production_requirement", message)
