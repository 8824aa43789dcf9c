"""What is most likely a mistake in documents of api/: misspelled keywords, and what does not agree.

(reference: control-plane 6.2)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain, islice
from typing import Final

import re2

from readers.diagnostics import nearest_name
from readers.tree import Kind, Tree
from surfaces.contracts import INVALID, Sources
from surfaces.keywords import Grammar, KeywordProblem, document_problems
from surfaces.keywords.contract_grammars import OPENAPI, SWAGGER, grammar_of
from surfaces.keywords.references import ReferenceTarget, Targets, target_of
from surfaces.keywords.walk import LIKE, MAX_PROBLEMS, Place, pointer_text
from surfaces.trees import NOTHING, items, members, text_of

_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
_FORMATS: Final = ("openapi", "swagger", "asyncapi")
_VERSION: Final = re2.compile(r"\d+(?:\.\d+){0,2}(?:-[\w.-]+)?")
_PARAMETER: Final = re2.compile(r"\{([^{}]*)\}")


def warn_of_mistakes(path: str, sources: Sources) -> None:
    """Warn of what is wrong in a document of OpenAPI, Swagger or AsyncAPI, and of what is none."""
    document = sources.written_tree(path)
    if document.kind is not Kind.MAP:
        return
    found = next((each for each in _FORMATS if each in document.pairs), "")
    target = partial(_target, sources=sources)
    problems: Iterator[KeywordProblem] = iter(())
    if not found:
        problems = _without_version(document, path)
    else:
        grammar = _grammar(found, document)
        rules = _Rules(document, path, target)
        problems = chain(
            _version(found, document, path),
            document_problems(grammar, document, target, path),
            rules.problems(),
        )
    for number, each in enumerate(islice(problems, MAX_PROBLEMS + 1)):
        if number == MAX_PROBLEMS:
            detail = f"only the first {MAX_PROBLEMS} mistakes of this document are listed"
            sources.warnings.add("limit_exceeded", detail, path)
        else:
            sources.warnings.add(INVALID, each.detail[:600], each.file, each.at)


def _target(reference: str, file: str, *, sources: Sources) -> ReferenceTarget | None:
    return target_of(reference, file, sources.files, sources.written_tree)


def _grammar(found: str, document: Tree) -> Grammar:
    if found == "asyncapi":
        return grammar_of(text_of(document.get("asyncapi")))
    return OPENAPI if found == "openapi" else SWAGGER


def _version(found: str, document: Tree, path: str) -> Iterator[KeywordProblem]:
    written = document.pairs[found]
    if not _VERSION.fullmatch(text_of(written)):
        yield KeywordProblem(
            f'"{text_of(written)[:80]}" is not a version of {found}', written, path
        )


def _without_version(document: Tree, path: str) -> Iterator[KeywordProblem]:
    """Yield that a document would be a contract if it said of what format it is."""
    for key, value in document.pairs.items():
        if near := nearest_name(key, _FORMATS, least=LIKE):
            detail = f'the document has no key "{key[:80]}"; did you mean {near}?'
            yield KeywordProblem(f"{detail} Without it, this file is not a contract", value, path)
            return
    for key in ("paths", "channels"):
        if key in document.pairs and "info" in document.pairs:
            detail = f"it has {key}, but neither {', '.join(_FORMATS[:2])} nor {_FORMATS[2]}"
            yield KeywordProblem(
                f"{detail}: this file is not a contract", document.pairs[key], path
            )
            return


class _Rules:
    """What the operations of a document have to agree on."""

    def __init__(self, document: Tree, path: str, target: Targets) -> None:
        self.document = document
        self.path = path
        self.target = target
        self.ids: dict[str, str] = {}

    def problems(self) -> Iterator[KeywordProblem]:
        """Yield what operations, parameters and security of the paths or channels say wrongly."""
        components = self.document.get("components") or NOTHING
        schemes = components.get("securitySchemes") or self.document.get("securityDefinitions")
        known = tuple(schemes.pairs) if schemes is not None else ()
        yield from self._security(self.document, known, None)
        for template, item in members(self.document.get("paths")):
            place: Place = ((None, "paths"), template)
            if not template.startswith("x-"):
                yield from self._path_item(template, item, place, known)
        for name, channel in members(self.document.get("channels")):
            address = channel.get("address") if "operations" in self.document.pairs else None
            declared = list(members(channel.get("parameters")))
            place = ((None, "channels"), name)
            template = text_of(address) if address is not None else name
            if declared:
                yield from self._template(template, declared, channel, place)
            for action in ("publish", "subscribe"):
                yield from self._id(channel.get(action), (place, action))

    def _resolve(self, tree: Tree) -> Tree:
        reference = tree.get("$ref")
        if reference is None:
            return tree
        found = self.target(text_of(reference), self.path)
        return found.tree if found is not None else NOTHING

    def _problem(self, place: Place | None, detail: str, at: Tree) -> KeywordProblem:
        where = pointer_text(place)
        return KeywordProblem(f"{where}: {detail}" if where else detail, at, self.path)

    def _path_item(
        self, template: str, item: Tree, place: Place, schemes: tuple[str, ...]
    ) -> Iterator[KeywordProblem]:
        written, item = item, self._resolve(item)
        for method in _METHODS:
            operation = item.get(method)
            if operation is None or operation.kind is not Kind.MAP:
                continue
            here: Place = (place, method)
            yield from self._id(operation, here)
            yield from self._security(operation, schemes, here)
            named: dict[tuple[str, str], Tree] = {}
            is_whole = True
            for owner in (item, operation):
                own: set[tuple[str, str]] = set()
                for each in items(owner.get("parameters")):
                    found = self._resolve(each)
                    is_whole = is_whole and found is not NOTHING
                    key = text_of(found.get("in")), text_of(found.get("name"))
                    if key in own and all(key):
                        detail = f"the parameter {key[1][:80]} in {key[0][:80]} is declared twice"
                        yield self._problem(here, detail, each)
                    own.add(key)
                    named[key] = each
            declared = [(name, each) for (source, name), each in named.items() if source == "path"]
            if is_whole:
                yield from self._template(template, declared, written, here)

    def _template(
        self, template: str, declared: list[tuple[str, Tree]], at: Tree, place: Place
    ) -> Iterator[KeywordProblem]:
        """Yield which parameters of a path are not declared, and the other way round.

        A short document that declares none for a path is as its author means it: any text suits.
        """
        shown = template[:200]
        rest = _PARAMETER.sub("", template)
        if "{" in rest or "}" in rest:
            yield self._problem(place, f"a brace of {shown} has no other one", at)
            return
        wanted = dict.fromkeys(_PARAMETER.findall(template)) if declared else ()
        spare = {name: each for name, each in declared if name not in wanted}
        missing = [name for name in wanted if name not in dict(declared)]
        for name, each in spare.items():
            detail = f'{shown} has no parameter "{name[:80]}"{_advice(name, missing)}'
            yield self._problem(place, detail, each)
        for name in missing:
            detail = f'the parameter "{name[:80]}" of {shown} is not declared'
            yield self._problem(place, f"{detail}{_advice(name, list(spare))}", at)

    def _id(self, operation: Tree | None, place: Place) -> Iterator[KeywordProblem]:
        written = operation.get("operationId") if operation is not None else None
        if not (name := text_of(written)) or written is None:
            return
        if name in self.ids:
            detail = f'the operationId "{name[:80]}" is that of {self.ids[name]} as well'
            yield self._problem(place, detail, written)
        self.ids.setdefault(name, pointer_text(place))

    def _security(
        self, owner: Tree, schemes: tuple[str, ...], place: Place | None
    ) -> Iterator[KeywordProblem]:
        for each in items(owner.get("security")):
            for name, value in each.pairs.items():
                if name not in schemes:
                    near = nearest_name(name, schemes)
                    detail = f'the security scheme "{name[:80]}" is not declared'
                    yield self._problem(place, detail + _advice(name, [near]), value)


def _advice(name: str, others: list[str]) -> str:
    """Return which of the names is meant: the only one, or one that is like it."""
    near = others[0] if len(others) == 1 else nearest_name(name, others)
    return f"; did you mean {near}?" if near else ""
