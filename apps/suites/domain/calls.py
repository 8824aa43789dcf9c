"""The calls of suite.star: what declares them, and how a call becomes a node.

Each module of `apps.suites.calls` registers one NodeKind (reference: control-plane 7.2, 7.3). This
module runs in the evaluator's child process and may import only light modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, NotRequired, TypedDict, cast

from apps.suites.domain import values
from apps.suites.domain.problems import Position, ProblemDocument, TopologyProblem
from apps.suites.domain.values import ArtifactExport, NodeReference
from kernel.registry import Registry
from kernel.scripts import interpreter_name
from readers.diagnostics import likely_name

SCRIPT_FOLDERS: Final = ("services", "tasks", "tests")  # as workers know them
_ALIASES: Final = {"id": "name", "name_or_id": "name"}
_PROGRAMS: Final = ("command", "commands", "file", "contract")  # what a container runs


class Rules(TypedDict):
    """The limits and defaults of the installation, and the paths of the package's files."""

    maxNodes: int
    maxTimeoutMs: int
    defaultTimeoutMs: int
    maxMemory: int
    maxCpu: float
    defaultImages: dict[str, str]
    files: list[str]


class CallExpectation(TypedDict):
    """Calls that mocks must have got during a step, on the wire: how many, and what they are like.

    `body` has values by dotted path. With `valid`, none of them may break its contract.
    """

    atLeast: int
    atMost: NotRequired[int]
    operation: NotRequired[str]
    method: NotRequired[str]
    path: NotRequired[str]
    example: NotRequired[str]
    headers: NotRequired[dict[str, str]]
    body: NotRequired[dict[str, str]]
    valid: NotRequired[bool]


class RecordedExpectation(CallExpectation):
    mocks: list[NodeReference]


class RecordedNode(TypedDict):
    """A node as recorded: wire members, with references to other nodes not yet resolved.

    A kind may add further members of the wire, such as `ready` or `message`.
    """

    kind: str
    variant: str
    after: list[NodeReference]
    onFailure: list[NodeReference]
    continueOnFailure: bool
    idempotent: bool
    retries: int
    timeoutMs: int
    name: NotRequired[str]
    image: NotRequired[str]
    env: NotRequired[dict[str, str]]
    ports: NotRequired[list[int | str]]
    resetMocks: NotRequired[list[NodeReference]]
    expectCalls: NotRequired[list[RecordedExpectation]]
    artifactExports: NotRequired[list[ArtifactExport]]
    position: NotRequired[Position]


class ModulePackage(TypedDict):
    """A module of the workspace or of a registry: its top `.star` files by path.

    A module that cannot be loaded has a `problem` and its `code`.
    """

    files: dict[str, str]
    problem: str
    code: str


class EvaluationRequest(TypedDict):
    """What the evaluator process reads; `modules` by label.

    With `lints`, it reads the text only, and answers with a list of TextLint.

    Its limits: `seconds` of CPU; `memory` and `answer` in bytes.
    """

    source: str
    env: dict[str, str]
    rules: Rules
    modules: dict[str, ModulePackage]
    lints: bool
    instructions: int
    seconds: int
    memory: int
    answer: int


class TextLint(TypedDict):
    """A line of suite.star that is most likely a mistake."""

    code: str
    message: str
    line: int
    column: int


class EvaluationAnswer(TypedDict):
    """What the evaluator process writes: the nodes in call order, or a problem without prefix.

    `bound` maps globals to the indexes of nodes. `more` are the problems after the first one.
    `killed` is set when a limit ended the process.
    """

    nodes: list[RecordedNode]
    bound: dict[str, int]
    printed: list[str]
    loads: list[str]
    problem: ProblemDocument | None
    more: NotRequired[list[ProblemDocument]]
    killed: NotRequired[bool]


Arguments = Mapping[str, Any]  # keyword → what its reader returned


class Keyword(NamedTuple):
    """A keyword of a call. `read(value, where, rules)` returns its value or raises TopologyProblem.

    `meaning` is its row in the documentation.
    """

    name: str
    meaning: str
    read: Callable[[object, str, Rules], object]


def no_members(given: Arguments, rules: Rules) -> Mapping[str, object]:
    del given, rules
    return {}


class Preset(NamedTuple):
    """A function of a kind that has defaults, as a suite would write them, or keywords of its own.

    `members` returns members of the wire that come before those of the kind.
    """

    summary: str
    defaults: Mapping[str, object] = {}
    keywords: tuple[Keyword, ...] = ()
    members: Callable[[Arguments, Rules], Mapping[str, object]] = no_members


class NodeKind(NamedTuple):
    """The calls `<kind>.<function>` of suite.star and the nodes that they make.

    `functions` become the variants of the nodes; `presets` are further ones. `same_as` maps
    functions to the call that does the same; `unavailable` ones are refused. `hint` is the advice
    after a misuse, also for one of the `other_names`. `summary` is the row in the documentation.
    `members` returns the members of the wire that are of this kind alone.
    """

    summary: str
    hint: str
    functions: tuple[str, ...] = ()
    presets: Mapping[str, Preset] = {}
    same_as: Mapping[str, str] = {}
    unavailable: tuple[str, ...] = ()
    other_names: tuple[str, ...] = ()
    keywords: tuple[Keyword, ...] = ()
    positional: str = "name"
    in_container: bool = True
    members: Callable[[Arguments, Rules], Mapping[str, object]] = no_members

    @property
    def every_function(self) -> tuple[str, ...]:
        """Return the functions that make nodes."""
        return (*self.functions, *self.presets, *self.same_as)

    def keyword(self, name: str, function: str = "") -> Keyword | None:
        known = _ALIASES.get(name, name)
        return next((each for each in self.keywords_of(function) if each.name == known), None)

    def keywords_of(self, function: str) -> tuple[Keyword, ...]:
        preset = self.presets.get(function)
        return (*self.keywords, *preset.keywords) if preset else self.keywords

    def keyword_names(self, function: str = "") -> list[str]:
        return sorted(each.name for each in self.keywords_of(function))


node_kinds: Final[Registry[NodeKind]] = Registry("node kind")


def hints() -> Iterator[tuple[str, str]]:
    """Yield every name that suite.star may misuse, and the advice for it."""
    for name in node_kinds:
        kind = node_kinds[name]
        yield from ((each, kind.hint) for each in (name, *kind.other_names))


def read_call(call: str, args: list[Any], kwargs: Mapping[str, Any], rules: Rules) -> RecordedNode:
    """Return the node of a call: wire members, `name` only when given, references unresolved.

    Raise TopologyProblem without a position.
    """
    name, _, function = call.partition(".")
    if function in node_kinds[name].unavailable:
        raise TopologyProblem("unsupported_node", f"{call} is not available yet")
    name, _, function = node_kinds[name].same_as.get(function, call).partition(".")
    given = _arguments(call, (node_kinds[name], function), args, kwargs)
    read = {word.name: word.read(value, f"{call}: {word.name}", rules) for word, value in given}
    programs = [key for key in _PROGRAMS if read.get(key)]
    if len(programs) > 1:
        values.invalid(call, f"only one of {', '.join(programs)} may be set")
    return _node(name, function, read, rules)


def _arguments(
    call: str, function: tuple[NodeKind, str], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[tuple[Keyword, object]]:
    kind, variant = function
    if len(args) > 1:
        raise TopologyProblem(
            "wrong_type",
            f"{call} takes one positional argument ({kind.positional}), not {len(args)}",
        )
    given: dict[str, tuple[Keyword, object]] = {}
    for name, value in [*((kind.positional, arg) for arg in args), *kwargs.items()]:
        keyword = kind.keyword(name, variant)
        if keyword is None:
            names = kind.keyword_names(variant)
            known = f"; known: {', '.join(names)}{likely_name(name, names)}"
            raise TopologyProblem("unknown_keyword", f'{call}: unknown keyword "{name}"{known}')
        if keyword.name in given:
            values.invalid(f"{call}: {keyword.name}", "set twice")
        given[keyword.name] = keyword, value
    if preset := kind.presets.get(variant):
        for name, value in preset.defaults.items():
            if name not in given and (keyword := kind.keyword(name)):
                given[name] = keyword, value
    return list(given.values())


def _node(name: str, function: str, read: Arguments, rules: Rules) -> RecordedNode:
    kind = node_kinds[name]
    preset = kind.presets.get(function)
    members = {**(preset.members(read, rules) if preset else {}), **kind.members(read, rules)}
    node = {
        "kind": name,
        "variant": function,
        "after": read.get("after", []),
        "onFailure": read.get("on_failure", []),
        "continueOnFailure": read.get("continue_on_failure", False),
        "idempotent": read.get("idempotent", False),
        "retries": read.get("retries", 0),
        "timeoutMs": read.get("timeout", rules["defaultTimeoutMs"]),
        **members,
    }
    optional = {
        "name": read.get("name"),
        "image": read.get("image")
        or members.get("image")
        or _default_image(read, rules["defaultImages"]),
        "resetMocks": read.get("reset_mocks"),
        "expectCalls": read.get("expect_calls"),
        "evaluation": _evaluation(kind, read),
        "artifactExports": read.get("exports"),
        **{key: read.get(key) for key in ("file", "command", "commands", "ports")},
        **{key: read.get(key) for key in ("resources", "env")},
    }
    return cast("RecordedNode", node | {key: value for key, value in optional.items() if value})


def _default_image(read: Arguments, images: Mapping[str, str]) -> str | None:
    if read.get("file"):
        return images[interpreter_name(read["file"])]
    return images["sh"] if read.get("commands") else None


def _evaluation(kind: NodeKind, read: Arguments) -> dict[str, object]:
    expected: dict[str, object] = {}
    if kind.keyword("expect_exit"):
        expected["expectExit"] = read.get("expect_exit", 0)
    if read.get("expect_logs"):
        expected["expectLogs"] = read["expect_logs"]
    if read.get("fail_on_logs"):
        expected["failOnLogs"] = read["fail_on_logs"]
    return expected
