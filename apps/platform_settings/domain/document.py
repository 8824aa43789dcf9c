"""configuration.yaml: the platform settings, checked and read as values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

from apps.platform_settings.domain.addresses import ENGINE, HTTP, broken_address_rule
from apps.platform_settings.domain.backends import BUILT_IN, Backend, Mode
from apps.platform_settings.domain.fields import DocumentEntry, Fields, SettingsContext
from apps.platform_settings.domain.keys import (
    AGENTS,
    CI_TRUST,
    INSTALLATION,
    OVERRIDES,
    REGISTRIES,
    SECRETS,
    SMTP,
    WORKSPACES,
    KeyGroup,
)
from apps.platform_settings.domain.registries import ImageRegistry
from apps.platform_settings.domain.secrets import Override, SecretManagers
from kernel.ci_trust import TrustRule, is_bound
from kernel.errors import FieldError
from readers import Unreadable
from readers.yaml import Node, read_yaml

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceShare:
    """A workspace gets places in proportion to its `weight`, and at most so many at once.

    A limit of 0 is none. A workspace that is not listed has the defaults.
    """

    workspace_id: str
    weight: int = 1
    max_concurrent_runs: int = 0
    max_concurrent_steps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpSettings:
    host: str
    port: int
    username: str
    password: str = field(repr=False)
    sender: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The settings. `agents` is empty when the file lists none."""

    mode: Mode = "local"
    agents: tuple[Backend, ...] = ()
    workspaces: tuple[WorkspaceShare, ...] = ()
    registries: tuple[ImageRegistry, ...] = ()
    ci_trust: tuple[TrustRule, ...] = ()
    overrides: tuple[Override, ...] = ()
    managers: SecretManagers = field(default_factory=SecretManagers)
    smtp: SmtpSettings | None = None

    @property
    def backends(self) -> tuple[Backend, ...]:
        """The enabled backends in the file's order, or else the built-in one."""
        return tuple(agent for agent in self.agents if agent.enabled) or (BUILT_IN,)


class SettingsInvalid(ValueError):
    """The file is invalid. The message is the first error: `configuration.yaml:3:5: …`."""

    def __init__(self, faults: list[FieldError]) -> None:
        first = faults[0]
        place = [str(part) for part in (first.file, first.line, first.column) if part]
        super().__init__(f"{':'.join(place)}: {first.detail}")
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True)
class SettingsTree:
    """A document as it was given. `file` is empty for one that is no file: it has no places."""

    root: Node = field(repr=False)
    file: str = ""

    def place(self, fault: FieldError) -> FieldError:
        """Return an error with file, line and column of what its pointer names.

        Where that is not written, they are of the mapping that does not have it.
        """
        if not self.file:
            return fault
        node = self.root
        for part in fault.pointer.split("/")[1:]:
            below = node.get(part) if node.items is None else node.items[int(part)]
            if below is None:
                break
            node = below
        return replace(fault, file=self.file, line=node.line, column=node.column)


NewSettings: TypeAlias = Mapping[str, Any] | SettingsTree  # what a client sends: JSON, or a file


def read_tree(text: str, file: str) -> SettingsTree:
    """Return a file's tree, of which nothing is checked yet; raise SettingsInvalid."""
    try:
        return SettingsTree(read_yaml(text), file)
    except Unreadable as error:
        line, column = error.line, error.column
        fault = FieldError(
            code="invalid_value", detail=error.reason, file=file, line=line, column=column
        )
        raise SettingsInvalid([fault]) from None


def read_file(text: str, file: str, context: SettingsContext) -> tuple[Document, SettingsTree]:
    """Return a checked file with its tree; raise SettingsInvalid with every error."""
    tree = read_tree(text, file)
    document, faults = interpret(tree.root, file, context)
    if faults:
        raise SettingsInvalid(faults)
    return document, tree


def interpret(
    root: Node, file: str, context: SettingsContext, *, needs_agents: bool = False
) -> tuple[Document, list[FieldError]]:
    """Return what the tree says, with defaults for invalid values, and every error."""
    fields = Fields(root, file, context)
    document = _document(fields)
    if needs_agents and not fields.faults and not document.agents:
        detail = "agents: at least one agent is required"
        fields.refuse(root.get("agents") or root, "/agents", "required", detail)
    return document, fields.faults


def _document(fields: Fields) -> Document:
    root = fields.mapping(())
    if root is None:
        return Document()
    agents = tuple(_agents(fields))
    if listed := root.get("agents"):
        _check_together(fields, listed, agents)
    registries = _entries(fields, REGISTRIES, ImageRegistry)
    installation = fields.entry(INSTALLATION)
    workspaces = _entries(fields, WORKSPACES, WorkspaceShare)
    ci_trust = tuple(_trust_rules(fields))
    overrides = _entries(fields, OVERRIDES, Override)
    managers, smtp = fields.entry(SECRETS), fields.entry(SMTP)
    return Document(
        **(installation.attributes if installation else {}),
        agents=agents,
        workspaces=workspaces,
        registries=registries,
        ci_trust=ci_trust,
        overrides=overrides,
        managers=SecretManagers(**(managers.attributes if managers else {})),
        smtp=SmtpSettings(**smtp.attributes) if smtp and smtp.values["host"] else None,
    )


def _entries(fields: Fields, group: KeyGroup, kind: Callable[..., T]) -> tuple[T, ...]:
    return tuple(kind(**entry.attributes) for entry in fields.entries(group))


def _trust_rules(fields: Fields) -> Iterator[TrustRule]:
    """Yield the rules; one with an error lets nobody in, instead of whom its defaults would."""
    for entry in fields.entries(CI_TRUST):
        rule, missing = TrustRule(**entry.attributes), {}
        if not is_bound(rule):
            missing["repositories"] = (
                "or a claim that names an owner, such as repository_owner=acme or "
                "sub=repo:acme/**: else every account of the issuer gets in"
            )
        if not rule.suites:
            missing["suites"] = "* stands for all of them"
        if any(f"{each.pointer}/".startswith(f"{entry.pointer}/") for each in fields.faults):
            continue
        for key, why in missing.items():
            detail = f"is required, {why}"
            fields.refuse_value(entry.node, entry.pointer, key, detail, "required")
        if not missing:
            yield rule


def _agents(fields: Fields) -> Iterator[Backend]:
    for entry in fields.entries(AGENTS):
        _check_type(fields, entry)
        yield Backend(**entry.attributes)


def _check_type(fields: Fields, entry: DocumentEntry) -> None:
    """Check what a type requires of the other keys; a missing type is an error."""
    node, pointer, kind = entry.node, entry.pointer, entry.values["type"]
    url = entry.values["hostUrl"]
    if node.get("type") is None:
        fields.refuse_value(node, pointer, "type", "is required", "required")
    elif kind == "remote-docker" and not url:
        fields.refuse_value(node, pointer, "hostUrl", "is required", "required")
    elif kind == "kubernetes" and not (url or fields.in_cluster or entry.values["kubeconfigPath"]):
        detail = "kubeconfigPath or hostUrl is required outside of a cluster"
        fields.refuse(node, f"{pointer}/kubeconfigPath", "required", detail)
    if not url or (kind != "kubernetes" and url.startswith("/")):  # the path of a socket
        return
    if rule := broken_address_rule(url, HTTP if kind == "kubernetes" else ENGINE):
        fields.refuse_value(node, pointer, "hostUrl", rule)


def _check_together(fields: Fields, listed: Node, agents: tuple[Backend, ...]) -> None:
    enabled = [agent for agent in agents if agent.enabled]
    if agents and not enabled:
        fields.refuse(listed, "/agents", "invalid_value", "at least one agent must be enabled")
    if sum(agent.default for agent in enabled) > 1:
        detail = "only one enabled agent may be the default"
        fields.refuse(listed, "/agents", "duplicate", detail)
