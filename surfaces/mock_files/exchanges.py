"""Exchange example files (reference: control-plane 6.3)."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from itertools import islice
from typing import Final

from readers import Unreadable
from readers.tree import Kind, Tree
from surfaces.contracts import MAX_CUE_FILES, Sources
from surfaces.json_documents import decode_base64
from surfaces.mock_files.behaviors import read_callbacks, read_fault, read_own_delay
from surfaces.mock_files.conditions import read_conditions
from surfaces.mock_files.metadata_keys import MAX_UNKNOWN, UNKNOWN_KEY, unknown_example_keys
from surfaces.mock_files.template_checks import check_body, check_templates
from surfaces.mock_files.text_maps import header_map, header_nodes
from surfaces.mock_files.value_nodes import read_node, unreadable_at
from surfaces.model import Exchange, Message, ValueNode
from surfaces.trees import NOTHING, body_text, is_small, member, nonblank_member, text_of

INVALID: Final = "mock_examples_invalid"
MAX_EXCHANGES: Final = 500  # of a file
MAX_CONTENT: Final = 2 * 2**20  # bytes of a bodyFile or bodyBase64
_BASE64: Final = (".b64", ".base64")
_LOWEST, _HIGHEST = 100, 599
_MAX_GRPC_STATUS: Final = 16


def mock_tree(path: str, sources: Sources, code: str = INVALID) -> Tree:
    """Return the document of a file of mock/, empty if it cannot be read, which is a warning."""
    if path in sources.trees or not path.lower().endswith(".cue"):
        return sources.tree(path, code)
    sources.trees[path] = NOTHING
    sources.cue_files -= 1
    if sources.cue_files < 0:
        detail = f"only {MAX_CUE_FILES} CUE files of a suite are read"
        sources.warnings.add_at("limit_exceeded", detail, path)
        return NOTHING
    from surfaces.mock_files.cue_examples import (  # the evaluator is slow to import
        CueUnsupported,
        read_cue,
    )

    try:
        sources.trees[path] = read_cue(sources.text(path), path)
    except CueUnsupported as found:
        sources.warnings.add_at("cue_unsupported", found.reason, path, found.line, found.column)
    return sources.trees[path]


def read_exchanges(path: str, sources: Sources, *, grpc: bool) -> tuple[Exchange, ...]:
    """Return the examples of a file in order; wrong ones are warnings and left out."""
    return tuple(_ExchangeReader(path, sources, grpc=grpc).exchanges(mock_tree(path, sources)))


def is_status(text: str, *, grpc: bool) -> bool:
    """Return whether a text is a status: 100 to 599 or, for gRPC, also a code of 0 to 16."""
    if not text.isdecimal() or len(text) > len("599"):
        return False
    number = int(text)
    return _LOWEST <= number <= _HIGHEST or (grpc and number <= _MAX_GRPC_STATUS)


class _ExchangeReader:
    def __init__(self, path: str, sources: Sources, *, grpc: bool) -> None:
        self.path = path
        self.sources = sources
        self.warnings = sources.warnings
        self.grpc = grpc
        self.read: dict[str, str | bytes] = {}  # what bodyFile leads to, by path

    def exchanges(self, document: Tree) -> Iterator[Exchange]:
        listed = member(document, "examples")
        if document is not NOTHING and document.kind is not Kind.MAP:
            self.warnings.add(INVALID, "the file must be a mapping", self.path, document)
        if listed is None:
            return
        unknown = 0
        for count, (name, each) in enumerate(self._named_examples(listed)):
            if count >= MAX_EXCHANGES:
                detail = f"only the first {MAX_EXCHANGES} examples are used"
                self.warnings.add("limit_exceeded", detail, self.path, each)
                return
            keys = unknown_example_keys(each) if is_small(each, 50_000, 5_000_000) else ()
            for reason, at in islice(keys, MAX_UNKNOWN - unknown):
                detail = f'the example "{name[:80]}": {reason}'
                self.warnings.add(UNKNOWN_KEY, detail, self.path, at)
                unknown += 1
            try:
                yield self._exchange(name, each)
            except Unreadable as error:
                self.warnings.add_unreadable(
                    INVALID, self.path, Unreadable(
                        f'the example "{name[:80]}" is left out: {error.reason}',
                        line=error.line, column=error.column,
                    ),
                )  # fmt: skip

    def _named_examples(self, listed: Tree) -> Iterator[tuple[str, Tree]]:
        """Yield the examples of a mapping, or of a list whose entries have a `name`."""
        if listed.kind is Kind.MAP:
            yield from listed.pairs.items()
            return
        if listed.kind is not Kind.LIST:
            self.warnings.add(INVALID, "examples must be a mapping", self.path, listed)
        taken = set()
        for each in listed.items:
            name = text_of(member(each, "name"))
            if not name or name in taken:
                reason = (
                    f'the name "{name[:80]}" occurs twice' if name else "an example needs a name"
                )
                self.warnings.add(INVALID, reason, self.path, each)
                continue
            taken.add(name)
            yield name, each

    def _exchange(self, name: str, tree: Tree) -> Exchange:
        if tree.kind is not Kind.MAP:
            raise unreadable_at(tree, "it must be a mapping")
        response, schema = member(tree, "response"), member(tree, "responseSchema")
        status = nonblank_member(response, "status") or nonblank_member(schema, "status")
        status = status or nonblank_member(tree, "responseStatus")
        media_type = nonblank_member(response, "mediaType") or nonblank_member(schema, "mediaType")
        media_type = media_type or nonblank_member(tree, "responseMediaType")
        text = text_of(status).strip() or "200"
        if not is_status(text, grpc=self.grpc):
            raise unreadable_at(status or tree, f'"{text[:40]}" is not a status')
        fault = nonblank_member(response, "fault") or nonblank_member(schema, "fault")
        callbacks = nonblank_member(tree, "callbacks")
        if callbacks is not None and not is_small(callbacks, values=20_000, characters=2_000_000):
            raise unreadable_at(callbacks, "the callbacks are too large")
        return Exchange(
            name=name,
            source_artifact=self.path,
            when=read_conditions(tree),
            request=self._message(tree, "request"),
            response=self._message(tree, "response"),
            status=text,
            media_type=text_of(media_type).strip(),
            line=tree.line,
            fault=None if fault is None else read_fault(fault),
            delay=read_own_delay(response) or read_own_delay(schema),
            callbacks=() if callbacks is None else read_callbacks(callbacks),
        )

    def _message(self, example: Tree, name: str) -> Message:
        """Return the request or response, also of `requestHeaders`, `requestBody` and so on."""
        literal, schema = nonblank_member(example, name), nonblank_member(example, f"{name}Schema")
        for part in (literal, schema):
            if part is not None and part.kind is not Kind.MAP:
                raise unreadable_at(part, "a request or response must be a mapping")
        body, headers = member(literal, "body"), member(literal, "headers")
        if body is None:
            body = member(example, f"{name}Body")
        if body is not None and not is_small(body, values=20_000, characters=2_000_000):
            raise unreadable_at(body, "the body is too large")
        headers = headers or member(example, f"{name}Headers")
        if name == "response":
            check_templates(headers, member(literal, "mediaType"), member(schema, "mediaType"))
            if body is not None:
                check_body(body)
        text = None if body is None else body_text(body)
        content = self._content(example, literal, text) if name == "response" else None
        if isinstance(content, str):
            text, content = content, None
        return Message(
            headers=header_map(headers),
            body=text,
            content=content,
            headers_node=self._node(header_nodes(nonblank_member(schema, "headers"))),
            body_node=self._node(member(schema, "body")),
        )

    def _content(
        self, example: Tree, response: Tree | None, body: str | None
    ) -> str | bytes | None:
        """Return what `bodyFile` or `bodyBase64` says: a text is a template, as `body` is."""
        file = nonblank_member(response, "bodyFile")
        encoded = nonblank_member(response, "bodyBase64")
        encoded = encoded or nonblank_member(example, "responseBodyBase64")
        at = file or encoded
        if at is None:
            return None
        if body is not None or (file and encoded):
            raise unreadable_at(at, "use one of body, bodyFile and bodyBase64")
        if file is None:
            return self._decode(text_of(at).encode(), at)
        path = posixpath.normpath(posixpath.join(posixpath.dirname(self.path), text_of(file)))
        if path not in self.read:
            self.read[path] = self._file(path, at)
        return self.read[path]

    def _file(self, path: str, at: Tree) -> str | bytes:
        content = self.sources.files.get(path)
        if content is None:
            advice = "bytes that are no text stand in a file of base64, with the ending .b64"
            raise unreadable_at(at, f'bodyFile: "{path[:200]}" is no file of the suite; {advice}')
        if len(content) > MAX_CONTENT:
            raise unreadable_at(at, "the bodyFile is larger than 2 MiB")
        if path.lower().endswith(_BASE64):
            return self._decode(content, at)
        return content.decode(errors="replace")

    def _decode(self, text: bytes, at: Tree) -> bytes:
        found = decode_base64(text) if len(text) <= MAX_CONTENT else None
        if found is None:
            raise unreadable_at(at, "this is no base64 of at most 2 MiB")
        return found

    def _node(self, tree: Tree | None) -> ValueNode | None:
        if tree is None:
            return None
        if not is_small(tree, values=20_000, characters=2_000_000):
            raise unreadable_at(tree, "the schema is too large")
        return read_node(tree)
