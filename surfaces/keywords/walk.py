"""One walk over a document and what it refers to, by a grammar."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from readers.diagnostics import nearest_name
from readers.json import escape_pointer
from readers.tree import Kind, Tree
from surfaces.keywords.grammar import Grammar, MemberType, ObjectKind
from surfaces.keywords.references import Targets
from surfaces.keywords.values import KEYS, SHOWN, key_problem, scalar_problem, schema_problems

MAX_PROBLEMS: Final = 50  # of a document
MAX_COMPARED: Final = 2_000  # unknown keys of a document
MAX_POINTER: Final = 300  # characters
LIKE: Final = 0.75
_GENERIC: Final = frozenset(("description", "summary", "name", "title", "example", "examples"))
Place = tuple["Place | None", str]


@dataclass(frozen=True, slots=True)
class KeywordProblem:
    """What is wrong, with the pointer to it, and where: in the document or what it refers to."""

    detail: str
    at: Tree
    file: str


@dataclass(frozen=True, slots=True)
class _Owner:
    """An object of the document with its kind, and the kind of the object around it."""

    tree: Tree
    kind: ObjectKind
    place: Place | None
    above: ObjectKind | None = None


def document_problems(
    grammar: Grammar, document: Tree, targets: Targets, file: str = "", kind: str = "document"
) -> Iterator[KeywordProblem]:
    """Yield what is wrong in a document and in what it refers to, at most `MAX_PROBLEMS`."""
    return islice(_KeywordWalk(grammar, targets).problems(document, file, kind), MAX_PROBLEMS)


class _KeywordWalk:
    def __init__(self, grammar: Grammar, targets: Targets) -> None:
        self.grammar = grammar
        self.targets = targets
        self.file = ""
        self.near: dict[tuple[str, str], str] = {}
        self.seen: set[int] = set()
        self.waiting: list[tuple[_Owner, str]] = []

    def problems(self, document: Tree, file: str, kind: str) -> Iterator[KeywordProblem]:
        """Yield the problems of a document, then of what it refers to."""
        self.waiting.append((_Owner(document, self.grammar.kinds[kind], None), file))
        for owner, place in self.waiting:  # which grows meanwhile
            self.file = place
            yield from self._object(owner)

    def _problem(self, place: Place | None, detail: str, at: Tree) -> KeywordProblem:
        where = pointer_text(place)
        return KeywordProblem(f"{where}: {detail}" if where else detail, at, self.file)

    def _object(self, owner: _Owner) -> Iterator[KeywordProblem]:
        tree, kind = owner.tree, owner.kind
        if tree.kind is not Kind.MAP or id(tree) in self.seen:
            return
        self.seen.add(id(tree))
        if _has_foreign_schema(tree):
            kind = self.grammar.kinds.get(f"foreign-{kind.name}", kind)
            owner = _Owner(tree, kind, owner.place, owner.above)
        yield from self._keys(owner)
        if "$ref" in tree.pairs and "$ref" in kind.members:
            yield from self._reference(tree.pairs["$ref"], owner)
        else:
            yield from self._whole(owner)

    def _keys(self, owner: _Owner) -> Iterator[KeywordProblem]:
        """Yield the problems of each key, and of what is below it."""
        kind = owner.kind
        for key, value in owner.tree.pairs.items():
            types = kind.members.get(key)
            if types:
                yield from self._value(value, types, kind, (owner.place, key))
            elif types is None and (advice := self._advice(key, value, owner)):
                detail = f'{kind.shown} has no key "{key[:SHOWN]}", which is ignored; {advice}'
                yield self._problem(owner.place, detail, value)

    def _whole(self, owner: _Owner) -> Iterator[KeywordProblem]:
        """Yield what is missing, and what the members of a schema say against each other."""
        for key in owner.kind.required:
            if key not in owner.tree.pairs:
                detail = f"{owner.kind.shown} must have {key}"
                yield self._problem(owner.place, detail, owner.tree)
        if owner.kind.is_schema:
            is_part = owner.place is not None and "allOf" in (owner.place[0] or ())
            for detail, at in schema_problems(owner.tree, is_part=is_part):
                yield self._problem(owner.place, detail, at)

    def _value(
        self, tree: Tree, types: tuple[MemberType, ...], above: ObjectKind, place: Place
    ) -> Iterator[KeywordProblem]:
        found = next((each for each in types if each.node is tree.kind), None)
        if found is None:
            wanted = " or ".join(dict.fromkeys(each.words for each in types))
            yield self._problem(place, f"it must be {wanted}", tree)
        elif found.name in self.grammar.kinds:
            yield from self._object(_Owner(tree, self.grammar.kinds[found.name], place, above))
        elif found.inner and tree.kind is Kind.LIST:
            for number, item in enumerate(tree.items):
                yield from self._value(item, found.inner, above, (place, str(number)))
        elif found.inner:
            yield from self._members(tree, found, above, place)
        elif wrong := scalar_problem(tree, found):
            yield self._problem(place, wrong, tree)

    def _members(
        self, tree: Tree, found: MemberType, above: ObjectKind, place: Place
    ) -> Iterator[KeywordProblem]:
        """Yield the problems of a mapping whose keys are names."""
        for key, item in tree.pairs.items():
            if found.keys and key.startswith(self.grammar.free):
                continue
            if wrong := key_problem(key, found.keys):
                yield self._problem(place, wrong, item)
            yield from self._value(item, found.inner, above, (place, key))

    def _reference(self, reference: Tree, owner: _Owner) -> Iterator[KeywordProblem]:
        found = self.targets(reference.text, self.file) if reference.kind is Kind.STRING else None
        if found is None:
            return
        if found.reason:
            yield self._problem(owner.place, found.reason, reference)
            return
        place: Place | None = None
        for part in found.parts:
            place = (place, part)
        self.waiting.append((_Owner(found.tree, owner.kind, place), found.file))

    def _advice(self, key: str, value: Tree, owner: _Owner) -> str:
        """Return what is said of an unknown key: the known one, or where it belongs."""
        kind = owner.kind
        if key.startswith(self.grammar.free):
            return ""
        if (kind.name, key) not in self.near:
            if len(self.near) >= MAX_COMPARED:
                return ""
            self.near[kind.name, key] = nearest_name(key, kind.members, least=LIKE)
        near = self.near[kind.name, key]
        if near and near not in owner.tree.pairs:
            return f"did you mean {near}?"
        return self._home(key, value, owner)

    def _home(self, key: str, value: Tree, owner: _Owner) -> str:
        """Return where a key belongs that is known nearby: wrong indentation, most likely."""
        kind, above = owner.kind, owner.above
        for name, types in kind.members.items():
            for each in types:
                if self._is_below(key, value, each, is_there=name in owner.tree.pairs):
                    return f"it belongs below {name}"
        if above is not None and key in above.members and key not in _GENERIC:
            return f"it belongs beside the {kind.shown.partition(' ')[2]}, not in it"
        return ""

    def _is_below(self, key: str, value: Tree, each: MemberType, *, is_there: bool) -> bool:
        """Return whether a key is one of a member, or its value one of those that a member maps."""
        if each.keys:
            return KEYS[each.keys][0].fullmatch(key) is not None
        below = self.grammar.kinds.get(each.name)
        if below is not None:
            return key in below.members and key not in _GENERIC
        entry = self.grammar.kinds.get(each.inner[0].name) if each.inner else None
        if entry is None or is_there or each.node is not Kind.MAP:
            return False
        keys = value.pairs.keys()
        return bool(keys) and keys <= entry.members.keys() and not keys <= _GENERIC


def _has_foreign_schema(tree: Tree) -> bool:
    """Return whether a message of AsyncAPI has its schema in a language of its own."""
    named = tree.pairs.get("schemaFormat")
    return named is not None and not ("asyncapi" in named.text or "schema+" in named.text)


def pointer_text(place: Place | None) -> str:
    """Return the JSON pointer of a place, shortened at its start."""
    parts: list[str] = []
    while place is not None:
        place, part = place
        parts.append(escape_pointer(part[:MAX_POINTER]))
    text = "".join(f"/{each}" for each in reversed(parts))
    return text if len(text) <= MAX_POINTER else f"…{text[-MAX_POINTER:]}"
