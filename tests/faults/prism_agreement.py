"""The same calls to Prism and to `mock serve --validate enforce`: which statuses and types agree.

python -m tests.faults.prism_agreement --record      asks Prism anew and writes its answers down
python -m tests.faults.prism_agreement --document query_values --show

The documents stand in prism_documents/, each with the calls that people would write (`.calls`);
others are made from its schemas. differences.yaml says of kinds of differences who is right.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import yaml

from bench.peers.mock_servers import PRISM
from bench.report import end_in_order, publish
from tests.faults.contract_calls import UNKNOWN_TYPE, Call, Calls
from tests.faults.contract_documents import METHODS, CallContract, Operation
from tests.faults.contract_values import Values
from tests.faults.prism_servers import Answer, Target, mock_serve, prism

FOLDER: Final = Path(__file__).parent / "prism_documents"
RECORDED: Final = FOLDER / "answers.json"
DIFFERENCES: Final = FOLDER / "differences.yaml"
SEED: Final = 26
STATUSES_WANTED: Final = 0.95
MEDIA_TYPES_WANTED: Final = 0.98
COLUMNS: Final = (
    *("rule", "calls", "same status", "explained", "others"),
    *("answers 2xx", "same type", "types explained", "other types"),
)
_HEADER: Final = re.compile(r"([A-Za-z][\w-]*): ?(.*)", re.DOTALL)


def main() -> int:
    end_in_order()
    options = _options()
    documents = all_documents()
    if options.document:
        documents = [each for each in documents if each.name in options.document]
    calls = {each.name: list(each.calls(options.seed)) for each in documents}
    print(f"{len(documents)} documents, {sum(map(len, calls.values()))} calls", flush=True)
    recorded = recorded_answers()
    missing = [
        each for each in documents if any(digest(call) not in recorded.get(each.name, {})
                                          for call in calls[each.name])
    ]  # fmt: skip
    if options.recorded:
        print("never asked: ", *(each.name for each in missing))
        documents, missing = [each for each in documents if each not in missing], []
    for document in documents if options.record else missing:
        recorded[document.name] = _answers_of_prism(document, calls[document.name])
        _write_recorded(recorded)
    words = [] if options.plain else ["--validate", "enforce"]
    ours = _our_answers(documents, calls, words)
    pairs = [
        Pair(document.name, call, our, Answer(*recorded[document.name][digest(call)]))
        for document in documents
        for call, our in zip(calls[document.name], ours[document.name], strict=True)
    ]
    return _report(pairs, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.prism_agreement")
    parser.add_argument("--seed", type=int, default=SEED, help="another one asks Prism anew")
    parser.add_argument("--record", action="store_true", help="ask Prism all calls anew")
    parser.add_argument("--recorded", action="store_true", help="do not start Prism at all")
    parser.add_argument("--document", action="append", help="repeatable; else all")
    parser.add_argument("--plain", action="store_true", help="without --validate enforce")
    parser.add_argument("--show", action="store_true", help="print each call that differs")
    parser.add_argument("--no-publish", dest="publish", action="store_false")
    return parser.parse_args()


@dataclass(frozen=True)
class Document:
    """A contract with the calls that stand beside it."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    def calls(self, seed: int) -> Iterator[Call]:
        """Yield the written calls and then the generated ones, each once."""
        contract = CallContract(yaml.load(self.path.read_text(), yaml.CSafeLoader))
        seen = set()
        for call in [*written_calls(self.path.with_suffix(".calls").read_text()),
                     *generated_calls(contract, f"{seed} {self.name}")]:  # fmt: skip
            if call.text not in seen:
                seen.add(call.text)
                yield call


def all_documents() -> list[Document]:
    return [Document(path) for path in sorted(FOLDER.glob("*.yaml")) if path != DIFFERENCES]


def written_calls(text: str) -> Iterator[Call]:
    r"""Yield the calls of a file: `# rule`, then lines `METHOD TARGET | Header: text | body`.

    A body that begins as JSON does is of that type unless a header says otherwise; `\r\n` in a body
    is a line's end.
    """
    rule = ""
    for line in text.splitlines():
        if line.startswith("#"):
            rule = line.lstrip("# ")
        elif line.strip():
            first, *rest = (part.strip() for part in line.split(" | "))
            method, _, target = first.partition(" ")
            headers = [(found[1], found[2]) for part in rest if (found := _HEADER.fullmatch(part))]
            bodies = [part for part in rest if not _HEADER.fullmatch(part)]
            body = bodies[0].replace("\\r\\n", "\r\n") if bodies else ""
            has_type = any(name.lower() == "content-type" for name, _ in headers)
            if body[:1] in ("{", "[", '"') and not has_type:
                headers.append(("Content-Type", "application/json"))
            headers = [(name, value) for name, value in headers if value]  # "Content-Type:" is none
            yield Call(rule, method, target.strip(), tuple(headers), body.encode())


def generated_calls(contract: CallContract, seed: str) -> Iterator[Call]:
    for operation in contract.operations:
        kinds = [Values.type_of(contract.resolve(each.schema)) for each in operation.place("path")]
        if {"array", "object"} & {*kinds}:
            continue  # the second such call ends Prism
        made = Calls(contract, operation, seed)
        full, lean = made.valid(), made.valid(is_lean=True)
        yield full.call("valid")
        yield lean.call("valid")
        wrong = list(made.wrong(full))
        random.Random(seed).shuffle(wrong)
        yield from sorted(wrong[:20], key=lambda call: call.text)
        valid = lean.call("valid")
        yield from _negotiated(operation, valid)
        others = [each.upper() for each in METHODS[:4]]
        known = {each.method for each in contract.operations if each.path == operation.path}
        other = next((each for each in others if each not in known), "PATCH")
        yield replace(valid, rule="method", method=other)
    yield Call("path", "GET", "/no-such-path")


def _negotiated(operation: Operation, call: Call) -> Iterator[Call]:
    def with_header(rule: str, name: str, text: str) -> Call:
        return replace(call, rule=rule, headers=(*call.headers, (name, text)))

    for kind in operation.answers:
        yield with_header("Accept", "Accept", kind)
        yield with_header("Accept", "Accept", f"{kind};q=0.5, */*;q=0.1")
    yield with_header("Accept", "Accept", UNKNOWN_TYPE)
    for status in operation.statuses:
        if status.isdigit():
            yield with_header("Prefer code", "Prefer", f"code={status}")
    yield with_header("Prefer code", "Prefer", "code=499")


def digest(call: Call) -> str:
    return hashlib.sha256(call.text.encode()).hexdigest()[:12]


def recorded_answers() -> dict[str, dict[str, list[Any]]]:
    if not RECORDED.exists():
        return {}
    found: dict[str, dict[str, list[Any]]] = json.loads(RECORDED.read_text())
    return found


def _write_recorded(answers: Mapping[str, Mapping[str, list[Any]]]) -> None:
    lines = [
        f"{json.dumps(name)}: {{\n"
        + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in found.items())
        + "\n}"
        for name, found in sorted(answers.items())
    ]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _answers_of_prism(document: Document, calls: Sequence[Call]) -> dict[str, list[Any]]:
    """Ask Prism, which is started again where a call ends it."""
    print(f"Prism {PRISM}: {document.name}, {len(calls)} calls", flush=True)
    answers: dict[str, list[Any]] = {}
    while len(answers) < len(calls):
        with prism(document.path) as target:
            for call in calls[len(answers) :]:
                answer = target.ask(call)
                answers[digest(call)] = answer.recorded
                if answer.status == 0:
                    break
    return answers


def _our_answers(
    documents: Sequence[Document], calls: Mapping[str, Sequence[Call]], words: Sequence[str]
) -> dict[str, list[Answer]]:
    """Ask one `mock serve` that has each document as a surface."""
    with tempfile.TemporaryDirectory(prefix="partita-prism-") as scratch:
        folder = Path(scratch, "prism")
        folder.mkdir()
        for each in documents:
            shutil.copy(each.path, folder)
        with mock_serve(folder, words, Path(scratch, "log")) as facts:
            urls = {each["id"]: each["url"] for each in facts["surfaces"]}
            for warning in facts["warnings"]:
                print(f"warning: {warning}")
            return {
                each.name: [target.ask(call) for call in calls[each.name]]
                for each in documents
                for target in [Target(urls.get(surface_id(each.name), facts["url"]))]
            }


def surface_id(name: str) -> str:
    return name.replace("_", "-")


@dataclass(frozen=True)
class Kind:
    """A kind of differences: who is right (ours, prism, both, neither), and why."""

    name: str
    right: str
    why: str
    document: str = ""
    rule: str = ""
    call: str = ""
    ours: str = ""  # status or media type
    prism: str = ""

    def explains(self, pair: Pair, ours: object, prisms: object) -> bool:
        return all(
            re.fullmatch(pattern, text, re.DOTALL)
            for pattern, text in (
                (self.document, pair.document),
                (self.rule, pair.call.rule),
                (self.call, pair.call.text),
                (self.ours, str(ours)),
                (self.prism, str(prisms)),
            )
            if pattern
        )


@dataclass(frozen=True)
class Pair:
    """A call with both answers."""

    document: str
    call: Call
    ours: Answer
    prism: Answer

    @property
    def same_status(self) -> bool:
        return self.ours.status == self.prism.status

    @property
    def has_types(self) -> bool:
        """Whether both are a success, and at least one has a body that has a type."""
        both = (self.ours, self.prism)
        is_success = all(200 <= each.status < 300 for each in both)
        return is_success and any(each.has_body for each in both)

    @property
    def same_type(self) -> bool:
        return self.ours.media_type == self.prism.media_type


@dataclass
class Tally:
    """What the pairs of a rule, or of all, say."""

    counts: Counter[str] = field(default_factory=Counter)

    @property
    def cells(self) -> list[int]:
        names = ("calls", "status", "status explained", "status other", "types", "type",
                 "type explained", "type other")  # fmt: skip
        return [self.counts[name] for name in names]

    def share(self, part: str, whole: str) -> float:
        return self.counts[part] / max(1, self.counts[whole])


def _report(pairs: Sequence[Pair], options: argparse.Namespace) -> int:
    kinds = [Kind(**each) for each in yaml.load(DIFFERENCES.read_text(), yaml.CSafeLoader) or ()]
    rules: dict[str, Tally] = {}
    whole, named = Tally(), Counter[str]()
    for pair in pairs:
        for said, kind in _judge(pair, kinds):
            for tally in (whole, rules.setdefault(pair.call.rule, Tally())):
                tally.counts[said] += 1
            if kind is not None:
                named[kind.name] += 1
            if "other" in said or (options.show and kind is not None):
                print(_line(pair, said, kind))
    statuses, types = whole.share("status", "calls"), whole.share("type", "types")
    rows = [[rule, *rules[rule].cells] for rule in sorted(rules)]
    told = [
        f"{named[each.name]} × {each.name} (right: {each.right}): {each.why}" for each in kinds
    ]  # fmt: skip
    verdict = (
        f"Seed {options.seed}: statuses agree in {statuses:.1%}, media types in {types:.1%}. "
        f"Differences with a reason, which count as differences:\n\n"
        + "\n".join(f"- {line}" for line in told)
    )
    publishing = options.publish and not options.document and not options.plain
    if not publishing:
        sys.argv.append("--quick")
    publish(
        "prism-agreement",
        f"The same {whole.counts['calls']:,} calls to Prism {PRISM} and to `mock serve --validate "
        f"enforce`, for {len({each.document for each in pairs})} documents (OpenAPI 3.0 and 3.1, "
        "Swagger 2): written ones for each rule, and valid and broken ones made from the schemas.",
        COLUMNS,
        [*rows, ["all", *whole.cells]],
        verdict,
        command=f".venv/bin/python -m tests.faults.prism_agreement --seed {options.seed}",
    )
    return 0 if statuses >= STATUSES_WANTED and types >= MEDIA_TYPES_WANTED else 1


def _judge(pair: Pair, kinds: Sequence[Kind]) -> Iterator[tuple[str, Kind | None]]:
    """Yield the names of what to count, with the kind of a difference that has one."""
    yield "calls", None
    if pair.same_status:
        yield "status", None
    else:
        yield _explained("status", pair, pair.ours.status, pair.prism.status, kinds)
    if pair.has_types:
        yield "types", None
        if pair.same_type:
            yield "type", None
        else:
            ours, prisms = pair.ours.media_type, pair.prism.media_type
            yield _explained("type", pair, ours, prisms, kinds)


def _explained(
    what: str, pair: Pair, ours: object, prisms: object, kinds: Sequence[Kind]
) -> tuple[str, Kind | None]:
    found = next((each for each in kinds if each.explains(pair, ours, prisms)), None)
    return (f"{what} explained", found) if found else (f"{what} other", None)


def _line(pair: Pair, said: str, kind: Kind | None) -> str:
    why = f" [{kind.name}]" if kind else ""
    ours = f"{pair.ours.status} {pair.ours.media_type}"
    prisms = f"{pair.prism.status} {pair.prism.media_type}"
    return f"{said}{why}: {pair.document} [{pair.call.rule}] ours {ours}, Prism {prisms}: " + (
        f"{pair.call.text[:300]!r} {pair.ours.text[:160]!r}"
    )


if __name__ == "__main__":
    sys.exit(main())
