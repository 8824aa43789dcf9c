"""What shaping takes and gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from readers.diagnostics import Diagnostic
from readers.tree import Tree
from sync_stack.core.bundle.datasources import KeyCase
from sync_stack.core.bundle.rules import EnvSlice, KeyFormat, Rule, Variable
from sync_stack.core.bundle.secrets import SecretRef
from sync_stack.core.file_errors import ShapingError
from sync_stack.core.shaping.leaves import value_problem
from sync_stack.core.shaping.schema import Schema, Unfetched
from sync_stack.core.shaping.secrets import HIDDEN, SecretRules, unavailable
from sync_stack.core.tasks import TaskError

_SPELLINGS: Final[Mapping[KeyCase, Callable[[str], str]]] = {
    KeyCase.KEEP: str,
    KeyCase.UPPER: str.upper,
    KeyCase.LOWER: str.lower,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One file of a target, read by its format. `schema` is None where there is none."""

    file: str
    tree: Tree
    schema: Schema | Unfetched | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapingRules:
    """What the rule says about the content of its files, for one environment.

    `environments`: those that the rule names in branch_map, file_path_map and environments.
    """

    environment: str
    environments: frozenset[str] = frozenset()
    root_key: str | None = None
    env_slice: EnvSlice = EnvSlice.AUTO
    variables_map: Mapping[str, Variable] = field(default_factory=dict)
    key_format: KeyFormat = KeyFormat.DOT
    strict_validation: bool = False
    secrets: SecretRules = field(default_factory=SecretRules)

    @classmethod
    def of_rule(
        cls, rule: Rule, *, environment: str, key_format: KeyFormat, secrets: SecretRules
    ) -> ShapingRules:
        """`key_format` is the sink's default, which the rule's own wins over."""
        return cls(
            environment=environment,
            environments=environments_of(rule),
            root_key=rule.root_key,
            env_slice=rule.env_slice,
            variables_map=rule.variables_map,
            key_format=rule.key_format or key_format,
            strict_validation=rule.strict_validation,
            secrets=secrets,
        )


def environments_of(rule: Rule) -> frozenset[str]:
    """Return the environments that a rule names."""
    mapped = (entry.env for entry in rule.file_path_map)
    return frozenset({*rule.branch_map.values(), *mapped, *rule.environments} - {""})


class ShapedKey(NamedTuple):
    """Where a key comes from. `secret`: what its value must be fetched from."""

    file: str
    line: int = 0
    column: int = 0
    secret: SecretRef | None = None
    logged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapedFile:
    """`validation`: ok, warn or none. `env_absent`: only blocks of other environments."""

    file: str
    keys: int = 0
    validation: str = "none"
    env_absent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaped:
    """The settings of a target, sorted by key. `values` lacks the keys that are secret.

    `env_not_in_file`: no file has anything for this environment; nothing is written or pruned.
    """

    values: dict[str, str]
    keys: dict[str, ShapedKey]
    files: tuple[ShapedFile, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()

    @property
    def env_not_in_file(self) -> bool:
        return bool(self.files) and all(file.env_absent for file in self.files)

    @property
    def secrets(self) -> dict[str, SecretRef]:
        return {key: found.secret for key, found in self.keys.items() if found.secret}

    def masked_values(self) -> dict[str, str]:
        """Return the value of every key, secrets as `***`, for dry runs."""
        return {key: self.values.get(key, HIDDEN) for key in self.keys}

    def complete(self, fetched: Mapping[SecretRef, str]) -> dict[str, str]:
        """Every key with its value. Raises ShapingError for a secret not fetched or too long."""
        return {
            key: self.values[key] if found.secret is None else _fetched_value(key, found, fetched)
            for key, found in self.keys.items()
        }

    def spell_keys(self, case: KeyCase) -> dict[str, str]:
        """Return each key by its name at a destination. Raises TaskError(key_conflict)."""
        spelling = _SPELLINGS[case]
        names: dict[str, str] = {}
        for key, found in self.keys.items():
            name = spelling(key)
            if name in names:
                detail = f"{names[name]!r} and {key!r} both become {name!r} at this destination"
                raise TaskError("key_conflict", detail, file=found.file, line=found.line)
            names[name] = key
        return names

    def logged_keys(self, case: KeyCase) -> frozenset[str]:
        """Return the names of the keys that `@logger()` or `x-partita-log` marks."""
        return frozenset(_SPELLINGS[case](key) for key, found in self.keys.items() if found.logged)


def _fetched_value(key: str, found: ShapedKey, fetched: Mapping[SecretRef, str]) -> str:
    if found.secret is None or found.secret not in fetched:
        raise unavailable(key)
    text = fetched[found.secret]
    problem = value_problem(key, text)
    if problem:
        raise ShapingError("key_invalid", problem, file=found.file, line=found.line)
    return text
