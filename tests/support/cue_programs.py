"""Random CUE files of the supported subset: small, full of references, defaults and conflicts."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

LABELS = ["a", "b", "c", "d", '"k-1"', '"q"']
SCALARS = ["1", "1", "2", "3", "-1", "1.5", '"x"', '"x"', '"y"', '"xy"', "true", "null", "1K"]
TYPES = ["string", "int", "number", "bool", "_", "_", "float", "uint8", "null"]
BOUNDS = [">0", ">=1", "<3", "<=2", "!=1", '!="x"', '=~"^x"', '!~"y"', "!=null", ">=1 & <=2"]
DEFAULTS = ["*1 | int", '*"x" | string', "*true | bool", "*2 | 3", '"x" | *"y"', "*null | _"]
PATTERNS = ["string", '=~"^[ab]"', '"a" | "c"', '!="b"']


class Programs:
    """One generator of files; the same seed gives the same files."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.scopes: list[list[str]] = []

    def file(self) -> str:
        self.scopes = []
        return self._declarations(depth=0, count=self.random.randint(2, 6))

    def _declarations(self, depth: int, count: int) -> str:
        labels = list(dict.fromkeys(self._label() for _ in range(count)))
        lets = [f"L{depth}"] if self._chance(0.1) else []
        self.scopes.append([label for label in labels if label[0] != '"'] + lets)
        lines = [self._field(label, depth) for label in labels]
        lines += [f"let {name} = {self.value(depth + 1)}\nuses{name}: {name}" for name in lets]
        lines += self._extras(depth, labels)
        self.scopes.pop()
        return "\n".join(lines)

    def _label(self) -> str:
        kind = self.random.random()
        if kind < 0.15:
            return self.random.choice(["#A", "#B"])
        if kind < 0.2:
            return "_h"
        return self.random.choice(LABELS)

    def _field(self, label: str, depth: int) -> str:
        mark = "?" if self._chance(0.08) else ""
        if self._chance(0.1):
            return f"{label}{mark}: {self.random.choice(LABELS)}: {self.value(depth + 2)}"
        attribute = " @note(x)" if self._chance(0.03) else ""
        return f"{label}{mark}: {self.value(depth + 1)}{attribute}"

    def _extras(self, depth: int, labels: list[str]) -> list[str]:
        lines = []
        if depth and self._chance(0.1):
            lines.append("...")
        if depth and self._chance(0.1):
            lines.append(f"[{self.random.choice(PATTERNS)}]: {self.value(depth + 1)}")
        if self._chance(0.1):
            lines.append(self._embedding(depth))
        if labels and self._chance(0.1):
            lines.append(f"{self.random.choice(labels)}: {self.value(depth + 1)}")
        self.random.shuffle(lines)
        return lines

    def _embedding(self, depth: int) -> str:
        names = [name for scope in self.scopes for name in scope if name.startswith("#")]
        return self.random.choice(names) if names else self._struct(depth + 1)

    def value(self, depth: int) -> str:
        makers: list[tuple[int, Callable[[int], str]]] = [
            (34, self._scalar),
            (8, lambda _: self.random.choice(DEFAULTS)),
            (4, lambda _: self.random.choice(TYPES)),
            (2, lambda _: self.random.choice(BOUNDS)),
            (18, self._reference),
            (4, self._disjunction),
            (5, self._unification),
        ]
        if depth < 4:
            makers += [(18, self._struct), (7, self._list), (4, self._text), (2, self._call)]
        weights = [weight for weight, _ in makers]
        return self.random.choices([make for _, make in makers], weights)[0](depth)

    def _scalar(self, _depth: int) -> str:
        return self.random.choice(SCALARS)

    def _reference(self, depth: int) -> str:
        names = [name for scope in self.scopes for name in scope]
        if not names:
            return self._scalar(depth)
        name = self.random.choice(names)
        if self._chance(0.2):
            return f"{name}.{self.random.choice(['a', 'b', 'c', '#A', '_h'])}"
        if self._chance(0.3):
            other = self._struct(depth) if depth < 4 else self._operand(depth)
            return f"{name} & {other}"
        return name

    def _disjunction(self, depth: int) -> str:
        alternatives = [self._operand(depth) for _ in range(self.random.randint(2, 3))]
        marked = [f"*{item}" if self._chance(0.35) else item for item in alternatives]
        return " | ".join(marked)

    def _unification(self, depth: int) -> str:
        """Mostly two values that may agree."""
        if self._chance(0.5):
            pair = [self._scalar(depth), self.random.choice(["_", "!=9", *TYPES])]
        elif depth < 4 and self._chance(0.6):
            pair = [self._struct(depth), self._struct(depth)]
        else:
            pair = [self._operand(depth), self._operand(depth)]
        return " & ".join(pair)

    def _operand(self, depth: int) -> str:
        made = self.value(depth + 1)
        return f"({made})" if "&" in made or "|" in made else made

    def _struct(self, depth: int) -> str:
        inner = self._declarations(depth, self.random.randint(0, 3))
        return "{" + (f"\n{inner}\n" if inner else "") + "}"

    def _list(self, depth: int) -> str:
        items = [self.value(depth + 1) for _ in range(self.random.randint(0, 3))]
        if self._chance(0.25):
            items.append(self.random.choice(["...", f"...{self._operand(depth)}"]))
        return "[" + ", ".join(items) + "]"

    def _text(self, depth: int) -> str:
        return f'"<\\({self._operand(depth)})>"'

    def _call(self, depth: int) -> str:
        if self._chance(0.5):
            return f"len({self._operand(depth)})"
        return f"close({self._struct(depth)})"

    def _chance(self, share: float) -> bool:
        return self.random.random() < share
