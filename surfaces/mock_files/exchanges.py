"""Exchange example files (reference: control-plane 6.3)."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Final

from readers import Unreadable
from readers.tree import Kind, Tree
from surfaces.behaviors import (
    BODY,
    CALLBACKS,
    DELAY,
    DELAY_MILLIS,
    FAULT,
    TEMPLATE,
    TEMPLATE_BODY,
    TEMPLATE_HEADERS,
    Callback,
    Delay,
    MockFault,
)
from surfaces.contracts import MAX_CUE_FILES, Sources
from surfaces.forms import ANYTHING, STRIPPED, TEXT, FileNotes, Form, read_text, unreadable_at
from surfaces.json_documents import decode_base64
from surfaces.mock_files.conditions import ConditionKeys, read_conditions
from surfaces.model import Exchange, Message
from surfaces.operation_rules import check_status, is_status
from surfaces.records import Also, FileRecord, read_record
from surfaces.text_maps import HEADERS
from surfaces.trees import NOTHING, member, text_of
from surfaces.value_nodes import HEADER_NODES, NODE, ValueNode

INVALID: Final = "mock_examples_invalid"
MAX_EXCHANGES: Final = 500  # of a file
MAX_CONTENT: Final = 2 * 2**20  # bytes of a bodyFile or bodyBase64
_BASE64: Final = (".b64", ".base64")
_TYPES: Final[Mapping[str, str]] = {
    "json": "application/json", "xml": "application/xml", "text": "text/plain",
    "html": "text/html", "form": "application/x-www-form-urlencoded", "csv": "text/csv",
}  # fmt: skip


def _media_type(tree: Tree, key: str, notes: FileNotes) -> str:
    text: str = TEMPLATE.read(tree, key, notes)
    if "/" not in text and "{{" not in text:
        advice = f"; write {_TYPES.get(text.lower(), 'one as application/json')}"
        notes.add_value(unreadable_at(tree, f'"{text[:40]}" is not a media type{advice}'))
    return text


MEDIA_TYPE: Final = Form(_media_type, {"type": "string"})
STATUS: Final = STRIPPED.with_check(check_status)
RAW: Final = Form(ANYTHING.read, {"type": "string"})


class RequestKeys(FileRecord, frozen=True, kw_only=True):
    """What a request looks like; only `when` selects."""

    label: ClassVar = "request"
    is_lenient: ClassVar = True
    informational: ClassVar = ("method", "path", "query", "mediaType")
    headers: Annotated[Mapping[str, str], HEADERS] = {}
    body: Annotated[str | None, BODY] = None


class RequestSchemaKeys(FileRecord, frozen=True, kw_only=True):
    """What a request looks like, by its schema."""

    label: ClassVar = "requestSchema"
    is_lenient: ClassVar = True
    informational: ClassVar = RequestKeys.informational
    headers: Annotated[ValueNode | None, HEADER_NODES, "a node, or a list of headers"] = None
    body: Annotated[ValueNode | None, NODE, "a node"] = None


class AnswerKeys(FileRecord, frozen=True, kw_only=True):
    """What an answer has, whether its body is literal or made by a schema."""

    is_lenient: ClassVar = True
    elsewhere: ClassVar = {
        "statuscode": "status", "contenttype": "mediaType", "jsonbody": "body",
        "content": "body", "bodyfilename": "bodyFile", "base64body": "bodyBase64",
        "fixeddelaymilliseconds": "delayMillis", "latency": "delayMillis",
        "delaydistribution": "delay", "chunkeddribbledelay": "fault: {dribble: {…}}",
    }  # fmt: skip
    status: Annotated[str, STATUS, "200, where it is missing; of gRPC also 0 to 16"] = ""
    media_type: Annotated[str, MEDIA_TYPE, "by the body, where it is missing"] = ""
    fault: Annotated[MockFault | None, FAULT, "how the answer breaks"] = None
    delay: Annotated[Delay | None, DELAY, DELAY_MILLIS, "how long it waits"] = None


class ResponseKeys(AnswerKeys, frozen=True, kw_only=True):
    """What answers; header values and every string of the body are templates."""

    label: ClassVar = "response"
    headers: Annotated[Mapping[str, str], TEMPLATE_HEADERS] = {}
    body: Annotated[str | None, TEMPLATE_BODY] = None
    body_file: Annotated[Tree | None, RAW, "a file of the suite, by its path from this one"] = None
    body_base64: Annotated[Tree | None, RAW, "bytes"] = None


class ResponseSchemaKeys(AnswerKeys, frozen=True, kw_only=True):
    """What answers, made by a schema."""

    label: ClassVar = "responseSchema"
    headers: Annotated[ValueNode | None, HEADER_NODES, "a node, or a list of headers"] = None
    body: Annotated[ValueNode | None, NODE, "a node"] = None


class ExampleKeys(FileRecord, frozen=True, kw_only=True):
    """An example: when it answers, and what. Without `when` it answers always."""

    label: ClassVar = "an example"
    is_lenient: ClassVar = True
    informational: ClassVar = ("name", "sourceArtifact")
    elsewhere: ClassVar = {
        "condition": "when", "conditions": "when", "matchers": "when", "match": "when",
        "webhooks": "callbacks", "webhook": "callbacks", "status": "response: {status: …}",
        "body": "response: {body: …}", "headers": "response: {headers: …}",
    }  # fmt: skip
    when: Annotated[
        Tree | None,
        Form(ANYTHING.read, {"type": "array", "items": {"$ref": ConditionKeys}}),
        Also("dispatch"),
        "conditions, all of which must hold",
    ] = None
    request: RequestKeys = RequestKeys()
    request_schema: RequestSchemaKeys = RequestSchemaKeys()
    response: ResponseKeys = ResponseKeys()
    response_schema: ResponseSchemaKeys = ResponseSchemaKeys()
    request_headers: Annotated[Mapping[str, str], HEADERS] = {}
    request_body: Annotated[str | None, BODY] = None
    response_status: Annotated[str, STATUS] = ""
    response_media_type: Annotated[str, MEDIA_TYPE] = ""
    response_headers: Annotated[Mapping[str, str], TEMPLATE_HEADERS] = {}
    response_body: Annotated[str | None, TEMPLATE_BODY] = None
    response_body_base64: Annotated[Tree | None, RAW] = None
    callbacks: Annotated[tuple[Callback, ...], CALLBACKS, "calls that follow the answer"] = ()
    summary: str = ""
    description: str = ""


class ExampleFile(FileRecord, frozen=True, kw_only=True):
    """Examples of an operation, in a file below mock/; in JSON, YAML or CUE."""

    label: ClassVar = "the file"
    is_lenient: ClassVar = True
    is_open: ClassVar = True
    examples: Annotated[
        Tree | None,
        Form(
            ANYTHING.read,
            {
                "type": ["object", "array"],
                "additionalProperties": {"$ref": ExampleKeys},
                "items": {"$ref": ExampleKeys},
            },
            "blank",
        ),
        "the examples by name, in the order in which they are tried",
    ] = None
    operation_id: Annotated[str, TEXT, "the operation, where the metadata do not say it"] = ""
    contract_path: Annotated[str, TEXT, "its contract, and behind # its operation"] = ""


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


class _ExchangeReader:
    def __init__(self, path: str, sources: Sources, *, grpc: bool) -> None:
        self.path = path
        self.sources = sources
        self.warnings = sources.warnings
        self.grpc = grpc
        self.notes = FileNotes(path, sources.warnings)
        self.read: dict[str, str | bytes] = {}  # what bodyFile leads to, by path

    def exchanges(self, document: Tree) -> Iterator[Exchange]:
        if document is not NOTHING and document.kind is not Kind.MAP:
            self.warnings.add(INVALID, "the file must be a mapping", self.path, document)
            return
        listed = read_record(ExampleFile, document, self.notes).examples if document.pairs else None
        if listed is None:
            return
        for count, (name, each) in enumerate(self._named_examples(listed)):
            if count >= MAX_EXCHANGES:
                detail = f"only the first {MAX_EXCHANGES} examples are used"
                self.warnings.add("limit_exceeded", detail, self.path, each)
                return
            try:
                self.notes.where = f'the example "{name[:80]}": '
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
        given = read_record(ExampleKeys, tree, self.notes)
        response, schema = given.response, given.response_schema
        status = response.status or schema.status or given.response_status or "200"
        if not is_status(status, grpc=self.grpc):
            at = member(member(tree, "response"), "status") or tree
            raise unreadable_at(at, f'"{status[:40]}" is not a status')
        body = given.response_body if response.body is None else response.body
        content = self._content(given, tree, body)
        if isinstance(content, str):
            body, content = content, None
        request_body = given.request_body if given.request.body is None else given.request.body
        return Exchange(
            name=name,
            source_artifact=self.path,
            when=read_conditions(tree),
            request=Message(
                headers=given.request.headers or given.request_headers,
                body=request_body,
                headers_node=given.request_schema.headers,
                body_node=given.request_schema.body,
            ),
            response=Message(
                headers=response.headers or given.response_headers,
                body=body,
                content=content,
                headers_node=schema.headers,
                body_node=schema.body,
            ),
            status=status,
            media_type=response.media_type or schema.media_type or given.response_media_type,
            line=tree.line,
            fault=response.fault or schema.fault,
            delay=response.delay or schema.delay,
            callbacks=given.callbacks,
        )

    def _content(self, given: ExampleKeys, tree: Tree, body: str | None) -> str | bytes | None:
        """Return what `bodyFile` or `bodyBase64` says: a text is a template, as `body` is."""
        file, encoded = given.response.body_file, given.response.body_base64
        encoded = encoded or given.response_body_base64
        at = file or encoded
        if at is None:
            return None
        read_text(at, "bodyFile" if file else "bodyBase64", self.notes)
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
            advice = "binary bodies are in a base64 file that ends in .b64"
            raise unreadable_at(
                at, f'bodyFile: "{path[:200]}" is not a file of the suite; {advice}'
            )
        if len(content) > MAX_CONTENT:
            raise unreadable_at(at, "the bodyFile is larger than 2 MiB")
        if path.lower().endswith(_BASE64):
            return self._decode(content, at)
        return content.decode(errors="replace")

    def _decode(self, text: bytes, at: Tree) -> bytes:
        found = decode_base64(text) if len(text) <= MAX_CONTENT else None
        if found is None:
            raise unreadable_at(at, "this is not base64 of at most 2 MiB")
        return found
