"""`dispatcherRules` of an operation (reference: control-plane 18.3)."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Final

from kernel.extras import missing_extra
from surfaces.model import RandomRules, Rules, ScriptRules, SequenceRules

MAX_TEXT: Final = 8_192
MAX_NAMES: Final = 1_000
MAX_WEIGHT: Final = 1_000_000
_DEFINES: Final = re.compile(r"^def\s+dispatch\s*\(", re.MULTILINE)
_ONCE: Final = re.compile(r"once\s*:", re.IGNORECASE)


class RulesInvalid(ValueError):
    """Rules that do not parse; the text says why."""


def parse_rules(dispatcher: str, text: str) -> Rules | None:
    """Return the rules, None where a dispatcher needs or reads none; raise RulesInvalid."""
    if dispatcher == "example":
        return None
    if len(text) > MAX_TEXT:
        raise RulesInvalid(f"the rules are longer than {MAX_TEXT} characters")
    if dispatcher == "script":
        return _script(text)
    if not text.strip():
        return None
    return _sequence(text) if dispatcher == "sequence" else _random(text)


def named_examples(rules: Rules | None) -> tuple[str, ...]:
    """Return the names of examples in the rules; those of a script are not known."""
    if isinstance(rules, SequenceRules):
        return rules.names
    return tuple(rules.weights) if isinstance(rules, RandomRules) else ()


def _sequence(text: str) -> SequenceRules:
    once = _ONCE.match(text.strip())
    listed = text.strip()[once.end() :] if once else text
    names = tuple(name.strip() for name in listed.split(","))
    if not all(names) or len(names) > MAX_NAMES:
        raise RulesInvalid("a sequence is a list of names, such as `a, b` or `once: a, b`")
    return SequenceRules(names=names, once=once is not None)


def _random(text: str) -> RandomRules:
    seed: int | None = None
    weights: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, sign, value = (each.strip() for each in part.partition("="))
        is_whole = value.removeprefix("-" if name == "seed" else "").isdecimal()
        if not sign or not name or not is_whole or len(value) > _DIGITS:
            raise RulesInvalid(f'"{part[:80]}" is neither `seed=42` nor `name=weight`')
        if name == "seed":
            seed = int(value)
            continue
        if name in weights or int(value) > MAX_WEIGHT:
            raise RulesInvalid(f'the weight of "{name[:80]}" occurs twice or is too large')
        weights[name] = int(value)
    if weights and not any(weights.values()):
        raise RulesInvalid("at least one weight must be larger than 0")
    return RandomRules(seed=seed, weights=weights)


_DIGITS: Final = 18


def _script(text: str) -> ScriptRules:
    """Check the syntax; the script runs later, in a child process."""
    if not text.strip():
        raise RulesInvalid("the dispatcher script requires dispatcherRules")
    defines = _DEFINES.search(text) is not None
    source = text if defines else f"(\n{text.strip()}\n)"
    if missing := missing_extra("scripts"):
        raise RulesInvalid(f"a script {missing}")
    starlark = import_module("starlark")
    try:
        starlark.parse("dispatcherRules", source, dialect=starlark.Dialect.standard())
    except starlark.StarlarkError as error:
        first = str(error).strip().partition("\n")[0].removeprefix("error: ")
        raise RulesInvalid(f"not Starlark: {first[:200]}") from None
    return ScriptRules(source=text, defines_function=defines)
