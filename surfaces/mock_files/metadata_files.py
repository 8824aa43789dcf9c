"""Mock metadata files (reference: control-plane 6.2), before defaults that other files decide."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final

from readers import Unreadable
from readers.tree import Kind, Tree
from surfaces.behaviors import DELAY, DELAY_MILLIS, FAULT, METHODS, CallLimit, Delay, MockFault
from surfaces.contracts import Sources
from surfaces.forms import (
    UNKNOWN_VALUE,
    FileNotes,
    Form,
    list_of,
    misspelling,
    read_text,
    unreadable_at,
    word,
)
from surfaces.mock_files.contract_names import (
    NO_CONTRACT,
    NO_METHOD,
    ContractName,
    method_of,
    read_contract_name,
)
from surfaces.mock_files.dispatch_rules import RulesInvalid, parse_rules
from surfaces.mock_files.exchanges import mock_tree
from surfaces.model import ADAPTERS, DISPATCHERS, PROTOCOLS, Adapter, Dispatcher, Rules
from surfaces.operation_rules import (
    MAX_ENTRIES,
    VALIDATE_MODES,
    Fallback,
    ParameterConstraint,
    StateRules,
    ValidateMode,
)
from surfaces.records import FileRecord, fields_of, read_record, record_of
from surfaces.trees import NOTHING, first_line, member, nonblank_member, text_of

INVALID: Final = "mock_metadata_invalid"
EXTENSIONS: Final = (".yaml", ".yml", ".json", ".cue")
METADATA: Final = ".metadata"
SUITE_FILES: Final = ("metadata.yaml", "metadata.yml")
KINDS: Final = ("MockOperation", "MockSurface")
CONTRACT_KEYS: Final = (
    ("metadata", "contractPath"), ("spec", "contractPath"), ("metadata", "sourceArtifact"),
)  # fmt: skip
_FILE: Final = re.compile(r"^mock/(?:.*/)?[^/]+\.metadata\.(?:yaml|yml|json|cue)\Z", re.IGNORECASE)


def _first_line(tree: Tree, key: str, notes: FileNotes) -> str:
    read_text(tree, key, notes)
    return first_line(tree)


def _method(tree: Tree, key: str, notes: FileNotes) -> str:
    text = read_text(tree, key, notes)
    _doubt("method", tree, (*METHODS, *NO_METHOD), notes)
    return method_of(text)


def _protocol(tree: Tree, key: str, notes: FileNotes) -> str:
    text = _first_line(tree, key, notes)
    _doubt("protocol", tree, PROTOCOLS, notes)
    return text


def _kind(tree: Tree, key: str, notes: FileNotes) -> str:
    text: str = read_text(tree, key, notes)
    _doubt("kind", tree, KINDS, notes)
    return text


def _doubt(noun: str, tree: Tree, known: tuple[str, ...], notes: FileNotes) -> None:
    if reason := misspelling(noun, tree.text.strip(), known):
        notes.add_value(unreadable_at(tree, reason))


_OF_DISPATCHER: Final = ("dispatcherRules", "dispatcher")
LINE: Final = Form(_first_line, {"type": "string"})
MODE: Final = word("mode of validate", *VALIDATE_MODES, otherwise="")


class Identity(FileRecord, frozen=True, kw_only=True):
    """What a file is about; other keys are its author's."""

    label: ClassVar = "metadata"
    is_lenient: ClassVar = True
    is_open: ClassVar = True
    operation_id: Annotated[str, "the operation; the file's name, where it is missing"] = ""
    surface: Annotated[str, "the API surface; the first folder below mock/ otherwise"] = ""
    surface_title: Annotated[str, LINE] = ""
    contract_path: Annotated[str, "the contract of the operation, and behind # its name"] = ""
    source_artifact: Annotated[str, "the same"] = ""
    summary: Annotated[str, LINE] = ""


class OperationSpec(FileRecord, frozen=True, kw_only=True):
    """How an operation is simulated."""

    label: ClassVar = "spec"
    is_lenient: ClassVar = True
    collects: ClassVar = True
    largest: ClassVar = (20_000, 1_000_000)
    protocol: Annotated[str, Form(_protocol, {"type": "string"}), "REST, gRPC, Kafka, …"] = ""
    adapter: Annotated[
        Adapter | None,
        word("adapter", *ADAPTERS, otherwise="; it is derived from the protocol"),
        "by the protocol, where it is missing",
    ] = None
    method: Annotated[str, Form(_method, {"type": "string"})] = ""
    path: Annotated[str, "the template of the path, as /payments/{id}"] = ""
    summary: Annotated[str, LINE] = ""
    contract_path: Annotated[str, "the contract of the operation, and behind # its name"] = ""
    mock_path: Annotated[str, "its examples; this file without .metadata, where it is missing"] = ""
    dispatcher: Annotated[
        Dispatcher,
        word("dispatcher", *DISPATCHERS, otherwise=" and treated as example"),
        "how an example is chosen",
    ] = "example"
    dispatcher_rules: Annotated[str, "of dispatcher sequence, random or script"] = ""
    delay: Annotated[Delay, DELAY, DELAY_MILLIS, "how long an answer waits"] = Delay()
    fault: Annotated[MockFault | None, FAULT, "how each answer breaks"] = None
    rate_limit: CallLimit | None = None
    validate: Annotated[ValidateMode | None, MODE, "how calls are checked"] = None
    parameter_constraints: Annotated[
        tuple[ParameterConstraint, ...], list_of(record_of(ParameterConstraint), MAX_ENTRIES)
    ] = ()
    fallback: Fallback | None = None
    state: StateRules | None = None
    resolver_url: Annotated[str, "generated, where it is missing"] = ""
    runtime_url: Annotated[str, "generated, where it is missing"] = ""


class SurfaceSpec(FileRecord, frozen=True, kw_only=True):
    """What holds for all operations of a surface."""

    label: ClassVar = "spec"
    is_lenient: ClassVar = True
    collects: ClassVar = True
    validate: Annotated[ValidateMode | None, MODE, "how calls are checked"] = None
    rate_limit: CallLimit | None = None


class _Document(FileRecord, frozen=True, kw_only=True):
    is_lenient: ClassVar = True
    collects: ClassVar = True
    informational: ClassVar = ("apiVersion",)
    kind: Annotated[str, Form(_kind, {"type": "string", "examples": list(KINDS)})] = ""
    metadata: Identity = Identity()


class MetadataKeys(_Document, frozen=True, kw_only=True):
    """A metadata file of a mock: *.metadata.yaml below mock/."""

    label: ClassVar = "the file"
    is_open: ClassVar = True
    spec: OperationSpec = OperationSpec()


class SurfaceKeys(_Document, frozen=True, kw_only=True):
    """A file of `kind: MockSurface`; of `metadata`, it has `surface` alone."""

    label: ClassVar = "a MockSurface"
    spec: SurfaceSpec = SurfaceSpec()


@dataclass(slots=True, kw_only=True)
class MetadataFile:
    """What a metadata file says; "" and None are what it does not say.

    `problems` are the reasons why its operation cannot answer. An example file without metadata has
    `path` "". `at` is its `spec` with positions.
    """

    path: str
    operation_id: str
    mock_path: str
    names_operation: bool = False
    surface: str = ""
    surface_title: str = ""
    names: ContractName = NO_CONTRACT
    protocol: str = ""
    method: str = ""
    route: str = ""
    summary: str = ""
    rules: Rules | None = None
    spec: OperationSpec = field(default_factory=OperationSpec)
    tree: Tree = NOTHING
    at: Tree = NOTHING
    problems: list[str] = field(default_factory=list)


def is_metadata(path: str) -> bool:
    return _FILE.match(path) is not None


def without_metadata(path: str) -> str:
    """Return `mock/a/b.yaml` for `mock/a/b.metadata.yaml`."""
    stem, _, extension = path.rpartition(".")
    return f"{stem[: -len(METADATA)]}.{extension}"


def with_metadata(path: str) -> str:
    stem, _, extension = path.rpartition(".")
    return f"{stem}{METADATA}.{extension}"


def file_stem(path: str) -> str:
    return path.rpartition("/")[2].rpartition(".")[0]


def read_metadata(path: str, sources: Sources) -> MetadataFile:
    """Return what a metadata file says; wrong values are warnings."""
    own = without_metadata(path)
    made = MetadataFile(path=path, operation_id=file_stem(own), mock_path=own)
    document = mock_tree(path, sources, INVALID)
    if document is NOTHING:
        made.problems.append("the file cannot be read")
        return made
    made.tree, made.at = document, nonblank_member(document, "spec") or NOTHING
    notes = FileNotes(path, sources.warnings)
    for name, value in document.pairs.items():
        if known := fields_of(OperationSpec).by_key.get(name.casefold()):
            notes.add_unknown(f'"{known}" belongs below spec and is ignored here', value)
    given = MetadataKeys()
    try:
        given = given if document.kind is Kind.NULL else read_record(MetadataKeys, document, notes)
    except Unreadable as error:
        notes.problems.append(error)
    _take_names(made, given, document)
    _take_rules(made, notes)
    for problem in notes.problems:
        sources.warnings.add_unreadable(INVALID, path, problem)
        made.problems.append(problem.reason)
    return made


def _take_names(made: MetadataFile, given: MetadataKeys, document: Tree) -> None:
    spec, metadata = given.spec, given.metadata
    made.spec = spec
    made.names_operation = bool(metadata.operation_id)
    made.operation_id = metadata.operation_id or made.operation_id
    made.surface, made.surface_title = metadata.surface, metadata.surface_title
    for part, key in CONTRACT_KEYS:
        if not made.names.file:
            made.names = read_contract_name(nonblank_member(document, part), key, made.path)
    made.protocol = spec.protocol[:40]
    made.method = spec.method or made.names.method
    made.route = spec.path or made.names.path
    made.summary = spec.summary or metadata.summary
    made.mock_path = spec.mock_path or made.mock_path


def _take_rules(made: MetadataFile, notes: FileNotes) -> None:
    spec, rules, named = made.spec, *(member(made.at, key) for key in _OF_DISPATCHER)
    try:
        made.rules = parse_rules(spec.dispatcher, spec.dispatcher_rules)
    except RulesInvalid as error:
        at = rules or named or made.at
        notes.problems.append(unreadable_at(at, f"dispatcherRules: {error}"))
    if rules is not None and spec.dispatcher_rules and named is None:
        reason = "the dispatcher example has no rules; name another: script, sequence or random"
        notes.add_value(unreadable_at(rules, reason))


def take_identity(mock: MetadataFile, document: Tree) -> None:
    """Take from an example file what its metadata does not say: the operation and its contract."""
    if not mock.names_operation:
        mock.operation_id = text_of(member(document, "operationId")) or mock.operation_id
    if not mock.names.file:
        mock.names = read_contract_name(document, "contractPath", mock.mock_path)
        mock.method = mock.method or mock.names.method
        mock.route = mock.route or mock.names.path


@dataclass(frozen=True, slots=True)
class SurfaceFile:
    """What a file of a surface says of all its operations; `at` names the surface."""

    path: str = ""
    surface: str = ""
    spec: SurfaceSpec = field(default_factory=SurfaceSpec)
    at: Tree = NOTHING


def is_surface(path: str, sources: Sources) -> bool:
    """Return whether a metadata file is one of a surface, and of no operation."""
    kind = text_of(member(mock_tree(path, sources, INVALID), "kind"))
    return kind.strip().lower() == KINDS[1].lower()


def read_surface(path: str, sources: Sources) -> SurfaceFile:
    """Return what a file of a surface says; its surface is "" where it names none."""
    document, notes = mock_tree(path, sources, INVALID), FileNotes(path, sources.warnings)
    given = read_record(SurfaceKeys, document, notes)
    for problem in notes.problems:
        sources.warnings.add_unreadable(INVALID, path, problem)
    at = member(member(document, "metadata"), "surface") or document
    return SurfaceFile(path, given.metadata.surface, given.spec, at)


def suite_mode(sources: Sources) -> ValidateMode | None:
    """Return the mode of `mocks: {validate: enforce}` in metadata.yaml, flat or in `spec`.

    What else is wrong there is told with the suite.
    """
    path = next((each for each in SUITE_FILES if each in sources.files), None)
    if path is None:
        return None
    document = sources.tree(path, INVALID)
    for owner in (document, member(document, "spec")):
        value = nonblank_member(member(owner, "mocks"), "validate")
        if member(owner, "mocks") is None or value is None:
            continue
        try:
            mode: ValidateMode = MODE.read(value, "validate", FileNotes())
        except Unreadable as error:
            sources.warnings.add_unreadable(UNKNOWN_VALUE, path, error)
            return None
        return mode
    return None
