"""The wire form of the settings: what file, API and store have in common (reference 4).

It has every key, in one order, with its default where it is not set. Secret texts (🔒) stand in it
in one of three forms: as they are, as `encrypted:<ciphertext>` (in the store and in the file), or
as the mask (towards clients). `${PARTITA_CONFIG_X}` is kept as it is written.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kernel.errors import FieldError
from readers.yaml import Node

Wire = dict[str, Any]

MASK: Final = "********"
ENCRYPTED: Final = "encrypted:"
TYPE_ALIASES: Final = {
    "": "local",
    "docker": "local",
    "k8s": "kubernetes",
    "remote": "remote-agent",
}


@dataclass(frozen=True, slots=True)
class Key:
    """A key with its default, whose type is the type of the value.

    `secret`: a text that nobody reads back. `private`: shown to administrators only. `read_only`:
    told by the platform, and ignored in what comes from outside.
    """

    name: str
    default: str | int | bool | tuple[str, ...] = ""
    secret: bool = False
    private: bool = False
    read_only: bool = False


AGENT: Final = (
    Key("agentId"),
    Key("name"),
    Key("type", "local"),
    Key("description"),
    Key("enabled", default=True),
    Key("default", default=False),
    Key("routingTags", ()),
    Key("dockerSocket"),
    Key("hostUrl"),
    Key("tlsCert"),
    Key("tlsKey", secret=True),
    Key("kubeconfigPath", private=True),
    Key("targetNamespace", "default"),
    Key("serviceAccountToken", secret=True),
    Key("status", read_only=True),
    Key("registeredAt", read_only=True),
    Key("lastHeartbeatAt", read_only=True),
    Key("runtimeCapabilities", (), read_only=True),
)
REGISTRY: Final = (
    Key("registryId"),
    Key("name"),
    Key("provider"),
    Key("registryUrl"),
    Key("username", private=True),
    Key("secret", secret=True),
    Key("repositoryScope"),
    Key("region"),
    Key("allowLocalNetwork", default=False),
    Key("syncStatus", read_only=True),
    Key("lastSyncedAt", read_only=True),
    Key("lastError", read_only=True),
)
SECRETS: Final = (
    Key("provider", "none"),
    Key("vaultAddress", private=True),
    Key("vaultNamespace"),
    Key("vaultRole"),
    Key("awsRegion"),
    Key("secretPrefix"),
)
OVERRIDE: Final = (
    Key("key"),
    Key("value"),
    Key("description"),
    Key("sensitive", default=False),
)
SMTP: Final = (
    Key("host"),
    Key("port", 587),
    Key("username", private=True),
    Key("password", secret=True),
    Key("from"),
)
TOP: Final = frozenset({
    "mode", "description", "agents", "registries", "secrets", "notifications", "updatedAt",
    "fileInSync",
})  # fmt: skip


class NotMergeable(ValueError):
    """A file cannot be written with other values and its comments."""


@dataclass(frozen=True, slots=True)
class Version:
    """A document as it is written, and with its secrets in the clear."""

    written: Wire
    meaning: Wire


def names(keys: Sequence[Key], *more: str) -> frozenset[str]:
    return frozenset({key.name for key in keys} | set(more))


def wire_of(root: Node) -> Wire:
    """Return the wire form of a document that was checked before."""
    secrets = root.get("secrets")
    smtp = (root.get("notifications") or root).get("smtp")
    return {
        "mode": _text(root.get("mode")) or "local",
        "description": _text(root.get("description")),
        "agents": [_agent(each) for each in _items(root.get("agents"))],
        "registries": [_entry(REGISTRY, each) for each in _items(root.get("registries"))],
        "secrets": _entry(SECRETS, secrets)
        | {
            "globalOverrides": [
                _entry(OVERRIDE, each)
                for each in _items(secrets.get("globalOverrides") if secrets else None)
            ]
        },
        "notifications": {"smtp": _entry(SMTP, smtp)},
    }


def default_wire() -> Wire:
    """Return what a first start without a file stores: the built-in backend."""
    agent = {"agentId": "local-docker", "name": "Local Docker", "type": "local", "default": True}
    return wire_of(node_of({"agents": [agent]}))


def node_of(value: object) -> Node:
    """Return a JSON value as the readers' tree, which has no places in a file.

    A key with the value null is left out.
    """
    if isinstance(value, Mapping):
        pairs = [
            (node_of(str(key)), node_of(each)) for key, each in value.items() if each is not None
        ]
        return Node(line=0, column=0, pairs=pairs)
    if isinstance(value, list | tuple):
        return Node(line=0, column=0, items=[node_of(each) for each in value])
    if isinstance(value, str):
        return Node(line=0, column=0, text=value)
    words = {None: "null", True: "true", False: "false"}
    word = words[value] if value is None or isinstance(value, bool) else str(value)
    return Node(line=0, column=0, text=word, plain=True)


@dataclass(frozen=True, slots=True)
class SecretPlace:
    """Where a secret text stands: its holder and key, who it belongs to, and its JSON pointer."""

    holder: Wire
    key: str
    identity: str  # the same whatever the order of the entries
    pointer: str

    @property
    def text(self) -> str:
        return str(self.holder[self.key])


def secret_places(wire: Wire) -> Iterator[SecretPlace]:
    """Yield every place of a secret text, set or not."""
    for index, agent in enumerate(wire["agents"]):
        yield from _secrets_of(AGENT, agent, f"agents[{agent['agentId']}]", f"/agents/{index}")
    for index, registry in enumerate(wire["registries"]):
        owner = f"registries[{registry['registryId']}]"
        yield from _secrets_of(REGISTRY, registry, owner, f"/registries/{index}")
    for index, override in enumerate(wire["secrets"]["globalOverrides"]):
        if override["sensitive"]:
            place = SecretPlace(
                override,
                "value",
                override_identity(override),
                f"/secrets/globalOverrides/{index}/value",
            )
            yield place
    smtp = wire["notifications"]["smtp"]
    yield from _secrets_of(SMTP, smtp, "notifications.smtp", "/notifications/smtp")


def override_identity(override: Wire) -> str:
    return f"secrets.globalOverrides[{override['key']}].value"


def mapped(wire: Wire, change: Callable[[str], str]) -> Wire:
    """Return a copy in which `change` was applied to every secret text that is set."""
    made = copy.deepcopy(wire)
    for place in secret_places(made):
        if place.text:
            place.holder[place.key] = change(place.text)
    return made


def masked(wire: Wire, *, for_admin: bool) -> Wire:
    """Return a copy without secrets and, for others than administrators, without private texts."""
    made = mapped(wire, lambda _text: MASK)
    if not for_admin:
        tables = [(AGENT, made["agents"]), (REGISTRY, made["registries"])]
        tables += [(SECRETS, [made["secrets"]]), (SMTP, [made["notifications"]["smtp"]])]
        for keys, entries in tables:
            hidden = {key.name: "" for key in keys if key.private}
            for entry in entries:
                entry.update(hidden)
    return made


def is_private(key: str) -> bool:
    """Return whether a key such as `registries[zot].username` is for administrators only."""
    holder, _, name = key.rpartition(".")
    owner = holder.partition("[")[0]
    keys = {
        "agents": AGENT, "registries": REGISTRY, "secrets": SECRETS, "notifications.smtp": SMTP,
    }.get(owner, ())  # fmt: skip
    return any(each.name == name and each.private for each in keys)


def with_kept_secrets(new: Wire, stored: Wire) -> tuple[Wire, list[FieldError]]:
    """Return `new` with stored secrets in place of masks, and an error for a mask of nothing."""
    made, faults = copy.deepcopy(new), []
    known = {place.identity: place.text for place in secret_places(stored) if place.text}
    for place in secret_places(made):
        if place.text != MASK:
            continue
        if place.identity in known:
            place.holder[place.key] = known[place.identity]
        else:
            detail = f"{place.key}: there is no stored value to keep; enter it"
            faults.append(FieldError(pointer=place.pointer, code="invalid_value", detail=detail))
    for index, override in enumerate(made["secrets"]["globalOverrides"]):
        if not override["sensitive"] and override["value"] == MASK:
            pointer = f"/secrets/globalOverrides/{index}/value"
            detail = "value: what was a secret is not shown; enter the value anew"
            faults.append(FieldError(pointer=pointer, code="invalid_value", detail=detail))
    return made, faults


def settable_document(document: Mapping[str, Any]) -> Wire:
    """Return a client's document without the read-only keys, whatever they hold."""
    made = {key: value for key, value in document.items() if key not in ("updatedAt", "fileInSync")}
    for name, keys in (("agents", AGENT), ("registries", REGISTRY)):
        told = names([key for key in keys if key.read_only])
        entries = made.get(name)
        if isinstance(entries, list):
            made[name] = [
                {key: value for key, value in entry.items() if key not in told}
                if isinstance(entry, Mapping)
                else entry
                for entry in entries
            ]
    return made


def settable(keys: Sequence[Key]) -> tuple[Key, ...]:
    return tuple(key for key in keys if not key.read_only)


def _secrets_of(
    keys: Sequence[Key], holder: Wire, owner: str, pointer: str
) -> Iterator[SecretPlace]:
    for key in keys:
        if key.secret:
            yield SecretPlace(holder, key.name, f"{owner}.{key.name}", f"{pointer}/{key.name}")


def _agent(node: Node) -> Wire:
    entry = _entry(AGENT, node)
    given = _text(node.get("type"))
    return entry | {"type": TYPE_ALIASES.get(given, given)}


def _entry(keys: Sequence[Key], node: Node | None) -> Wire:
    return {key.name: _value(key, node.get(key.name) if node else None) for key in settable(keys)}


def _value(key: Key, node: Node | None) -> object:
    if isinstance(key.default, tuple):
        return [text for each in _items(node) if (text := _text(each))]
    if isinstance(key.default, str):
        return _text(node) or key.default
    return key.default if node is None or node.is_null else node.scalar()


def _items(node: Node | None) -> list[Node]:
    return [] if node is None else node.items or []


def _text(node: Node | None) -> str:
    value = None if node is None or node.text is None else node.scalar()
    return value.strip() if isinstance(value, str) else ""
