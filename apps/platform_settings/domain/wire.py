"""The wire form of the settings: what file, API and store have in common (reference 4).

It has every key, in one order, with its default where it is not set. Secret texts (🔒) stand in it
in one of three forms: as they are, as `encrypted:<ciphertext>` (in the store and in the file), or
as the mask (towards clients). `${PARTITA_CONFIG_X}` is kept as it is written.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from apps.platform_settings.domain.addresses import hide_user, origin_of
from apps.platform_settings.domain.keys import (
    AGENTS,
    GROUPS,
    INSTALLATION,
    MASK,
    OVERRIDES,
    Key,
    KeyGroup,
)
from kernel.errors import FieldError
from readers.yaml import Node

Wire = dict[str, Any]


class NotMergeable(ValueError):
    """A file cannot be written with other values and its comments."""


@dataclass(frozen=True, slots=True)
class Version:
    """A document as it is written, and with its secrets in the clear."""

    written: Wire
    meaning: Wire


@dataclass(frozen=True, slots=True)
class WireEntry:
    """A mapping of the document: its name in the history, its JSON pointer, and its values."""

    name: str
    pointer: str
    entry: Wire


def wire_entries(wire: Wire, group: KeyGroup) -> Iterator[WireEntry]:
    """Yield the mapping of a group, or each entry of its list."""
    found: Any = wire
    for part in group.path:
        found = found[part]
    if not group.is_list:
        yield WireEntry(group.dotted, group.pointer, found)
        return
    for index, entry in enumerate(found):
        name = f"{group.dotted}[{entry[group.identity]}]"
        yield WireEntry(name, f"{group.pointer}/{index}", entry)


def wire_of(root: Node) -> Wire:
    """Return the wire form of a document that was checked before."""
    made = _entry(INSTALLATION, root)
    for group in GROUPS[1:]:
        holder, node = made, root.get(group.path[0])
        for part, below in pairwise(group.path):
            holder, node = holder.setdefault(part, {}), node.get(below) if node else None
        if group.is_list:
            holder[group.path[-1]] = [_entry(group, each) for each in _items(node)]
        else:
            holder[group.path[-1]] = _entry(group, node)
    return made


def default_wire() -> Wire:
    """Return what a first start without a file stores: the built-in backend."""
    agent = {"agentId": "local-docker", "name": "Local Docker", "type": "local", "default": True}
    return wire_of(node_of({"agents": [agent]}))


def complete_wire(stored: Wire) -> Wire:
    """Return a stored document with the keys that the version that stored it did not know."""
    defaults = _entry(AGENTS, None)
    agents = [defaults | agent for agent in stored["agents"]]
    return {"workspaces": [], "ciTrust": [], **stored, "agents": agents}


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
    for group in GROUPS:
        for place in wire_entries(wire, group):
            for key in group.settable:
                if key.secret or place.entry.get(key.hidden_by):
                    yield SecretText(
                        place.entry,
                        key.name,
                        f"{place.name}.{key.name}",
                        f"{place.pointer}/{key.name}",
                        key.sent_to,
                    )


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
    for group in GROUPS:
        hidden = {key.name: "" for key in group.keys if key.private and not for_admin}
        addresses = [key.name for key in group.keys if key.address]
        for place in wire_entries(made, group):
            entry = place.entry
            entry.update({name: hide_user(entry[name]) for name in addresses} | hidden)
    return made


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
    for place in wire_entries(made, OVERRIDES):
        if not place.entry["sensitive"] and place.entry["value"] == MASK:
            pointer = f"{place.pointer}/value"
            detail = "value: what was a secret is not shown; enter the value again"
            faults.append(FieldError(pointer=pointer, code="invalid_value", detail=detail))
    return made, faults


def settable_document(document: Mapping[str, Any]) -> Wire:
    """Return a client's document without the read-only keys, whatever they hold."""
    made = _without(document, INSTALLATION)
    for group in GROUPS[1:]:
        entries = made.get(group.path[0])
        if group.read_only and isinstance(entries, list):
            made[group.path[0]] = [
                _without(entry, group) if isinstance(entry, Mapping) else entry for entry in entries
            ]
    return made


def _without(entry: Mapping[str, Any], group: KeyGroup) -> Wire:
    return {key: value for key, value in entry.items() if key not in group.read_only}


def _entry(group: KeyGroup, node: Node | None) -> Wire:
    return {key.name: _value(key, node.get(key.name) if node else None) for key in group.settable}


def _value(key: Key, node: Node | None) -> object:
    if isinstance(key.default, tuple):
        return [text for each in _items(node) if (text := _text(each))]
    if isinstance(key.default, str):
        text = _text(node) or key.default
        return key.aliases.get(text, text)
    return key.default if node is None or node.is_null else node.scalar()


def _items(node: Node | None) -> list[Node]:
    return [] if node is None else node.items or []


def _text(node: Node | None) -> str:
    value = None if node is None or node.text is None else node.scalar()
    return value.strip() if isinstance(value, str) else ""
