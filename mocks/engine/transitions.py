"""State of an operation: its keys, and what transitions change (reference: control-plane 18.5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from kernel.errors import PlatformError
from mocks.model.ports import StateRecord, StateStore
from mocks.templates.scope import AnswerTooLarge, Names, Scope
from mocks.templates.templates import TextTemplate
from surfaces.operation_rules import StateRules, Transition

MAX_KEY: Final = 1_024  # characters
MAX_RECORD: Final = 64 * 2**10  # bytes of names and values
MAX_ATTEMPTS: Final = 200
_ALL: Final = "*"
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,100}", re.ASCII)
_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,100}\.[0-9]{1,100}", re.ASCII)


class StateContended(PlatformError):
    """A record that other calls changed during every attempt to change it."""

    code = "datastore_unavailable"


class CompiledTransition:
    """What a chosen example changes; `counters` are those that its templates count."""

    __slots__ = ("_sets", "counters", "key", "rule")

    def __init__(self, rule: Transition, default_key: TextTemplate | None, names: Names) -> None:
        names = replace(names, counters=set())
        template = rule.mutation_key_template
        self.rule = rule
        self.key = TextTemplate(template, names) if template else default_key  # None: lookup key
        self._sets = [(name, TextTemplate(text, names)) for name, text in rule.set.items()]
        self.counters = frozenset(names.counters)

    def change_fields(self, fields: Mapping[str, str], scope: Scope) -> dict[str, str] | None:
        """Return the fields after the change, None if the record is removed.

        Raise AnswerTooLarge. Templates see `fields` as the state.
        """
        if _ALL in self.rule.delete:
            return None
        made = dict(fields)
        if self._sets:
            before = scope.with_state(fields)
            for name, template in self._sets:
                made[name] = template.render(before)
        for name in self.rule.delete:
            made.pop(name, None)
        for name, amount in self.rule.increment.items():
            made[name] = increment(made.get(name, ""), amount)
        _refuse_large(made)
        return made


class CompiledState:
    """The state rules of an operation."""

    __slots__ = ("_transitions", "defaults", "lookup_key")

    def __init__(self, rules: StateRules, operation_id: str, names: Names) -> None:
        """Compile; raise TemplateInvalid."""
        own = rules.mutation_key_template
        default_key = TextTemplate(own, names) if own else None
        lookup = rules.lookup_key_template or own
        self.defaults = dict(rules.defaults)
        self.lookup_key = TextTemplate(lookup, names) if lookup else operation_key(operation_id)
        self._transitions = tuple(
            CompiledTransition(each, default_key, names) for each in rules.transitions
        )

    @property
    def reads_state(self) -> bool:
        """Return whether a mutation key depends on the state."""
        keys = (each.key for each in self._transitions)
        return any(key is not None and "state" in key.roots for key in keys)

    def key(self, scope: Scope) -> str:
        """Return the lookup key, "" for a blank one; raise AnswerTooLarge."""
        return usable_key(self.lookup_key.render(scope))

    def transition(self, example: str) -> CompiledTransition | None:
        """Return the first transition of an example."""
        for each in self._transitions:
            if each.rule.on_example in ("", example):
                return each
        return None


def operation_key(operation_id: str) -> TextTemplate:
    """Return the key of an operation without key templates."""
    return TextTemplate(f"operation:{operation_id}", _NO_NAMES)


_NO_NAMES: Final = Names(suite={}, operation={}, execution={})


def usable_key(text: str) -> str:
    """Return a rendered key, "" for a blank one; raise AnswerTooLarge."""
    if len(text) > MAX_KEY:
        raise AnswerTooLarge(f"a key of state may have {MAX_KEY:,} characters")
    return text if text.strip() else ""


@dataclass(frozen=True, slots=True)
class LookedUp:
    """The record of step 3. `fields` are the defaults, overlaid by the record if there is one.

    `was_read` is False where no part of the answer depends on the record.
    """

    key: str
    record: StateRecord | None
    fields: Mapping[str, str]
    was_read: bool = True


NO_STATE: Final = LookedUp("", None, {})


async def look_up(rules: CompiledState, scope: Scope, store: StateStore, space: str) -> LookedUp:
    """Return the state that a call sees; a blank key leads to the defaults."""
    key = rules.key(scope)
    record = await store.read(space, key) if key else None
    if record is None:
        return LookedUp(key, None, rules.defaults)
    fields = {**rules.defaults, **record.fields} if rules.defaults else record.fields
    return LookedUp(key, record, fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of state that was made. `fields` is None if the record was removed."""

    key: str
    rule: Transition
    fields: Mapping[str, str] | None


async def apply(
    transition: CompiledTransition,
    rules: CompiledState,
    scope: Scope,
    found: LookedUp,
    store: StateStore,
    place: tuple[str, str],
) -> Change | None:
    """Change the record at the mutation key and return how; None without a key or a record.

    `place` is the space and the surface. A change by another call in between repeats it. Raise
    AnswerTooLarge or StateContended.
    """
    space, surface_id = place
    key = found.key if transition.key is None else usable_key(transition.key.render(scope))
    if not key:
        return None
    is_known = found.was_read and key == found.key
    record = found.record if is_known else await store.read(space, key)
    for _ in range(MAX_ATTEMPTS):
        version = record.version if record else 0
        fields = transition.change_fields(record.fields if record else rules.defaults, scope)
        if fields is None and record is None:
            return None
        if await store.change(space, key, surface_id, version=version, fields=fields):
            return Change(key=key, rule=transition.rule, fields=fields)
        record = await store.read(space, key)
    raise StateContended(f"the state was changed by other calls {MAX_ATTEMPTS} times meanwhile")


def increment(text: str, amount: int) -> str:
    """Return a number plus an amount; a text that is not a number counts 0."""
    text = text.strip()
    if _INTEGER.fullmatch(text):
        return str(int(text) + amount)
    return str(Decimal(text) + amount) if _DECIMAL.fullmatch(text) else str(amount)


def _refuse_large(fields: Mapping[str, str]) -> None:
    size = sum(map(len, fields)) + sum(map(len, fields.values()))
    if size <= MAX_RECORD // 4:  # four bytes are the most for one character
        return
    if (
        sum(len(text.encode(errors="replace")) for each in fields.items() for text in each)
        > MAX_RECORD
    ):
        raise AnswerTooLarge(f"a record of state may have {MAX_RECORD // 2**10} KiB")
