"""The base of every REST view and of every request body: nothing unknown is let through."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import IO, Any, ClassVar, Final

from rest_framework import serializers
from rest_framework.exceptions import UnsupportedMediaType, ValidationError
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSetMixin

from apps.http.json_body import MAX_BODY_BYTES, PayloadTooLarge, parse_json
from apps.http.responses import is_not_modified, is_precondition_met, strong_etag
from kernel.errors import FieldError, InvalidInput, PlatformError
from readers.json import escape_pointer

PAGING: Final = frozenset({"limit", "cursor"})
_MAX_TYPE: Final = 80  # characters of a refused Content-Type in its answer
_FIELD_CODES: Final = frozenset(
    {"unknown_field", "required", "wrong_type", "invalid_extension", "duplicate", "weak_password"}
)


class UnknownParameter(PlatformError):
    code = "unknown_parameter"


class InvalidParameter(PlatformError):
    code = "invalid_parameter"


class PreconditionFailed(PlatformError):
    code = "precondition_failed"


class StrictJSONParser(BaseParser):
    """Parses a body with `parse_json`."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        body = stream.read(MAX_BODY_BYTES + 1)
        if len(body) > MAX_BODY_BYTES:
            raise PayloadTooLarge
        return parse_json(body) if body else {}


class BodyNegotiation(DefaultContentNegotiation):
    """Chooses the parser of a body by its Content-Type, or by another name of it in `aliases`.

    The description of the API names `media_type` only.
    """

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser:
        """Return the parser; raise UnsupportedMediaType, which says what is accepted."""
        given = request.content_type or ""
        found: BaseParser | None = super().select_parser(request, parsers)
        if found is not None:
            return found
        name = given.partition(";")[0].strip().lower()
        for parser in parsers:
            if name in getattr(parser, "aliases", ()):
                return parser
        fault = "the body has no Content-Type"
        if name:
            fault = f'Content-Type "{given[:_MAX_TYPE]}" is not accepted'
        accepted = " or ".join(str(parser.media_type) for parser in parsers)
        raise UnsupportedMediaType(given, detail=f"{fault}; send {accepted}")


class StrictAPIView(APIView):
    """A REST view: JSON in and out, unknown query parameters refused, OPTIONS answered by `Allow`.

    `query_parameters`: the names a request may carry, for all methods or per method. Signed-in
    callers only, unless `permission_classes` says otherwise.
    """

    query_parameters: ClassVar[Collection[str] | Mapping[str, Collection[str]]] = frozenset()
    content_negotiation_class = BodyNegotiation
    parser_classes: Any = [StrictJSONParser]
    renderer_classes: Any = [JSONRenderer]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if hasattr(self, (request.method or "").lower()):  # else it is 405, whatever the query says
            refuse_unknown_parameters(request.query_params, self.allowed_parameters(request))

    def perform_content_negotiation(
        self,
        request: Request,
        force: bool = False,  # noqa: FBT001, FBT002 - DRF's signature
    ) -> tuple[BaseRenderer, str]:
        """There is one representation; `Accept` asks for nothing that could be refused."""
        renderer = self.get_renderers()[0]
        return renderer, str(renderer.media_type)

    def options(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        return Response(status=204)

    def body(self, serializer_class: type[serializers.Serializer[Any]]) -> dict[str, Any]:
        """The validated body; raises InvalidInput with one entry for each fault."""
        context = {"request": self.request, "view": self}
        serializer = serializer_class(data=self.request.data, context=context)
        serializer.is_valid(raise_exception=True)
        return dict(serializer.validated_data)

    def allowed_parameters(self, request: Request) -> Collection[str]:
        known = self.query_parameters
        if isinstance(known, Mapping):
            method = request.method or ""
            return tuple(known.get("GET" if method == "HEAD" else method, ()))
        return known


class StrictViewSet(ViewSetMixin, StrictAPIView):
    """The same for several views of one resource, which a router gives their paths.

    A mapping of `query_parameters` has actions as keys.
    """

    def allowed_parameters(self, request: Request) -> Collection[str]:
        known = self.query_parameters
        return tuple(known.get(self.action or "", ())) if isinstance(known, Mapping) else known


class StrictSerializer(serializers.Serializer[Any]):
    """A request body: unknown keys and wrong JSON types are refused, `null` counts as absent.

    Nested serializers should be strict too. `ignore_unknown = True` lets unknown keys pass
    (the agent protocol).
    """

    ignore_unknown: ClassVar[bool] = False

    def run_validation(self, data: Any = serializers.empty) -> Any:
        if data is serializers.empty or self.root is not self:
            return super().run_validation(data)
        if faults := list(_type_faults(self, data, "")):
            raise InvalidInput(_sentence(faults), errors=faults)
        try:
            return super().run_validation(_without_nulls(data))
        except ValidationError as error:
            raise invalid_input(error) from None


def refuse_unknown_parameters(given: Collection[str], allowed: Collection[str]) -> None:
    if unknown := sorted(set(given) - set(allowed)):
        known = f"; known: {', '.join(sorted(allowed))}" if allowed else ""
        raise UnknownParameter(f"unknown query parameter {unknown[0]!r}{known}")


def integer_parameter(request: Request, name: str, *, default: int, low: int, high: int) -> int:
    """Return a whole number from the query; raise InvalidParameter."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 19 and low <= int(text) <= high):  # noqa: PLR2004 - fits 64 bits
        raise InvalidParameter(f"{name} must be a whole number from {low} to {high}")
    return int(text)


def flag_parameter(request: Request, name: str, *, default: bool = False) -> bool:
    """`true`, `false`, `1` or `0` from the query; raises InvalidParameter."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if text not in ("true", "false", "1", "0"):
        raise InvalidParameter(f"{name} must be true or false")
    return text in ("true", "1")


def choice_parameter(
    request: Request, name: str, options: Collection[str], *, default: str = ""
) -> str:
    """One of `options` from the query, case-sensitive; raises InvalidParameter."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if text not in options:
        raise InvalidParameter(f"{name} must be one of {', '.join(sorted(options))}")
    return text


def conditional_response(
    request: Request, document: Any, *, status: int = 200, etag: str = ""
) -> Response:
    """`document` with its ETag; 304 without a body when `If-None-Match` of a read names it.

    `etag` is for a resource that makes its own.
    """
    headers = {"ETag": etag or strong_etag(document)}
    if request.method in ("GET", "HEAD"):
        known = request.headers.get("If-None-Match", "")
        if known and is_not_modified(headers["ETag"], known):
            return Response(status=304, headers=headers)
    return Response(document, status=status, headers=headers)


def require_match(request: Request, document: Any) -> None:
    """Raises PreconditionFailed unless `If-Match` is absent or names the stored `document`.

    Call it inside the transaction that writes.
    """
    if not is_precondition_met(strong_etag(document), request.headers.get("If-Match", "")):
        raise PreconditionFailed("the resource has changed since it was read")


def invalid_input(error: ValidationError) -> InvalidInput:
    """DRF's tree of messages as one problem with JSON pointers."""
    faults = list(_faults(error.detail, ""))
    return InvalidInput(_sentence(faults), errors=faults)


def _faults(detail: Any, pointer: str) -> Iterator[FieldError]:
    if isinstance(detail, Mapping):
        for key, inner in detail.items():
            yield from _faults(
                inner, pointer if key == "non_field_errors" else _below(pointer, key)
            )
    elif isinstance(detail, list):
        for index, inner in enumerate(detail):
            leaf = isinstance(inner, str)
            yield from _faults(inner, pointer if leaf else _below(pointer, index))
    else:
        code = getattr(detail, "code", "") or ""
        known = code if code in _FIELD_CODES else "invalid_value"
        text = "is required" if code == "required" else str(detail)
        yield FieldError(pointer=pointer, code=known, detail=text)


def _sentence(faults: list[FieldError]) -> str:
    first = faults[0]
    where = first.pointer.removeprefix("/") or "the body"
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{where} {first.detail}{more}"


def _type_faults(field: Any, value: Any, pointer: str) -> Iterator[FieldError]:
    """Unknown keys and JSON types that do not fit, at any depth below `field`."""
    expected, words = next(
        ((types, words) for kind, types, words in _EXPECTED if isinstance(field, kind)),
        ((object, bool), "a value"),
    )
    # a JSON boolean is not a number
    if not (bool in expected if isinstance(value, bool) else isinstance(value, expected)):
        yield FieldError(pointer=pointer, code="wrong_type", detail=f"must be {words}")
    elif isinstance(field, serializers.Serializer):
        yield from _object_faults(field, value, pointer)
    elif isinstance(field, serializers.ListField | serializers.ListSerializer):
        for index, entry in enumerate(value):
            yield from _type_faults(field.child, entry, _below(pointer, index))
    elif isinstance(field, serializers.DictField):
        for key, entry in value.items():
            if entry is not None:
                yield from _type_faults(field.child, entry, _below(pointer, key))


def _object_faults(
    serializer: serializers.Serializer[Any], value: Mapping[str, Any], pointer: str
) -> Iterator[FieldError]:
    fields = {name: field for name, field in serializer.fields.items() if not field.read_only}
    for key, entry in value.items():
        if key in fields:
            if entry is not None:
                yield from _type_faults(fields[key], entry, _below(pointer, key))
        elif not getattr(serializer, "ignore_unknown", False):
            yield FieldError(
                pointer=_below(pointer, key), code="unknown_field", detail="is not a known key"
            )


_EXPECTED: Final[tuple[tuple[type, tuple[type, ...], str], ...]] = (
    (serializers.BooleanField, (bool,), "true or false"),
    (serializers.IntegerField, (int,), "a whole number"),
    (serializers.FloatField, (int, float), "a number"),
    (serializers.ListField, (list,), "an array"),
    (serializers.ListSerializer, (list,), "an array"),
    (serializers.BaseSerializer, (dict,), "an object"),
    (serializers.DictField, (dict,), "an object"),
    (serializers.CharField, (str,), "a string"),
    (serializers.ChoiceField, (str,), "a string"),
    (serializers.UUIDField, (str,), "a string"),
    (serializers.DateTimeField, (str,), "a string"),
)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, list):
        return [_without_nulls(entry) for entry in value]
    return value


def _below(pointer: str, key: object) -> str:
    return f"{pointer}/{escape_pointer(str(key))}"
