"""configuration.yaml: the platform settings, checked and read as values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, cast, get_args

from apps.platform_settings.domain.addresses import ENGINE, HTTP, broken_address_rule
from apps.platform_settings.domain.backends import BUILT_IN, KIND_OF_TYPE, Backend, Mode
from apps.platform_settings.domain.fields import Fields, Surroundings
from apps.platform_settings.domain.mail import SmtpSettings, read_smtp
from apps.platform_settings.domain.registries import ImageRegistry, read_registries
from apps.platform_settings.domain.secrets import (
    Override,
    SecretManagers,
    read_managers,
    read_overrides,
)
from apps.platform_settings.domain.wire import AGENT, TOP, TYPE_ALIASES, names
from apps.platform_settings.domain.workspaces import WorkspaceShare, read_shares
from kernel.errors import FieldError
from kernel.ids import is_identifier
from readers import Unreadable
from readers.yaml import Node, read_yaml

_AGENT_KEYS: Final = names(AGENT)
_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The settings. `agents` is empty when the file lists none."""

    mode: Mode = "local"
    agents: tuple[Backend, ...] = ()
    workspaces: tuple[WorkspaceShare, ...] = ()
    registries: tuple[ImageRegistry, ...] = ()
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


def read_document(
    text: str, *, file: str, variables: Mapping[str, str], in_cluster: bool = False
) -> Document:
    """Read and check a file's text; raise SettingsInvalid with every error."""
    surroundings = Surroundings(variables=variables, in_cluster=in_cluster)
    return read_file(text, file, surroundings)[0]


def read_file(text: str, file: str, surroundings: Surroundings) -> tuple[Document, Node]:
    """Return a checked file with its tree; raise SettingsInvalid with every error."""
    try:
        root = read_yaml(text)
        document, faults = interpret(root, file, surroundings)
    except Unreadable as error:
        line, column = error.line, error.column
        fault = FieldError(
            code="invalid_value", detail=error.reason, file=file, line=line, column=column
        )
        raise SettingsInvalid([fault]) from None
    if faults:
        raise SettingsInvalid(faults)
    return document, root


def interpret(
    root: Node, file: str, surroundings: Surroundings, *, needs_agents: bool = False
) -> tuple[Document, list[FieldError]]:
    """Return what the tree says, with defaults for invalid values, and every error."""
    fields = Fields(file, surroundings)
    document = _document(fields, root)
    if needs_agents and not fields.faults and not document.agents:
        detail = "agents: at least one agent is required"
        fields.refuse(root.get("agents") or root, "/agents", "required", detail)
    return document, fields.faults


def _document(fields: Fields, root: Node) -> Document:
    if root.is_null or not fields.known_keys(root, "", TOP):
        return Document()
    agents = tuple(_agents(fields, root))
    if listed := root.get("agents"):
        _check_together(fields, listed, agents)
    registries = tuple(read_registries(fields, root))
    fields.text(root, "", "description")
    mode = fields.text(root, "", "mode") or "local"
    if mode not in get_args(Mode):
        fields.refuse_value(root, "", "mode", "must be local, remote or hybrid")
    return Document(
        mode=cast("Mode", mode),
        agents=agents,
        workspaces=tuple(read_shares(fields, root)),
        registries=registries,
        overrides=read_overrides(fields, root),
        managers=read_managers(fields, root),
        smtp=read_smtp(fields, root),
    )


def _agents(fields: Fields, root: Node) -> Iterator[Backend]:
    seen: set[str] = set()
    for node, pointer in fields.entries(root, "", "agents"):
        if not fields.known_keys(node, pointer, _AGENT_KEYS):
            continue
        agent = _agent(fields, node, pointer)
        if agent.backend_id in seen:
            fields.refuse(node, f"{pointer}/agentId", "duplicate", "agentId is used twice")
        seen.add(agent.backend_id)
        yield agent


def _agent(fields: Fields, node: Node, pointer: str) -> Backend:
    def text(key: str) -> str:
        return fields.text(node, pointer, key)

    return Backend(
        backend_id=_agent_id(fields, node, pointer),
        label=fields.require_text(node, pointer, "name"),
        type=_type(fields, node, pointer),
        description=text("description"),
        enabled=fields.flag(node, pointer, "enabled", default=True),
        default=fields.flag(node, pointer, "default", default=False),
        routing_tags=fields.texts(node, pointer, "routingTags"),
        docker_socket=text("dockerSocket"),
        host_url=text("hostUrl"),
        tls_cert=text("tlsCert"),
        tls_key=fields.secret(node, pointer, "tlsKey"),
        kubeconfig_path=text("kubeconfigPath"),
        kubeconfig_context=text("kubeconfigContext"),
        target_namespace=_namespace(fields, node, pointer),
        max_concurrent_runs=fields.place_limit(node, pointer, "maxConcurrentRuns"),
        max_concurrent_steps=fields.place_limit(node, pointer, "maxConcurrentSteps"),
        service_account_token=fields.secret(node, pointer, "serviceAccountToken"),
        shared_claim=text("sharedClaim"),
    )


def _namespace(fields: Fields, node: Node, pointer: str) -> str:
    name = fields.text(node, pointer, "targetNamespace") or "default"
    if not _NAMESPACE.match(name):
        detail = "may have lowercase letters, digits and dashes, 63 at most"
        fields.refuse_value(node, pointer, "targetNamespace", detail)
    return name


def _agent_id(fields: Fields, node: Node, pointer: str) -> str:
    agent_id = fields.require_text(node, pointer, "agentId")
    if agent_id and not is_identifier(agent_id):
        detail = "may have letters, digits, dots, dashes and underscores, 128 at most"
        fields.refuse_value(node, pointer, "agentId", detail)
    return agent_id


def _type(fields: Fields, node: Node, pointer: str) -> str:
    """Return the canonical type: `local` for an empty one; a missing one is an error."""
    text = fields.text(node, pointer, "type")
    kind = TYPE_ALIASES.get(text, text)
    if node.get("type") is None:
        fields.refuse_value(node, pointer, "type", "is required", "required")
    elif kind not in KIND_OF_TYPE:
        fields.refuse_value(node, pointer, "type", f"must be one of {', '.join(KIND_OF_TYPE)}")
    elif kind == "remote-docker":
        fields.require_text(node, pointer, "hostUrl")
    elif kind == "kubernetes":
        _check_cluster(fields, node, pointer)
    _check_address(fields, node, pointer, kind)
    return kind


def _check_address(fields: Fields, node: Node, pointer: str, kind: str) -> None:
    url = fields.text(node, pointer, "hostUrl")
    if not url or (kind != "kubernetes" and url.startswith("/")):  # the path of a socket
        return
    if rule := broken_address_rule(url, HTTP if kind == "kubernetes" else ENGINE):
        fields.refuse_value(node, pointer, "hostUrl", rule)


def _check_cluster(fields: Fields, node: Node, pointer: str) -> None:
    url = fields.text(node, pointer, "hostUrl")
    if not (url or fields.in_cluster or fields.text(node, pointer, "kubeconfigPath")):
        detail = "kubeconfigPath or hostUrl is required outside of a cluster"
        fields.refuse(node, f"{pointer}/kubeconfigPath", "required", detail)


def _check_together(fields: Fields, listed: Node, agents: tuple[Backend, ...]) -> None:
    enabled = [agent for agent in agents if agent.enabled]
    if agents and not enabled:
        fields.refuse(listed, "/agents", "invalid_value", "at least one agent must be enabled")
    if sum(agent.default for agent in enabled) > 1:
        detail = "only one enabled agent may be the default"
        fields.refuse(listed, "/agents", "duplicate", detail)
