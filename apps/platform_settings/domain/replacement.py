"""A client's document in place of the stored one: what is refused, and what it makes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from apps.platform_settings.domain.document import NewSettings, SettingsTree, interpret
from apps.platform_settings.domain.encryption import encrypt_secrets, unreadable_secrets
from apps.platform_settings.domain.fields import SettingsContext
from apps.platform_settings.domain.wire import (
    Wire,
    node_of,
    settable_document,
    wire_of,
    with_kept_secrets,
)
from kernel.errors import FieldError, InvalidInput

MAX_BYTES: Final = 2**20  # of a document, and of a file
_MOST_FAULTS: Final = 100  # of an answer


def check_replacement(given: NewSettings, stored: Wire, context: SettingsContext) -> Wire:
    """Return the wire form with encrypted secrets, the stored ones in place of masks.

    Raise InvalidInput with a pointer for each fault, and its place in a file.
    """
    tree = given if isinstance(given, SettingsTree) else _tree_of(given)
    _document, faults = interpret(tree.root, tree.file, context, needs_agents=True)
    _refuse(faults)
    unreadable = unreadable_secrets(stored, context.keys)
    wire, faults = with_kept_secrets(wire_of(tree.root), stored, unreadable)
    _refuse([tree.place(fault) for fault in faults])
    _refuse_large(wire)
    return encrypt_secrets(wire, stored, context)


def outdated_registries(old: Wire, new: Wire) -> list[str]:
    """Return the ids of registries that are gone or stand at another address."""
    urls = {each["registryId"]: each["registryUrl"] for each in new["registries"]}
    return [
        each["registryId"]
        for each in old["registries"]
        if urls.get(each["registryId"]) != each["registryUrl"]
    ]


def _tree_of(document: Mapping[str, Any]) -> SettingsTree:
    settable = settable_document(document)
    _refuse_large(settable)
    return SettingsTree(node_of(settable))


def _refuse_large(document: Mapping[str, Any]) -> None:
    if len(json.dumps(document)) > MAX_BYTES:
        detail = f"the settings are larger than {MAX_BYTES} bytes"
        _refuse([FieldError(code="invalid_value", detail=detail)])


def _refuse(faults: list[FieldError]) -> None:
    if faults:
        place = faults[0].place()
        first = f"{place}: {faults[0].detail}" if place else faults[0].detail
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise InvalidInput(f"{first}{more}", errors=faults[:_MOST_FAULTS])
