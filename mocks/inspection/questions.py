"""What may be asked at `/api/v1/mocks`: the bodies and queries, each declared once.

From the members of a struct come its check, its schema and the parameters of a query.
(reference: control-plane 18.1)

    asked = read_body(VerifyInput, {"suiteId": "shop", "method": "POST"})
    space_name(asked)                                # SpaceName("shop")
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from kernel.errors import FieldError, InvalidInput, PlatformError
from kernel.wire_types import Instant
from mocks.inspection.call_filters import CallFilter
from mocks.inspection.explained_calls import ExplainedCall
from mocks.journal.entries import TAG
from mocks.model.calls import CallOutcome
from mocks.model.spaces import SpaceName
from readers.diagnostics import nearest_advice
from readers.json import escape_pointer

Asked = TypeVar("Asked", bound=msgspec.Struct)
MAX_CALLS: Final = 200  # that are listed
Text: TypeAlias = Annotated[str, Meta(max_length=8_192)]
Number: TypeAlias = Annotated[int, Meta(ge=0)]
Tag: TypeAlias = Annotated[
    str, "only calls with this X-Partita-Mock-Tag", Meta(pattern=f"^({TAG.pattern})?$")
]
_Suite: TypeAlias = Annotated[str, "the suite that serves the surfaces", Meta(max_length=128)]
_Run: TypeAlias = Annotated[str, "a run; without it, the shared space", Meta(max_length=64)]
_Import: TypeAlias = Annotated[
    str, "the path of the import of the suite in the run", Meta(max_length=512)
]


class ParameterInvalid(PlatformError):
    code = "invalid_parameter"


class SpaceInput(
    msgspec.Struct, rename="camel", forbid_unknown_fields=True, omit_defaults=True, kw_only=True
):
    """The shared space of a suite; with `executionId`, that of a run.

    `import` is the path of the import of the suite in the run.
    """

    suite_id: _Suite
    execution_id: _Run = ""
    import_path: _Import = msgspec.field(default="", name="import")


class ExplainInput(ExplainedCall, kw_only=True):
    """A call: `operationId`, or `method` and `path` below the surface.

    A `body` that is not a string is sent as JSON.
    """

    suite_id: _Suite
    execution_id: _Run = ""
    import_path: _Import = msgspec.field(default="", name="import")


class VerifyInput(SpaceInput, kw_only=True):
    """Which calls are meant, and how many there should be; what is missing means any.

    The shared space of a suite or, with `executionId`, that of a run; `import` is the path of the
    import of the suite in the run. A `{x}` of `path` stands for one segment, `when` has conditions
    as example files have them. `unmatched` means calls without an operation or an example. `count`
    alone, `atLeast` and `atMost` say how many; the newest `limit` (50, at most 200) are listed.
    """

    surface_id: Text = ""
    operation_id: Text = ""
    method: Text = ""
    path: Text = ""
    example: Text = ""
    outcome: CallOutcome | None = None
    valid: bool | None = None
    tag: Tag = ""
    unmatched: bool = False
    since: Instant = ""
    when: list[dict[str, object]] = []
    count: Number | None = None
    at_least: Number | None = None
    at_most: Number | None = None
    limit: Annotated[int, Meta(ge=0, le=MAX_CALLS)] = 50


class PatchInput(SpaceInput, kw_only=True):
    """Fields to set and to delete, at once.

    `version` is what must be stored, 0 for no record. `surfaceId` is needed for a new record.
    """

    key: Annotated[str, Meta(min_length=1, max_length=1_024)]
    set: dict[str, str] = {}
    delete: list[str] = []
    version: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    surface_id: Annotated[str, Meta(max_length=128)] = ""


class StateQuery(SpaceInput, kw_only=True):
    key: Annotated[str, "only the record of this key"] = ""


class StateReset(StateQuery, kw_only=True):
    surface_id: Annotated[str, "only of this API surface"] = ""


class JournalReset(SpaceInput, kw_only=True):
    surface_id: Annotated[str, "only of this API surface"] = ""
    operation_id: Annotated[str, "only of this operation"] = ""
    tag: Tag = ""


class JournalQuery(JournalReset, kw_only=True):
    outcome: Annotated[CallOutcome | None, "only calls that ended so"] = None

    @property
    def filter(self) -> CallFilter:
        return CallFilter(
            surface_id=self.surface_id,
            operation_id=self.operation_id,
            tag=self.tag,
            outcome=self.outcome or "",
        )


def read_body(kind: type[Asked], document: Any) -> Asked:
    """Return what the body of a request asks; raise InvalidInput with a pointer.

    `null` counts as absent.
    """
    if isinstance(document, dict):
        document = {
            name: value if name == "body" else _without_nulls(value)  # a call may send nulls
            for name, value in document.items()
            if value is not None
        }
    try:
        return msgspec.convert(document, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise _translate(str(error), kind) from None


def _without_nulls(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: each for name, each in value.items() if each is not None}


def read_query(kind: type[Asked], given: Mapping[str, str]) -> Asked:
    """Return what the members of a query ask; what is empty counts as absent.

    Raise ParameterInvalid, and InvalidInput for what is not a tag.
    """
    names = kind.__struct_encode_fields__
    try:
        return msgspec.convert({name: given[name] for name in names if given.get(name)}, kind)
    except msgspec.ValidationError as error:
        refused = _translate(str(error), kind)
        if refused.errors[0].pointer == "/tag":
            raise refused from None
        name, detail = refused.errors[0].pointer.removeprefix("/"), refused.errors[0].detail
        raise ParameterInvalid(f"{name} {detail}") from None


def space_name(given: SpaceInput | ExplainInput) -> SpaceName:
    """Return the space that is named; raise InvalidInput."""
    name = SpaceName(given.suite_id, given.execution_id, given.import_path)
    if name.import_path and not name.execution_id:
        raise invalid("import", "it is a path in a run and needs executionId")
    read = SpaceName.parse(str(name))
    if read == name:
        return name
    if read is None or read.suite_id != name.suite_id:
        raise invalid("suiteId", "not the id of a suite")
    is_of_run = read.execution_id == name.execution_id
    raise invalid("import" if is_of_run else "executionId", "not a valid id")


def invalid(at: str, detail: str, code: str = "invalid_value") -> InvalidInput:
    """Return the error of a member: a key, a pointer without its slash, "" for the body."""
    error = FieldError(pointer=f"/{at}" if at else "", code=code, detail=detail)
    return InvalidInput(f"{at or 'the body'}: {detail}", errors=[error])


_UNKNOWN: Final = re.compile(r"unknown field `(.*?)`")
_MISSING: Final = re.compile(r"missing required field `(.*?)`")
_AT: Final = re.compile(r" - at `\$(.*)`$")
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_LIMITS: Final[Mapping[str, str]] = {  # what msgspec says, and in our words
    r"of length >= 1\b": "may not be blank",
    r"of length <= \d+": "is too long",
    r"`int` >= 0\b": "must be 0 or more",
    r"`int` <= (\d+)": "must be from 0 to {}",  # as all of our ranges are
    r"matching regex": "is not 1 to 128 letters, digits or . _ - /",  # of a tag
}


def _translate(text: str, kind: type[msgspec.Struct]) -> InvalidInput:
    """Return the error of msgspec with a pointer, and what was probably meant."""
    at = _AT.search(text)
    steps = _STEP.findall(at[1]) if at else []
    pointer = "/".join(escape_pointer(name or number) for name, number in steps)
    if unknown := _UNKNOWN.search(text):
        advice = nearest_advice(unknown[1], kind.__struct_encode_fields__)
        return invalid(unknown[1][:80], f"is not a known key; {advice}", "unknown_field")
    if missing := _MISSING.search(text):
        return invalid(missing[1], "is required", "required")
    if "enum value" in text:
        return invalid(pointer, f"must be one of {', '.join(CallOutcome)}")
    for pattern, words in _LIMITS.items():
        if found := re.search(pattern, text):
            return invalid(pointer, words.format(*found.groups()))
    return invalid(pointer, text[: at.start()] if at else text, "wrong_type")
