"""Rules of the bundle: which files of which repositories go where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Final

from readers.tree import Kind
from sync_stack.core.bundle.diagnostics import LocatedValue, Location
from sync_stack.core.bundle.fields import (
    ParsedFields,
    group,
    input_only,
    no_effect,
    option,
    read_fields,
    table_of,
)
from sync_stack.core.bundle.file_maps import FileEnvironment, one_file, read_file_map
from sync_stack.core.bundle.urls import BadUrl, clone_host
from sync_stack.core.bundle.values import (
    ENVIRONMENT,
    FLAG,
    GLOB,
    NAME,
    OPTIONAL_TEXT,
    ValueType,
    choice,
    choice_of,
    duration,
    expect,
    list_of,
    map_of,
    number,
    one_or_more,
    parsed_text,
    text,
    whole,
)
from sync_stack.core.formats import formats
from sync_stack.core.templates import names_in

RESERVED_SEGMENT: Final = "schema-registry"  # the path of the schema registry's own webhooks
OVERRIDABLE: Final = (  # what `partita.json` may say (reference: sync-stack 4.9)
    *("branch_map", "env_as_branch", "env_as_pr", "env_as_tags", "file_name", "file_path_map"),
    *("root_key", "sync_mode", "variables_map", "strict_validation", "dry_run", "prune"),
)


class SyncMode(StrEnum):
    GIT_UPSERT_ALL = "GIT_UPSERT_ALL"
    GIT_SMART_REPAIR = "GIT_SMART_REPAIR"
    LIVE_STATE = "LIVE_STATE"
    AUTO = "AUTO"


class EnvSlice(StrEnum):
    AUTO = "auto"
    OFF = "off"


class CleanupAction(StrEnum):
    KEEP = "keep"
    PRUNE = "prune"


class OnMissingFile(StrEnum):
    KEEP = "keep"
    FAIL = "fail"


class KeyFormat(StrEnum):
    DOT = "dot"
    FLAT = "flat"


class VariableForm(StrEnum):
    """The meaning of an entry of variables_map; AUTO: a rename when that flat key exists."""

    AUTO = "auto"
    FROM = "from"
    LITERAL = "literal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    text: str
    form: VariableForm = VariableForm.AUTO


@dataclass(frozen=True, slots=True, kw_only=True)
class Prune:
    enabled: bool = option(FLAG, False, shown="true in a map")
    dry_run: bool = option(FLAG, False, "Only reports candidates")
    protection: tuple[str, ...] = option(list_of(GLOB), (), "Keys (dot form) that stay")
    max_delete_ratio: float = option(number(0, 1), 0.2, "Of the owned keys")
    max_delete_floor: int = option(whole(0, 50_000), 1, "So many are always allowed")
    allow_empty: bool = option(FLAG, False, "A file without keys may empty a target")
    last: ClassVar = no_effect()


_ACTION: Final = choice(CleanupAction)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanup:
    """What happens to a derived environment when its branch, tag or pull request is gone."""

    on_branch_delete: CleanupAction = option(_ACTION, CleanupAction.KEEP)
    on_tag_delete: CleanupAction = option(_ACTION, CleanupAction.KEEP)
    on_pr_close: CleanupAction = option(_ACTION, CleanupAction.KEEP)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternOverride:
    """More patterns of repositories, when it is enabled."""

    match_repositories: tuple[str, ...] = option(list_of(GLOB), ())
    exclude_repositories: tuple[str, ...] = option(list_of(GLOB), ())
    enable: bool = option(FLAG, True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryOverride:
    enabled: bool = option(FLAG, True)


PRUNE: Final = table_of("rule prune", Prune)
CLEANUP: Final = table_of("rule cleanup", Cleanup)
_OVERRIDES: Final = list_of(group(table_of("rule overrides", PatternOverride)))
_REPOSITORY_OVERRIDES: Final = map_of(
    group(table_of("rule repository_overrides", RepositoryOverride))
)


def template(written: str) -> str:
    """Return a template; raise BadTemplate."""
    names_in(written)
    return written


def clone_url(written: str) -> str:
    """Return a URL with a host, or of a file; raise BadUrl."""
    if not clone_host(written) and not written.startswith("file:"):
        raise BadUrl("expected a clone URL with a host")
    return written


def read_variable(located: LocatedValue) -> Variable:
    """Read a text, `{from: key}` or `{literal: text}`."""
    expect(located, "text, {from} or {literal}", Kind.MAP, Kind.STRING)
    if located.kind is Kind.STRING:
        return Variable(text=located.text)
    form = next(iter(located.tree.pairs), "")
    if len(located.tree.pairs) != 1 or form not in ("from", "literal"):
        raise located.error("wrong_type", "expected exactly one of {from} and {literal}")
    return Variable(text=expect(located.at(form), "text", Kind.STRING), form=VariableForm(form))


def read_prune(located: LocatedValue) -> ParsedFields:
    """Read a bool, or a map: then it is on unless `enabled` says no."""
    expect(located, "a bool or a map", Kind.BOOL, Kind.MAP)
    if located.kind is Kind.BOOL:
        enabled = {"enabled": located.text == "true"}
        return ParsedFields(located=located, values=enabled, written={}, model=Prune)
    parsed = read_fields(PRUNE, located)
    parsed.values.setdefault("enabled", True)
    return parsed


def read_allowed(located: LocatedValue) -> bool | tuple[str, ...]:
    one_type = FLAG if located.kind is Kind.BOOL else list_of(choice(OVERRIDABLE))
    allowed: bool | tuple[str, ...] = one_type.read(located)
    return allowed


_RULE_NAME: Final = text("a rule's name ([a-z0-9][a-z0-9._-]{0,62})", r"[a-z0-9][a-z0-9._-]{0,62}")
_SLUG: Final = text(
    "a slug ([a-z0-9._-], at most 63)", r"(?!.*\.\.)[a-z0-9_](?:[a-z0-9._-]{0,61}[a-z0-9_])?"
)
_SINK_FLAG: Final = "Overrides the datasource's field"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Which files of which repositories go where.

    `datasource` is a name of the bundle's list, `segment` the text written in its place: the last
    part of the route. `repositories` and `exclude_repositories` (which wins) have overrides and
    org_name applied. `env_as_*` of a sink, when not None, override the datasource's.
    `key_format` None: the sink's default. `secret_manager`: a name of Bundle.secret_managers.
    """

    segment: str
    name: str = option(
        _RULE_NAME,
        "",
        "Identity of the rule in ledger, API and logs",
        shown="`<platform>.<datasource>.<8 hex>`",
    )
    platform: str = option(NAME, description="Name of a platform")
    datasource: str = option(
        NAME,
        description="Name of a datasource; the text written here is the last part of the route",
    )
    repositories: tuple[str, ...] = option(
        list_of(GLOB, at_least=1),
        description="Patterns of `owner/name`, in any case; `*` and `?` stop at `/`, "
        "`**` crosses it",
    )
    exclude_repositories: tuple[str, ...] = option(list_of(GLOB), (), "Exclusion wins")
    overrides: ClassVar = input_only(
        ValueType("list of {match_repositories, exclude_repositories, enable}", _OVERRIDES.read),
        "One with `enable: true` adds to both lists",
        shown="[]",
    )
    repository_overrides: ClassVar = input_only(
        ValueType("map to {enabled}", _REPOSITORY_OVERRIDES.read),
        "`{enabled: false}` excludes that repository",
        shown="{}",
    )
    repo_url: str = option(
        parsed_text("URL", clone_url),
        "",
        "Replaces `<endpoint>/<repo>.git`: same host, one repository without wildcard",
    )
    tenant: str = option(_SLUG, "default", aliases="tenant_id")
    file_name: str = option(parsed_text("path", one_file, "bad_glob"), "", "The one tracked file")
    file_path_map: tuple[FileEnvironment, ...] = option(
        ValueType("map, or list of {path, env}", read_file_map),
        (),
        "Paths or globs and their environments; env → path is understood too",
    )
    file_format: str = option(
        choice_of(lambda: ("auto", *formats), "FILE_FORMAT_"), "auto", "Of all files of the rule"
    )
    root_key: str | None = option(
        OPTIONAL_TEXT,
        None,
        'Subtree to take; `""` is the whole file',
        shown='"partita" where the file has it, else the whole file',
    )
    branches: tuple[str, ...] = option(
        one_or_more(GLOB),
        (),
        "Branches that are listened to",
        aliases="branch",
        shown="the default branch",
    )
    branch_map: Mapping[str, str] = option(
        map_of(ENVIRONMENT), dict, "Branch or glob → environment"
    )
    env_as_branch: bool = option(FLAG, False, "The environment is the branch's slug")
    env_as_pr: bool = option(FLAG, False, "The environment is `pr-<number>`")
    env_as_tags: bool = option(FLAG, False, "The environment is the tag's slug")
    default_env: str = option(ENVIRONMENT, "", "For refs that nothing else maps")
    env_slice: EnvSlice = option(
        choice(EnvSlice, "ENV_SLICE_"),
        EnvSlice.AUTO,
        "Whether blocks of environments are looked for in files",
    )
    environments: tuple[str, ...] = option(list_of(ENVIRONMENT), (), "More names for `env_slice`")
    pr_from_forks: bool = option(
        FLAG, False, "true lets content of forks reach a sink: `risky_setting`"
    )
    cleanup: Cleanup = option(group(CLEANUP), Cleanup(), shown="keep")
    on_missing_file: OnMissingFile = option(
        choice(OnMissingFile, "ON_MISSING_FILE_"),
        OnMissingFile.KEEP,
        "Keys of a missing file: kept and no longer watched, or the task fails",
    )
    adopt: bool = option(FLAG, False, "Unmarked documents, objects and files may be taken over")
    destination_template: str = option(
        parsed_text("template", template, "bad_template"),
        "",
        "`{env} {tenant} {owner} {repo} {branch} {platform} {datasource}`; `{{` and `}}` "
        "are braces",
    )
    key_format: KeyFormat | None = option(
        choice(KeyFormat, "KEY_FORMAT_"), None, shown="of the sink"
    )
    variables_map: Mapping[str, Variable] = option(
        map_of(ValueType("text, {from} or {literal}", read_variable)),
        dict,
        "New flat key → old key or literal",
    )
    env_as_collection: bool | None = option(FLAG, None, _SINK_FLAG)
    env_as_namespace: bool | None = option(FLAG, None, _SINK_FLAG)
    env_as_name_suffix: bool | None = option(FLAG, None, _SINK_FLAG)
    env_as_key_prefix: bool | None = option(FLAG, None, _SINK_FLAG)
    env_as_prefix: bool | None = option(FLAG, None, _SINK_FLAG)
    env_as_dir: bool | None = option(FLAG, None, _SINK_FLAG)
    env_as_filename: bool | None = option(FLAG, None, _SINK_FLAG)
    sync_mode: SyncMode = option(
        choice(SyncMode, "SYNC_MODE_", numbers=range(5), renamed={"FULL": SyncMode.GIT_UPSERT_ALL}),
        SyncMode.AUTO,
    )
    prune: Prune = option(
        ValueType("bool or map", read_prune),
        Prune(),
        "Whether keys that left Git are deleted",
        shown="off",
    )
    prune_protection: ClassVar = input_only(
        list_of(GLOB), "Another way to write `prune.protection`"
    )
    dry_run_prune: ClassVar = input_only(FLAG, "Another way to write `prune.dry_run`")
    prune_last: ClassVar = no_effect()
    dry_run: bool = option(FLAG, False, "Plan only, never write")
    self_heal: bool = option(FLAG, False, "The watcher repairs")
    strict_validation: bool = option(FLAG, False, "A failing schema stops the sync")
    allow_overrides: bool | tuple[str, ...] = option(
        ValueType("bool, or list of fields", read_allowed),
        False,
        "Which fields `partita.json` may set",
    )
    secret_manager: str = option(NAME, "", "Holds the secret values of its files")
    secrets: ClassVar = input_only(
        ValueType("map name → vault settings", lambda located: located),
        "Secret managers of this rule only",
        shown="{}",
    )
    max_file_bytes: int = option(whole(1, 16 * 2**20), 2**20)
    max_changed_files: int = option(whole(1, 10_000), 500)
    retry_backoff_s: float = option(
        duration(0.1, 60), 2.0, "Base delay between attempts", name="retry_backoff"
    )
    location: Location = field(default=Location(), compare=False, repr=False)


RULE: Final = table_of("rule", Rule)
SINK_FLAGS: Final = (  # which of them a sink has, its options say
    *("env_as_collection", "env_as_namespace", "env_as_name_suffix", "env_as_key_prefix"),
    *("env_as_prefix", "env_as_dir", "env_as_filename"),
)
