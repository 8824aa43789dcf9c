"""The wire form of the settings: what file, API and store have in common (reference 4).

It has every key, in one order, with its default where it is not set. Secret texts (🔒) stand in it
in one of three forms: as they are, as `encrypted:<ciphertext>` (in the store and in the file), or
as the mask (towards clients). `${PARTITA_CONFIG_X}` is kept as it is written.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

from apps.platform_settings.domain.addresses import hide_user, origin_of
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
    told by the platform, and ignored in what comes from outside. `sent_to` names the keys of the
    same entry that say where a secret is sent: when one of them changes, it is entered again.
    `address`: a URL, whose user and password, if an older version let them in, nobody sees.
    `low` and `high` are the bounds of a number.
    """

    name: str
    default: str | int | bool | tuple[str, ...] = ""
    secret: bool = False
    private: bool = False
    read_only: bool = False
    sent_to: tuple[str, ...] = ()
    address: bool = False
    low: int = 0
    high: int = 0


MAX_PLACES: Final = 100_000
MAX_WEIGHT: Final = 1_000
_LIMITS: Final = (  # 0: any number at once
    Key("maxConcurrentRuns", 0, high=MAX_PLACES),
    Key("maxConcurrentSteps", 0, high=MAX_PLACES),
)
AGENT: Final = (
    Key("agentId"),
    Key("name"),
    Key("type", "local"),
    Key("description"),
    Key("enabled", default=True),
    Key("default", default=False),
    Key("routingTags", ()),
    Key("dockerSocket"),
    Key("hostUrl", address=True),
    Key("tlsCert"),
    Key("tlsKey", secret=True, sent_to=("hostUrl",)),
    Key("kubeconfigPath", private=True),
    Key("kubeconfigContext"),
    Key("targetNamespace", "default"),
    *_LIMITS,
    Key("serviceAccountToken", secret=True, sent_to=("hostUrl",)),
    Key("sharedClaim"),
    Key("status", read_only=True),
    Key("waitsFor", read_only=True),
    Key("registeredAt", read_only=True),
    Key("lastHeartbeatAt", read_only=True),
    Key("runtimeCapabilities", (), read_only=True),
)
WORKSPACE: Final = (
    Key("workspaceId"),
    Key("weight", 1, low=1, high=MAX_WEIGHT),
    *_LIMITS,
)
REGISTRY: Final = (
    Key("registryId"),
    Key("name"),
    Key("provider"),
    Key("registryUrl", address=True),
    Key("username", private=True),
    Key("secret", secret=True, sent_to=("registryUrl",)),
    Key("repositoryScope"),
    Key("region"),
    Key("allowLocalNetwork", default=False),
    Key("syncStatus", read_only=True),
    Key("lastSyncedAt", read_only=True),
    Key("lastError", read_only=True),
)
SECRETS: Final = (
    Key("provider", "none"),
    Key("vaultAddress", private=True, address=True),
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
    Key("port", 587, low=1, high=65535),
    Key("username", private=True),
    Key("password", secret=True, sent_to=("host", "port")),
    Key("from"),
)
TOP: Final = frozenset({
    "mode", "description", "agents", "workspaces", "registries", "secrets", "notifications",
    "updatedAt", "fileInSync", "warnings",
})  # fmt: skip
_TOLD: Final = frozenset({"updatedAt", "fileInSync", "warnings"})  # by the platform


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
        "workspaces": [_entry(WORKSPACE, each) for each in _items(root.get("workspaces"))],
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


def complete_wire(stored: Wire) -> Wire:
    """Return a stored document with the keys that the version that stored it did not know."""
    defaults = _entry(AGENT, None)
    agents = [defaults | agent for agent in stored["agents"]]
    return {"workspaces": [], **stored, "agents": agents}


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
class SecretText:
    """Where a secret text stands: its holder and key, who it belongs to, and its JSON pointer."""

    holder: Wire
    key: str
    identity: str  # the same whatever the order of the entries
    pointer: str
    sent_to: tuple[str, ...] = ()  # the keys of the holder that say where it is sent

    @property
    def address(self) -> tuple[object, ...]:
        """The address that the secret is sent to, equal for two spellings of one."""
        return tuple(origin_of(str(self.holder[key])) for key in self.sent_to)

    @property
    def text(self) -> str:
        return str(self.holder[self.key])


def secret_texts(wire: Wire) -> Iterator[SecretText]:
    """Yield every secret text, set or not."""
    for index, agent in enumerate(wire["agents"]):
        yield from _secrets_of(AGENT, agent, f"agents[{agent['agentId']}]", f"/agents/{index}")
    for index, registry in enumerate(wire["registries"]):
        owner = f"registries[{registry['registryId']}]"
        yield from _secrets_of(REGISTRY, registry, owner, f"/registries/{index}")
    for index, override in enumerate(wire["secrets"]["globalOverrides"]):
        if override["sensitive"]:
            secret = SecretText(
                override,
                "value",
                override_identity(override),
                f"/secrets/globalOverrides/{index}/value",
            )
            yield secret
    smtp = wire["notifications"]["smtp"]
    yield from _secrets_of(SMTP, smtp, "notifications.smtp", "/notifications/smtp")


def override_identity(override: Wire) -> str:
    return f"secrets.globalOverrides[{override['key']}].value"


def map_secrets(wire: Wire, change: Callable[[str], str]) -> Wire:
    """Return a copy in which `change` was applied to every secret text that is set."""
    made = copy.deepcopy(wire)
    for secret in secret_texts(made):
        if secret.text:
            secret.holder[secret.key] = change(secret.text)
    return made


def mask_secrets(wire: Wire, *, for_admin: bool, unreadable: Set[str] = frozenset()) -> Wire:
    """Return a copy without secrets and, for others than administrators, without private texts.

    The secrets at the JSON pointers of `unreadable` read as unset.
    """
    made = copy.deepcopy(wire)
    for secret in secret_texts(made):
        if secret.text:
            secret.holder[secret.key] = "" if secret.pointer in unreadable else MASK
    tables = [(AGENT, made["agents"]), (REGISTRY, made["registries"])]
    tables += [(SECRETS, [made["secrets"]]), (SMTP, [made["notifications"]["smtp"]])]
    for keys, entries in tables:
        hidden = {key.name: "" for key in keys if key.private and not for_admin}
        addresses = [key.name for key in keys if key.address]
        for entry in entries:
            entry.update({name: hide_user(entry[name]) for name in addresses} | hidden)
    return made


def is_private(key: str) -> bool:
    """Return whether a key such as `registries[zot].username` is for administrators only."""
    found = _declaration_of(key)
    return found is not None and found.private


def is_address(key: str) -> bool:
    """Return whether a key such as `registries[zot].registryUrl` holds a URL."""
    found = _declaration_of(key)
    return found is not None and found.address


def _declaration_of(key: str) -> Key | None:
    holder, _, name = key.rpartition(".")
    owner = holder.partition("[")[0]
    keys = {
        "agents": AGENT, "registries": REGISTRY, "secrets": SECRETS, "notifications.smtp": SMTP,
    }.get(owner, ())  # fmt: skip
    return next((each for each in keys if each.name == name), None)


def with_kept_secrets(
    new: Wire, stored: Wire, unreadable: Set[str]
) -> tuple[Wire, list[FieldError]]:
    """Return `new` with stored secrets in place of masks.

    A mask of nothing is an error, and so is one whose address is another than the stored one. The
    stored secrets at the JSON pointers of `unreadable` read as unset, so that an empty text keeps
    them: their key may come back.
    """
    made, faults = copy.deepcopy(new), []
    known = {secret.identity: secret for secret in secret_texts(stored) if secret.text}
    lost = {secret.identity for secret in secret_texts(stored) if secret.pointer in unreadable}
    for secret in secret_texts(made):
        if secret.text != MASK and (secret.text or secret.identity not in lost):
            continue
        before, detail = known.get(secret.identity), ""
        if before is None:
            detail = f"{secret.key}: there is no stored value to keep; enter it"
        elif before.address != secret.address:
            changed = " or ".join(secret.sent_to)
            detail = f"{secret.key}: {changed} has changed; enter the secret again"
        else:
            secret.holder[secret.key] = before.text
        if detail:
            faults.append(FieldError(pointer=secret.pointer, code="invalid_value", detail=detail))
    for index, override in enumerate(made["secrets"]["globalOverrides"]):
        if not override["sensitive"] and override["value"] == MASK:
            pointer = f"/secrets/globalOverrides/{index}/value"
            detail = "value: what was a secret is not shown; enter the value anew"
            faults.append(FieldError(pointer=pointer, code="invalid_value", detail=detail))
    return made, faults


def settable_document(document: Mapping[str, Any]) -> Wire:
    """Return a client's document without the read-only keys, whatever they hold."""
    made = {key: value for key, value in document.items() if key not in _TOLD}
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
) -> Iterator[SecretText]:
    for key in keys:
        if key.secret:
            identity, at = f"{owner}.{key.name}", f"{pointer}/{key.name}"
            yield SecretText(holder, key.name, identity, at, key.sent_to)


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
