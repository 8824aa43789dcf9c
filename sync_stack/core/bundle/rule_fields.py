"""The fields of a rule."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from readers.tree import Kind
from sync_stack.core.bundle.diagnostics import Diagnostics, LocatedValue
from sync_stack.core.bundle.fields import Field, Group, Table
from sync_stack.core.bundle.file_maps import one_file, read_file_map
from sync_stack.core.bundle.model import (
    Cleanup,
    CleanupAction,
    EnvSlice,
    KeyFormat,
    OnMissingFile,
    Prune,
    Rule,
    SyncMode,
    Variable,
    VariableForm,
)
from sync_stack.core.bundle.urls import BadUrl, clone_host
from sync_stack.core.bundle.values import (
    ENVIRONMENT,
    GLOB,
    INVALID,
    NAME,
    OPTIONAL_TEXT,
    Anything,
    Checked,
    Choice,
    Duration,
    Flag,
    Listed,
    Mapped,
    Number,
    OneOrMore,
    Text,
    Whole,
    expect,
)
from sync_stack.core.templates import names_in


class FileFormatName(StrEnum):
    AUTO = "auto"
    YAML = "yaml"
    JSON = "json"
    JSONC = "jsonc"
    TOML = "toml"
    INI = "ini"
    ENV = "env"
    PROPERTIES = "properties"
    XML = "xml"
    HCL = "hcl"


class Overridable(StrEnum):
    """What `partita.json` may say (reference: sync-stack 4.9)."""

    BRANCH_MAP = "branch_map"
    ENV_AS_BRANCH = "env_as_branch"
    ENV_AS_PR = "env_as_pr"
    ENV_AS_TAGS = "env_as_tags"
    FILE_NAME = "file_name"
    FILE_PATH_MAP = "file_path_map"
    ROOT_KEY = "root_key"
    SYNC_MODE = "sync_mode"
    VARIABLES_MAP = "variables_map"
    STRICT_VALIDATION = "strict_validation"
    DRY_RUN = "dry_run"
    PRUNE = "prune"


def template(text: str) -> str:
    """Raises BadTemplate."""
    names_in(text)
    return text


def clone_url(text: str) -> str:
    """Raises BadUrl."""
    if not clone_host(text) and not text.startswith("file:"):
        raise BadUrl("expected a clone URL with a host")
    return text


def read_variable(spot: LocatedValue, findings: Diagnostics) -> Any:
    """A text, `{from: key}` or `{literal: text}`."""
    if spot.kind is Kind.STRING:
        return Variable(text=spot.text)
    if not expect(spot, findings, "text, {from} or {literal}", Kind.MAP, Kind.STRING):
        return INVALID
    members = list(spot.members())
    if len(members) != 1 or members[0][0] not in ("from", "literal"):
        findings.error(spot, "wrong_type", "expected exactly one of {from} and {literal}")
        return INVALID
    form, member = members[0]
    if not expect(member, findings, "text", Kind.STRING):
        return INVALID
    return Variable(text=member.text, form=VariableForm(form))


def read_prune(spot: LocatedValue, findings: Diagnostics) -> Any:
    """A bool, or a map: then it is on unless `enabled` says no."""
    if spot.kind is Kind.BOOL:
        return {"enabled": spot.text == "true"}
    if not expect(spot, findings, "a bool or a map", Kind.BOOL, Kind.MAP):
        return INVALID
    given = Group(PRUNE).read(spot, findings)
    return INVALID if given is INVALID else {"enabled": True, **given.values}


def read_allowed(spot: LocatedValue, findings: Diagnostics) -> Any:
    if spot.kind is Kind.BOOL:
        return spot.text == "true"
    named = Listed(Choice(Overridable)).read(spot, findings)
    return INVALID if named is INVALID else tuple(str(name) for name in named)


def _read_overrides(spot: LocatedValue, findings: Diagnostics) -> Any:
    return Listed(Group(OVERRIDE)).read(spot, findings)


def _read_repository_overrides(spot: LocatedValue, findings: Diagnostics) -> Any:
    return Mapped(Group(REPOSITORY_OVERRIDE)).read(spot, findings)


_PROTECTION: Final = Listed(GLOB)
PRUNE: Final = Table(
    title="rule prune",
    model=Prune,
    fields=(
        Field(name="enabled", value=Flag(), default="true in a map"),
        Field(name="dry_run", value=Flag(), words="Only reports candidates"),
        Field(name="protection", value=_PROTECTION, words="Keys (dot form) that stay"),
        Field(name="max_delete_ratio", value=Number(0, 1), words="Of the owned keys"),
        Field(name="max_delete_floor", value=Whole(0, 50_000), words="So many are always allowed"),
        Field(name="allow_empty", value=Flag(), words="A file without keys may empty a unit"),
        Field(name="last", value=Flag(), no_effect=True, default="–", words="No effect"),
    ),
)
_ACTION: Final = Choice(CleanupAction)
CLEANUP: Final = Table(
    title="rule cleanup",
    model=Cleanup,
    fields=(
        Field(name="on_branch_delete", value=_ACTION),
        Field(name="on_tag_delete", value=_ACTION),
        Field(name="on_pr_close", value=_ACTION),
    ),
)
OVERRIDE: Final = Table(
    title="rule overrides",
    fields=(
        Field(name="match_repositories", value=Listed(GLOB), default="[]"),
        Field(name="exclude_repositories", value=Listed(GLOB), default="[]"),
        Field(name="enable", value=Flag(), default="true"),
    ),
)
REPOSITORY_OVERRIDE: Final = Table(
    title="rule repository_overrides",
    fields=(Field(name="enabled", value=Flag(), default="true"),),
)
_SLUG: Final = Text(
    words="a slug ([a-z0-9._-], at most 63)",
    pattern=r"(?!.*\.\.)[a-z0-9_](?:[a-z0-9._-]{0,61}[a-z0-9_])?",
)
_SINK_FLAG: Final = "Overrides the datasource's field"
RULE: Final = Table(
    title="rule",
    model=Rule,
    fields=(
        Field(
            name="name",
            value=Text(
                words="a rule's name ([a-z0-9][a-z0-9._-]{0,62})",
                pattern=r"[a-z0-9][a-z0-9._-]{0,62}",
            ),
            default="`<platform>.<datasource>.<8 hex>`",
            words="Identity of the rule in ledger, API and logs",
        ),
        Field(name="platform", value=NAME, required=True, words="Name of a platform"),
        Field(
            name="datasource",
            value=NAME,
            required=True,
            words="Name of a datasource; the text written here is the last part of the route",
        ),
        Field(
            name="repositories",
            value=Listed(GLOB, at_least=1),
            required=True,
            words="Patterns of `owner/name`, in any case; `*` and `?` stop at `/`, `**` crosses it",
        ),
        Field(name="exclude_repositories", value=Listed(GLOB), words="Exclusion wins"),
        Field(
            name="overrides",
            value=Anything(
                "list of {match_repositories, exclude_repositories, enable}", _read_overrides
            ),
            default="[]",
            words="One with `enable: true` adds to both lists",
        ),
        Field(
            name="repository_overrides",
            value=Anything("map to {enabled}", _read_repository_overrides),
            default="{}",
            words="`{enabled: false}` excludes that repository",
        ),
        Field(
            name="repo_url",
            value=Checked("URL", clone_url),
            words="Replaces `<endpoint>/<repo>.git`: same host, one repository without wildcard",
        ),
        Field(name="tenant", aliases=("tenant_id",), value=_SLUG),
        Field(
            name="file_name",
            value=Checked("path", one_file, code="bad_glob"),
            words="The one tracked file",
        ),
        Field(
            name="file_path_map",
            value=Anything("map, or list of {path, env}", read_file_map),
            words="Paths or globs and their environments; env → path is understood too",
        ),
        Field(
            name="file_format",
            value=Choice(FileFormatName, prefixes=("FILE_FORMAT_",)),
            words="Of all files of the rule",
        ),
        Field(
            name="root_key",
            value=OPTIONAL_TEXT,
            default='"partita" where the file has it, else the whole file',
            words='Subtree to take; `""` is the whole file',
        ),
        Field(
            name="branches",
            aliases=("branch",),
            value=OneOrMore(Listed(GLOB, at_least=1)),
            default="the default branch",
            words="Branches that are listened to",
        ),
        Field(
            name="branch_map",
            value=Mapped(ENVIRONMENT),
            words="Branch or glob → environment",
        ),
        Field(name="env_as_branch", value=Flag(), words="The environment is the branch's slug"),
        Field(name="env_as_pr", value=Flag(), words="The environment is `pr-<number>`"),
        Field(name="env_as_tags", value=Flag(), words="The environment is the tag's slug"),
        Field(name="default_env", value=ENVIRONMENT, words="For refs that nothing else maps"),
        Field(
            name="env_slice",
            value=Choice(EnvSlice, prefixes=("ENV_SLICE_",)),
            words="Whether blocks of environments are looked for in files",
        ),
        Field(name="environments", value=Listed(ENVIRONMENT), words="More names for `env_slice`"),
        Field(
            name="pr_from_forks",
            value=Flag(),
            words="true lets content of forks reach a sink: `risky_setting`",
        ),
        Field(name="cleanup", value=Group(CLEANUP), default="keep"),
        Field(name="on_missing_file", value=Choice(OnMissingFile, prefixes=("ON_MISSING_FILE_",))),
        Field(
            name="adopt",
            value=Flag(),
            words="Unmarked documents, objects and files may be taken over",
        ),
        Field(
            name="destination_template",
            value=Checked("template", template, code="bad_template"),
            words="`{env} {tenant} {owner} {repo} {branch} {platform} {datasource}`; `{{` and `}}` "
            "are braces",
        ),
        Field(
            name="key_format",
            value=Choice(KeyFormat, prefixes=("KEY_FORMAT_",)),
            default="of the sink",
        ),
        Field(
            name="variables_map",
            value=Mapped(Anything("text, {from} or {literal}", read_variable)),
            words="New flat key → old key or literal",
        ),
        Field(name="env_as_collection", value=Flag(), words=_SINK_FLAG),
        Field(name="env_as_namespace", value=Flag(), words=_SINK_FLAG),
        Field(name="env_as_name_suffix", value=Flag(), words=_SINK_FLAG),
        Field(name="env_as_key_prefix", value=Flag(), words=_SINK_FLAG),
        Field(name="env_as_prefix", value=Flag(), words=_SINK_FLAG),
        Field(name="env_as_dir", value=Flag(), words=_SINK_FLAG),
        Field(name="env_as_filename", value=Flag(), words=_SINK_FLAG),
        Field(
            name="sync_mode",
            value=Choice(
                SyncMode,
                prefixes=("SYNC_MODE_",),
                numbers={
                    0: SyncMode.AUTO,
                    1: SyncMode.GIT_UPSERT_ALL,
                    2: SyncMode.GIT_SMART_REPAIR,
                    3: SyncMode.LIVE_STATE,
                    4: SyncMode.AUTO,
                },
                renamed={"FULL": SyncMode.GIT_UPSERT_ALL},
            ),
        ),
        Field(
            name="prune",
            value=Anything("bool or map", read_prune),
            default="off",
            words="Whether keys that left Git are deleted",
        ),
        Field(
            name="prune_protection",
            value=_PROTECTION,
            default="–",
            words="Another way to write `prune.protection`",
        ),
        Field(
            name="dry_run_prune",
            value=Flag(),
            default="–",
            words="Another way to write `prune.dry_run`",
        ),
        Field(name="prune_last", value=Flag(), no_effect=True, default="–", words="No effect"),
        Field(name="dry_run", value=Flag(), words="Plan only, never write"),
        Field(name="self_heal", value=Flag(), words="The watcher repairs"),
        Field(name="strict_validation", value=Flag(), words="A failing schema stops the sync"),
        Field(
            name="allow_overrides",
            value=Anything("bool, or list of fields", read_allowed),
            words="Which fields `partita.json` may set",
        ),
        Field(name="secret_manager", value=NAME, words="Holds the secret values of its files"),
        Field(
            name="secrets",
            value=Anything("map name → vault settings", lambda spot, _findings: spot),
            default="{}",
            words="Secret managers of this rule only",
        ),
        Field(name="max_file_bytes", value=Whole(1, 16 * 2**20)),
        Field(name="max_changed_files", value=Whole(1, 10_000)),
        Field(
            name="retry_backoff",
            value=Duration(low=0.1, high=60),
            into="retry_backoff_s",
            words="Base delay between attempts",
        ),
    ),
)
