"""Recorded calls as the mock files of a suite: an operation for each method and path template.

An example answers requests with the path parameters and the query that were recorded, and with the
values of the body that tell it from another one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import parse_qsl

import yaml

from kernel.ids import slug
from kernel.redaction import MASK
from surfaces.contract_examples.request_examples import leaves
from surfaces.contracts import identifier
from surfaces.recordings.calls import RecordedCall, free_name, header, json_value
from surfaces.recordings.routes import guess_template
from surfaces.recordings.secrets import is_secret_name, without_secrets

MAX_OPERATIONS: Final = 250  # two files each; a package has 512
MAX_EXAMPLES: Final = 200  # of an operation
MAX_FILE: Final = 2**20  # characters of an operation's bodies
MAX_CONDITIONS: Final = 20
# what belongs to the connection, to the moment or to the server that was recorded
LEFT_OUT: Final = frozenset((
    "content-type", "content-length", "content-encoding", "transfer-encoding", "connection",
    "keep-alive", "upgrade", "trailer", "te", "date", "server", "via", "age", "alt-svc", "nel",
    "report-to", "strict-transport-security", "x-powered-by", "x-runtime", "x-request-id",
    "cf-ray", "cf-cache-status", "proxy-authenticate", "proxy-connection",
))  # fmt: skip
_FORM: Final = "application/x-www-form-urlencoded"
When = tuple[tuple[str, str, str], ...]
Document = dict[str, object]
OPENING: Final = "{{'{{'}}"  # a template of two braces
_PLAIN: Final = re.compile(r"[A-Za-z/][A-Za-z0-9 _./@-]*[A-Za-z0-9/]\Z|[A-Za-z/]\Z")
_WORDS: Final = frozenset(("null", "true", "false", "yes", "no", "on", "off", "y", "n"))
_WIDTH: Final = 100


@dataclass(slots=True)
class MockFiles:
    """The files by their path in a suite, and what became of the calls."""

    files: dict[str, str] = field(default_factory=dict)
    operations: int = 0
    examples: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    _names: set[str] = field(default_factory=set)

    def has_room(self, calls: int) -> bool:
        """Return whether one more operation may be added; count its calls as left out if not."""
        if self.operations >= MAX_OPERATIONS:
            self.left_out[f"more than {MAX_OPERATIONS} operations"] += calls
        return self.operations < MAX_OPERATIONS

    def add_operation(
        self,
        home: str,
        method: str,
        template: str,
        examples: Mapping[str, object],
        *,
        note: str,
        spec: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """Add the example file and the metadata of an operation; `spec` is more of the latter."""
        named = slug(f"{method} {template}")[:100] or method.lower()
        operation_id = free_name(f"{home}/{named}", self._names).removeprefix(f"{home}/")
        self._names.add(f"{home}/{operation_id}")
        stem = f"mock/{home}/{operation_id}"
        self.files[f"{stem}.yaml"] = yaml_text({"examples": examples}, note)
        self.files[f"{stem}.metadata.yaml"] = yaml_text({
            "metadata": {"operationId": operation_id, "surface": home},
            "spec": {"protocol": "REST", "method": method, "path": template, **spec},
        })  # fmt: skip
        self.operations += 1
        self.examples += len(examples)


def mock_files(calls: Iterable[RecordedCall], surface: str = "", *, source: str = "") -> MockFiles:
    """Return the mocks of recorded calls, without credentials.

    `surface` is the id of their API surface; without it, each API of the calls has its own.
    `source` is named in the files.
    """
    made = MockFiles()
    groups: dict[tuple[str, str, str], list[RecordedCall]] = {}
    for call in without_secrets(calls):
        template, params = (
            (call.template, call.params) if call.template else guess_template(call.path)
        )
        home = identifier(surface or slug(call.surface), "default")
        with_params = replace(call, template=template, params=params)
        groups.setdefault((home, call.method, template), []).append(with_params)
    note = f"recorded: {source}" if source else ""
    for (home, method, template), group in groups.items():
        if made.has_room(len(group)):
            examples = dict(_examples(group, made.left_out))
            made.add_operation(home, method, template, examples, note=note)
    return made


def _examples(
    group: Sequence[RecordedCall], left_out: Counter[str]
) -> Iterator[tuple[str, Document]]:
    """Yield the examples of an operation by name; equal calls are one."""
    taken: dict[When, tuple[int, str]] = {}
    names: set[str] = set()
    budget = MAX_FILE
    for call, when in _conditions(group):
        answer = (call.status, call.response_body)
        if when in taken:
            key = (
                "the same call again"
                if taken[when] == answer
                else "another answer to an equal call"
            )
            left_out[key] += 1
            continue
        budget -= len(call.response_body) + len(call.request_body)
        if len(names) >= MAX_EXAMPLES or budget < 0:
            left_out["more examples than an operation may have"] += 1
            continue
        taken[when] = answer
        name = free_name(_name(call, when), names)
        names.add(name)
        yield name, _example(call, when)


def _name(call: RecordedCall, when: When) -> str:
    """Return the given name, otherwise what tells the example from others."""
    conditions = " ".join(value for source, _, value in when if source != "body")
    return call.name.strip()[:80] or slug(conditions)[:60] or str(call.status)


def _conditions(group: Sequence[RecordedCall]) -> Iterator[tuple[RecordedCall, When]]:
    """Yield the calls with what a request must have to be answered alike."""
    alike: dict[When, list[RecordedCall]] = {}
    for call in group:
        alike.setdefault(_base(call), []).append(call)
    for call in group:
        base = _base(call)
        others = alike[base]
        if len({each.request_body for each in others}) == 1:
            yield call, base
            continue
        values = _body_values(call)
        differing = _differing([_body_values(each) for each in others])
        conditions = tuple(("body", name, values[name]) for name in differing if name in values)
        yield call, (*base, *conditions)[:MAX_CONDITIONS]


def _base(call: RecordedCall) -> When:
    path = [("path", name, value) for name, value in call.params if value]
    query = {
        name: value
        for name, value in reversed(call.query)
        if not is_secret_name(name) and MASK not in value
    }
    conditions = [("query", name, value) for name, value in sorted(query.items())]
    return (*path, *conditions)[:MAX_CONDITIONS]


def _body_values(call: RecordedCall) -> Mapping[str, str]:
    text = call.request_body
    value = json_value(text)  # whatever its type says: `curl -d` names every body a form
    is_form = value is None and header(call.request_headers, "content-type").startswith(_FORM)
    found: Iterable[tuple[str, str]]
    found = parse_qsl(text, max_num_fields=200) if text and is_form else leaves(value)
    return {name: value for name, value in found if MASK not in value and not is_secret_name(name)}


def _differing(bodies: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the names whose values are not the same in all bodies."""
    names = dict.fromkeys(name for body in bodies for name in body)
    return [name for name in names if len({body.get(name) for body in bodies}) > 1]


def _example(call: RecordedCall, when: When) -> Document:
    headers = {name: literal(value) for name, value in call.response_headers}
    response = response_of(call.status, headers)
    if call.response_body:
        response["body"] = _body(call.response_body)
    made: Document = {"when": [condition(*each) for each in when]} if when else {}
    if call.request_body:
        made["request"] = {"body": _body(call.request_body)}
    return {**made, "response": response}


def _body(text: str) -> Any:
    """Return a body as it is written in a file: JSON as its values, anything else as a text."""
    made = json_value(literal(text))
    return literal(text) if made is None else made


def condition(source: str, param: str, value: object, operator: str = "value") -> Document:
    """Return a condition as an example file has it."""
    return {"from": source, "param": param, operator: value}


def response_of(
    status: object, headers: Mapping[str, str], *, media_type: str = "",
    behavior: Mapping[str, object] = MappingProxyType({}),
) -> Document:  # fmt: skip
    """Return a response without a body; of its headers, those that say something of the API."""
    named = next((each for name, each in headers.items() if name.lower() == "content-type"), "")
    kind = media_type or named.partition(";")[0].strip()
    kept = {name: each for name, each in headers.items()
            if name.lower() not in LEFT_OUT and not name.startswith(":")}  # fmt: skip
    shown = {"mediaType": kind, "headers": kept}
    return {
        "status": str(status),
        **behavior,
        **{name: each for name, each in shown.items() if each},
    }


def literal(value: Any) -> Any:
    """Return a body or text none of which is a template."""
    if isinstance(value, str):
        return value.replace("{{", OPENING)
    if isinstance(value, dict):
        return {literal(key): literal(each) for key, each in value.items()}
    return [literal(each) for each in value] if isinstance(value, list) else value


class _Dumper(yaml.SafeDumper):
    """Quotes each text that a reader of YAML 1.1 or 1.2 could take for something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.Node:
    is_plain = _PLAIN.match(text) is not None and text.lower() not in _WORDS
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if is_plain else '"')


_Dumper.add_representer(str, _represent_text)


def yaml_text(document: Any, comment: str = "") -> str:
    """Return a document as YAML, in block style, members in their order."""
    made: str = yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH
    )
    return f"# {comment}\n{made}" if comment else made
