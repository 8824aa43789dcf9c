"""Mock metadata files (reference: control-plane 6.2), before defaults that other files decide."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, cast

from readers import Unreadable
from readers.diagnostics import nearest_advice
from readers.tree import Kind, Tree
from surfaces.behaviors import CallLimit, Delay, MockFault
from surfaces.contracts import Sources
from surfaces.mock_files.behaviors import read_fault, read_own_delay, read_rate_limit
from surfaces.mock_files.contract_names import (
    NO_CONTRACT,
    ContractName,
    method_of,
    read_contract_name,
)
from surfaces.mock_files.dispatch_rules import RulesInvalid, parse_rules
from surfaces.mock_files.exchanges import is_status, mock_tree
from surfaces.mock_files.metadata_keys import MAX_UNKNOWN, UNKNOWN_KEY, unknown_keys
from surfaces.mock_files.template_checks import check_body, check_keys, check_templates
from surfaces.mock_files.text_maps import header_map, text_map
from surfaces.mock_files.validation_modes import read_mode
from surfaces.mock_files.value_nodes import read_pattern, unreadable_at
from surfaces.model import (
    ADAPTERS,
    DISPATCHERS,
    FALLBACK_MODES,
    PARAMETER_SOURCES,
    Adapter,
    Dispatcher,
    Fallback,
    FallbackMode,
    ParameterConstraint,
    Rules,
    StateRules,
    Transition,
    ValidateMode,
)
from surfaces.trees import (
    NOTHING,
    Warnings,
    body_text,
    first_line,
    is_blank,
    is_small,
    is_true,
    items,
    member,
    members,
    nonblank_member,
    text_of,
)

INVALID: Final = "mock_metadata_invalid"
UNKNOWN_VALUE: Final = "unknown_value"  # a default stands in for it, and the operation answers
EXTENSIONS: Final = (".yaml", ".yml", ".json", ".cue")
METADATA: Final = ".metadata"
CONTRACT_KEYS: Final = (
    ("metadata", "contractPath"), ("spec", "contractPath"), ("metadata", "sourceArtifact"),
)  # fmt: skip
MAX_ENTRIES: Final = 100  # constraints and transitions
_FILE: Final = re.compile(r"^mock/(?:.*/)?[^/]+\.metadata\.(?:yaml|yml|json|cue)\Z", re.IGNORECASE)


@dataclass(slots=True, kw_only=True)
class MetadataFile:
    """What a metadata file says; "" and None are what it does not say.

    `problems` are the reasons why its operation cannot answer. An example file without metadata has
    `path` "".
    """

    path: str
    operation_id: str
    mock_path: str
    names_operation: bool = False
    names_mock_path: bool = False
    surface: str = ""
    surface_title: str = ""
    names: ContractName = NO_CONTRACT
    protocol: str = ""
    adapter: Adapter | None = None
    method: str = ""
    route: str = ""
    summary: str = ""
    dispatcher: Dispatcher = "example"
    rules_text: str = ""
    rules: Rules | None = None
    delay: Delay = field(default_factory=Delay)
    fault: MockFault | None = None
    rate_limit: CallLimit | None = None
    validate: ValidateMode | None = None
    constraints: tuple[ParameterConstraint, ...] = ()
    fallback: Fallback | None = None
    state: StateRules | None = None
    resolver_url: str = ""
    runtime_url: str = ""
    tree: Tree = NOTHING
    spec: Tree = NOTHING
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
    return _MetadataReader(path, sources.warnings).read(mock_tree(path, sources, INVALID))


def take_identity(mock: MetadataFile, document: Tree) -> None:
    """Take from an example file what its metadata does not say: the operation and its contract."""
    if not mock.names_operation:
        mock.operation_id = text_of(member(document, "operationId")) or mock.operation_id
    if not mock.names.file:
        mock.names = read_contract_name(document, "contractPath", mock.mock_path)
        mock.method = mock.method or mock.names.method
        mock.route = mock.route or mock.names.path


class _MetadataReader:
    def __init__(self, path: str, warnings: Warnings) -> None:
        self.path = path
        self.warnings = warnings
        own = without_metadata(path)
        self.found = MetadataFile(path=path, operation_id=file_stem(own), mock_path=own)

    def read(self, document: Tree) -> MetadataFile:
        found = self.found
        if document is NOTHING:
            found.problems.append("the file cannot be read")
            return found
        if document.kind not in (Kind.MAP, Kind.NULL):
            self._problem("the file must be a mapping", document)
            return found
        metadata, spec = nonblank_member(document, "metadata"), nonblank_member(document, "spec")
        found.tree, found.spec = document, spec or NOTHING
        for reason, at in islice(unknown_keys(document), MAX_UNKNOWN):
            self.warnings.add(UNKNOWN_KEY, reason, self.path, at)
        for part in (metadata, spec):
            if part is not None and part.kind is not Kind.MAP:
                self._problem("metadata and spec must be mappings", part)
        self._identity(metadata or NOTHING, spec or NOTHING)
        for name, read in (
            ("adapter", self._adapter),
            ("dispatcher", self._dispatcher),
            ("fault", self._fault),
            ("rateLimit", self._rate_limit),
            ("validate", self._validate),
            ("parameterConstraints", self._constraints),
            ("fallback", self._fallback),
            ("state", self._state),
        ):
            value = nonblank_member(spec, name)
            if value is not None:
                self._guard(read, value)
        self._guard(self._delay, spec or NOTHING)
        self._rules(spec or NOTHING)
        return found

    def _problem(self, reason: str, at: Tree) -> None:
        """Warn, and note that the operation cannot answer."""
        self.warnings.add(INVALID, reason, self.path, at)
        self.found.problems.append(reason)

    def _guard(self, read: Callable[[Tree], None], value: Tree) -> None:
        try:
            if not is_small(value, values=20_000, characters=1_000_000):
                raise unreadable_at(value, "the value is too large")
            read(value)
        except Unreadable as error:
            self.warnings.add_unreadable(INVALID, self.path, error)
            self.found.problems.append(error.reason)

    def _identity(self, metadata: Tree, spec: Tree) -> None:
        found = self.found
        named_id = text_of(member(metadata, "operationId"))
        found.names_operation = bool(named_id)
        found.operation_id = named_id or found.operation_id
        found.surface = text_of(member(metadata, "surface"))
        found.surface_title = first_line(member(metadata, "surfaceTitle"))
        for part, key in CONTRACT_KEYS:
            if found.names.file:
                break
            found.names = read_contract_name(
                metadata if part == "metadata" else spec, key, self.path
            )
        found.protocol = first_line(member(spec, "protocol"))[:40]
        found.method = method_of(text_of(member(spec, "method"))) or found.names.method
        found.route = text_of(member(spec, "path")) or found.names.path
        found.summary = first_line(member(spec, "summary") or member(metadata, "summary"))
        found.resolver_url = text_of(member(spec, "resolverUrl"))
        found.runtime_url = text_of(member(spec, "runtimeUrl"))
        named = text_of(member(spec, "mockPath"))
        found.names_mock_path = bool(named)
        found.mock_path = named or found.mock_path

    def _adapter(self, value: Tree) -> None:
        adapter = text_of(value).lower()
        if adapter in ADAPTERS:
            self.found.adapter = cast("Adapter", adapter)
            return
        advice = nearest_advice(adapter, ADAPTERS)
        detail = (
            f'the adapter "{adapter[:40]}" is not known; it is derived from the protocol; {advice}'
        )
        self.warnings.add(UNKNOWN_VALUE, detail, self.path, value)

    def _dispatcher(self, value: Tree) -> None:
        dispatcher = text_of(value).lower()
        if dispatcher in DISPATCHERS:
            self.found.dispatcher = cast("Dispatcher", dispatcher)
            return
        advice = nearest_advice(dispatcher, DISPATCHERS)
        detail = f'the dispatcher "{dispatcher[:40]}" is not known and treated as example; {advice}'
        self.warnings.add(UNKNOWN_VALUE, detail, self.path, value)

    def _rules(self, spec: Tree) -> None:
        rules = member(spec, "dispatcherRules")
        self.found.rules_text = text_of(rules)
        try:
            self.found.rules = parse_rules(self.found.dispatcher, self.found.rules_text)
        except RulesInvalid as error:
            at = rules or member(spec, "dispatcher") or spec
            self._problem(f"dispatcherRules: {error}", at)

    def _delay(self, spec: Tree) -> None:
        self.found.delay = read_own_delay(spec) or self.found.delay

    def _fault(self, value: Tree) -> None:
        self.found.fault = read_fault(value)

    def _rate_limit(self, value: Tree) -> None:
        self.found.rate_limit = read_rate_limit(value)

    def _validate(self, value: Tree) -> None:
        self.found.validate = read_mode(value, self.path, self.warnings)

    def _constraints(self, value: Tree) -> None:
        self.found.constraints = tuple(self._constraint(each) for each in _entries(value))

    def _constraint(self, tree: Tree) -> ParameterConstraint:
        name = text_of(member(tree, "name"))
        source = text_of(nonblank_member(tree, "source")).strip().lower() or "query"
        if not name:
            raise unreadable_at(tree, "a parameter constraint requires name")
        if source not in PARAMETER_SOURCES:
            known = ", ".join(PARAMETER_SOURCES)
            raise unreadable_at(tree, f'"{source[:40]}" is not a source; use one of {known}')
        return ParameterConstraint(
            name=name,
            source=source,
            required=is_true(member(tree, "required")),
            forward=is_true(member(tree, "forward")),
            pattern=read_pattern(member(tree, "pattern")),
        )

    def _fallback(self, tree: Tree) -> None:
        if tree.kind is not Kind.MAP:
            raise unreadable_at(tree, "fallback must be a mapping")
        status, body = nonblank_member(tree, "status"), member(tree, "body")
        text = text_of(status).strip()
        if status is not None and "{{" not in text and not is_status(text, grpc=True):
            raise unreadable_at(status, f'"{text[:40]}" is not a status')
        check_templates(status, member(tree, "mediaType"), member(tree, "headers"))
        if body is not None:
            check_body(body)
        self.found.fallback = Fallback(
            mode=_mode(tree),
            example_name=text_of(nonblank_member(tree, "exampleName")).strip(),
            proxy_url=text_of(nonblank_member(tree, "proxyUrl")).strip(),
            status=text,
            media_type=text_of(nonblank_member(tree, "mediaType")).strip(),
            body="" if body is None else body_text(body),
            headers=header_map(member(tree, "headers")),
        )

    def _state(self, tree: Tree) -> None:
        if tree.kind is not Kind.MAP:
            raise unreadable_at(tree, "state must be a mapping")
        check_keys(member(tree, "lookupKeyTemplate"), member(tree, "mutationKeyTemplate"))
        self.found.state = StateRules(
            lookup_key_template=text_of(member(tree, "lookupKeyTemplate")),
            mutation_key_template=text_of(member(tree, "mutationKeyTemplate")),
            defaults=text_map(member(tree, "defaults")),
            transitions=tuple(_transition(each) for each in _entries(member(tree, "transitions"))),
        )


def _entries(tree: Tree | None) -> Iterator[Tree]:
    listed = items(tree)
    if tree is not None and len(listed) > MAX_ENTRIES:
        raise unreadable_at(tree, f"more than {MAX_ENTRIES} entries")
    for each in listed:
        if is_blank(each):
            continue
        if each.kind is not Kind.MAP:
            raise unreadable_at(each, "each entry must be a mapping")
        yield each


def _mode(tree: Tree) -> FallbackMode:
    """Return the mode, by what is given if it is not named."""
    named = nonblank_member(tree, "mode")
    if named is not None:
        mode = text_of(named).lower()
        if mode not in FALLBACK_MODES:
            known = ", ".join(FALLBACK_MODES)
            raise unreadable_at(
                named, f'the fallback mode "{mode[:40]}" is not known; use one of {known}'
            )
    elif nonblank_member(tree, "proxyUrl") is not None:
        mode = "proxy"
    else:
        mode = "example" if nonblank_member(tree, "exampleName") is not None else "static"
    for needed, key in (("proxy", "proxyUrl"), ("example", "exampleName")):
        if mode == needed and nonblank_member(tree, key) is None:
            raise unreadable_at(tree, f"the fallback mode {mode} requires {key}")
    return cast("FallbackMode", mode)


def _transition(tree: Tree) -> Transition:
    check_templates(member(tree, "mutationKeyTemplate"), *_values(member(tree, "set")))
    return Transition(
        on_example=text_of(member(tree, "onExample")),
        mutation_key_template=text_of(member(tree, "mutationKeyTemplate")),
        set=text_map(member(tree, "set")),
        delete=tuple(text_of(each) for each in items(member(tree, "delete"))),
        increment=_increments(member(tree, "increment")),
    )


def _values(tree: Tree | None) -> tuple[Tree, ...]:
    return () if tree is None else tuple(tree.pairs.values())


def _increments(tree: Tree | None) -> Mapping[str, int]:
    made: dict[str, int] = {}
    for name, each in members(tree):
        digits = each.text.removeprefix("-")
        if not digits.isdecimal() or len(digits) > _DIGITS:
            raise unreadable_at(each, f'the increment of "{name[:80]}" must be an integer')
        made[name] = int(each.text)
    return made


_DIGITS: Final = 18
