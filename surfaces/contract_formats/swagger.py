"""Documents of Swagger 2.0 in the form of OpenAPI 3.0, each value with its place in the file.

What is written stays where it is, so that every reference still leads to it (`#/definitions/Pet`,
also from other files); schemas are translated there. What OpenAPI has elsewhere is added:
`requestBody` of an operation, `content` of a response, `schema` of a parameter, `components` for
security schemes and for translated copies of what references name. (reference: control-plane 6.2)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeGuard
from urllib.parse import quote, unquote

from readers.json import escape_pointer, unescape_pointer
from readers.tree import Kind, Tree
from surfaces.contract_formats.swagger_schemas import SchemaTranslation, map_at
from surfaces.trees import (
    NOTHING,
    Warnings,
    child,
    is_small,
    is_true,
    items,
    members,
    text_of,
    tree_of,
)

MAX_TYPES: Final = 20  # media types of an operation
MAX_COPIED: Final = 8 * 2**20  # characters of what is translated anew for references to it
MAX_REFERENCES: Final = 32  # that lead to one another
_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch")
_ANY: Final = ("*/*",)
_FORM: Final = "application/x-www-form-urlencoded"
_MULTIPART: Final = "multipart/form-data"
_IN_PLACE: Final = ("#/parameters/", "#/responses/", "#/paths/")  # where all is translated
_FLOWS: Final = {"implicit": "implicit", "password": "password", "application": "clientCredentials",
                 "accessCode": "authorizationCode"}  # fmt: skip
_URLS: Final = ("authorizationUrl", "tokenUrl", "scopes")
Medias = dict[str, dict[str, object]]


def is_swagger(document: Tree) -> bool:
    """Return whether a document is one of Swagger 2, and not of OpenAPI as well."""
    version = text_of(document.get("swagger"))
    return version.partition(".")[0] == "2" and "openapi" not in document.pairs


def openapi_of_swagger(
    path: str, document: Tree, read: Callable[[str], Tree], warnings: Warnings
) -> Tree:
    """Return a document of Swagger 2 as one of OpenAPI 3.0.3; wrong parts are left out.

    `read` returns other documents of the suite as they are written.
    """
    return _Translation(path, document, read, warnings).document()


class _Translation:
    def __init__(
        self, path: str, root: Tree, read: Callable[[str], Tree], warnings: Warnings
    ) -> None:
        self.path = path
        self.root = root
        self.read = read
        self.warnings = warnings
        self.schemas = SchemaTranslation(path, self._warn)
        self.consumes = self._media_types(root, "consumes", _ANY)
        self.produces = self._media_types(root, "produces", _ANY)
        self.copies: dict[str, dict[str, Tree]] = {}
        self._copied: dict[tuple[object, ...], Tree] = {}
        self._left = MAX_COPIED

    def document(self) -> Tree:
        """Return the translated document."""
        root, path, produces = self.root, self.path, self.produces
        made = {
            **root.pairs,
            "openapi": tree_of("3.0.3", at=root.pairs["swagger"]),
            "definitions": self.schemas.schema_map(root.get("definitions"), path),
            "parameters": self._map("parameters", lambda each, _: self._parameter(each, path)),
            "responses": self._map(
                "responses", lambda each, at: self._response(each, produces, at, path)
            ),
            "paths": self._map("paths", lambda each, at: self._path_item(each, at, path)),
            "servers": tree_of([{"url": url} for url in self._servers()], at=root),
        }
        schemes = dict(self._security_schemes())
        made["components"] = tree_of({
            **dict(members(root.get("components"))), **self.copies, "securitySchemes": schemes,
        }, at=root)  # fmt: skip
        return map_at({key: each for key, each in made.items() if each is not NOTHING}, root)

    def _map(self, name: str, translate: Callable[[Tree, str], Tree]) -> Tree:
        """Return a member of the document, with what it holds translated by value and pointer."""
        found = self.root.get(name)
        if not _is(found, Kind.MAP):
            return found or NOTHING
        made = {
            key: each if key.startswith("x-") else translate(each, f"#/{name}/{_part(key)}")
            for key, each in found.pairs.items()
        }
        return map_at(made, found)

    def _servers(self) -> Iterator[str]:
        host, base = (text_of(self.root.get(name)) for name in ("host", "basePath"))
        for scheme in items(self.root.get("schemes"))[:MAX_TYPES] or (NOTHING,):
            start = f"{text_of(scheme)}://" if text_of(scheme) else "//"
            yield f"{start}{host}{base}" if host else base or "/"

    def _security_schemes(self) -> Iterator[tuple[str, Tree]]:
        for name, each in members(self.root.get("securityDefinitions")):
            kind, flow = text_of(each.get("type")), text_of(each.get("flow"))
            made: dict[str, object] = dict(each.pairs)
            if kind == "basic":
                made |= {"type": "http", "scheme": "basic"}
            elif kind == "oauth2" and flow in _FLOWS:
                urls = {key: each.pairs[key] for key in _URLS if key in each.pairs}
                made["flows"] = {_FLOWS[flow]: {"scopes": {}, **urls}}
            elif kind != "apiKey":
                continue
            yield name, tree_of(made, at=each)

    def _path_item(self, item: Tree, place: str, file: str) -> Tree:
        if "$ref" in item.pairs:
            target, below = self._resolve(item, file)
            return self._copy(
                "pathItems", target, below, lambda at: self._path_item(target, at, below)
            )
        if item.kind is not Kind.MAP:
            return item
        shared = items(item.get("parameters"))
        made = {
            key: self._operation(each, shared, f"{place}/{key}", file)
            if key in _METHODS and each.kind is Kind.MAP
            else each
            for key, each in item.pairs.items()
        }
        return map_at(made | self._parameters(item, file), item)

    def _operation(self, tree: Tree, shared: Sequence[Tree], place: str, file: str) -> Tree:
        made = {**tree.pairs, **self._parameters(tree, file)}
        body = self._request_body(tree, shared, place, file)
        if body is not NOTHING:
            made["requestBody"] = body
        produces = self._media_types(tree, "produces", self.produces)
        responses = tree.get("responses")
        if _is(responses, Kind.MAP):
            made["responses"] = map_at({
                code: each if code.startswith("x-")
                else self._response(each, produces, f"{place}/responses/{_part(code)}", file)
                for code, each in responses.pairs.items()
            }, responses)  # fmt: skip
        return map_at(made, tree)

    def _parameters(self, owner: Tree, file: str) -> dict[str, Tree]:
        """Return the listed parameters; those of bodies stay, for references to their schemas."""
        listed = owner.get("parameters")
        if not _is(listed, Kind.LIST):
            return {}
        return {
            "parameters": tree_of([self._parameter(each, file) for each in listed.items], at=listed)
        }

    def _parameter(self, tree: Tree, file: str) -> Tree:
        if "$ref" in tree.pairs:
            if self._is_in_place(tree, file):
                return tree
            target, below = self._resolve(tree, file)
            return self._copy("parameters", target, below, lambda _: self._parameter(target, below))
        if not _is(tree, Kind.MAP):
            return tree
        source = text_of(tree.get("in"))
        if source == "body":
            return map_at(self.schemas.with_schema(tree, file), tree)
        in_query = source in ("query", "formData")
        return map_at(self.schemas.value(tree, file, in_query=in_query), tree)

    def _request_body(self, operation: Tree, shared: Sequence[Tree], place: str, file: str) -> Tree:
        """Return the body of a request, of the parameter in `body` or of those in `formData`."""
        body: tuple[Tree, str, str] | None = None
        fields: dict[str, tuple[Tree, str]] = {}
        for listed, above in (
            (shared, place.rpartition("/")[0]), (items(operation.get("parameters")), place),
        ):  # fmt: skip
            for number, each in enumerate(listed):
                target, below = self._resolve(each, file)
                if text_of(target.get("in")) == "body":
                    named = text_of(self._parameter(each, file).get("$ref"))
                    body = target, below, named or f"{above}/parameters/{number}"
                elif text_of(target.get("in")) == "formData":
                    fields[text_of(target.get("name"))] = target, below
        if body is not None and fields:
            self._warn("a request has a parameter in body or some in formData, not both", operation)
        consumes = self._media_types(operation, "consumes", self.consumes)
        if body is not None:
            return self._body(*body, consumes)
        return self._form(list(fields.values()), consumes) if fields else NOTHING

    def _body(self, tree: Tree, file: str, place: str, consumes: Sequence[str]) -> Tree:
        schema = self.schemas.with_schema(tree, file).get("schema", map_at({}, tree))
        medias = self._content(schema, f"{place}/schema", consumes)
        samples = dict(members(tree.get("x-examples")))
        named = {
            name: each if "value" in each.pairs else {"value": each}
            for name, each in samples.items()
            if name not in medias
        }
        for name, media in medias.items():
            if name in samples:
                media["example"] = samples[name]
            elif named:
                media["examples"] = named
        required = is_true(tree.get("required"))
        return tree_of({"content": medias, "required": required}, at=tree)

    def _form(self, fields: Sequence[tuple[Tree, str]], consumes: Sequence[str]) -> Tree:
        properties: dict[str, Tree] = {}
        encoding: dict[str, dict[str, Tree]] = {}
        for each, file in fields:
            name, made = text_of(each.get("name")), self.schemas.value(each, file, in_query=True)
            sample = {"example": made["example"]} if "example" in made else {}
            properties[name] = map_at({**made["schema"].pairs, **sample}, each)
            if "style" in made:
                encoding[name] = {key: made[key] for key in ("style", "explode")}
        required = [
            text_of(each.get("name")) for each, _ in fields if is_true(each.get("required"))
        ]
        schema = {"type": "object", "properties": properties}
        media = {"schema": schema | ({"required": required} if required else {})}
        has_file = any(text_of(each.get("type")) == "file" for each, _ in fields)
        types = [each for each in consumes if each.lower().startswith((_FORM, _MULTIPART))]
        content = dict.fromkeys(
            types or [_MULTIPART if has_file else _FORM],
            media | ({"encoding": encoding} if encoding else {}),
        )
        return tree_of({"content": content, "required": bool(required)}, at=fields[0][0])

    def _response(self, tree: Tree, produces: Sequence[str], place: str, file: str) -> Tree:
        if "$ref" in tree.pairs:
            if produces == self.produces and self._is_in_place(tree, file):
                return tree
            target, below = self._resolve(tree, file)
            return self._copy(
                "responses", target, below,
                lambda at: self._response(target, produces, at, below), *produces,
            )  # fmt: skip
        if not _is(tree, Kind.MAP):
            return tree
        made = self.schemas.with_schema(tree, file)
        if "headers" in tree.pairs:
            headers = tree.pairs["headers"]
            made["headers"] = map_at({
                name: each if each.kind is not Kind.MAP
                else map_at(self.schemas.value(each, file), each)
                for name, each in headers.pairs.items()
            }, headers)  # fmt: skip
        content = self._contents(tree, made.get("schema"), f"{place}/schema", produces)
        if content:
            made["content"] = tree_of(content, at=tree)
        return map_at(made, tree)

    def _contents(
        self, tree: Tree, schema: Tree | None, place: str, produces: Sequence[str]
    ) -> Medias:
        """Return the media types of a response: what is produced, and those of its examples."""
        examples = dict(members(tree.get("examples")))
        named = {key: {"value": each} for key, each in examples.items() if "/" not in key}
        types = [key for key in examples if key not in named]
        if schema is not None and text_of(schema.get("format")) == "binary" and produces == _ANY:
            produces = ("application/octet-stream",)
        if (schema is not None or named) and not (types and produces == _ANY):
            types = list(dict.fromkeys((*produces, *types)))
        content = self._content(schema, place, types[:MAX_TYPES])
        for key, media in content.items():
            if key in examples:
                media["example"] = examples[key]
            elif named:
                media["examples"] = named
        return content

    def _content(self, schema: Tree | None, place: str, types: Sequence[str]) -> Medias:
        """Return the media types with a schema, as a reference to its place if it is large."""
        if schema is None:
            return {key: {} for key in types}
        if "$ref" not in schema.pairs and not is_small(schema, values=12, characters=300):
            schema = tree_of({"$ref": place}, at=schema)
        return {key: {"schema": schema} for key in types}

    def _copy(
        self, kind: str, target: Tree, file: str, translate: Callable[[str], Tree], *more: str
    ) -> Tree:
        """Return a reference to a translated copy of what is referred to, made once."""
        key = (kind, id(target), file, *more)
        if target is not NOTHING and key not in self._copied:
            self._left -= _weight(target, self._left)
            if self._left < 0:
                detail = f"more than {MAX_COPIED // 2**20} MiB of {kind} are referred to"
                self.warnings.add("limit_exceeded", detail, self.path)
                return NOTHING
            made = self.copies.setdefault(kind, {})
            name = str(len(made))
            made[name] = NOTHING  # the name is taken while another copy is made in it
            self._copied[key] = tree_of({"$ref": f"#/components/{kind}/{name}"}, at=target)
            made[name] = translate(f"#/components/{kind}/{name}")
        return self._copied.get(key, NOTHING)

    def _is_in_place(self, tree: Tree, file: str) -> bool:
        """Return whether a reference leads to what is translated where it is."""
        return file == self.path and text_of(tree.get("$ref")).startswith(_IN_PLACE)

    def _resolve(self, tree: Tree, file: str) -> tuple[Tree, str]:
        """Return what a reference leads to, as it is written, and its file."""
        for _ in range(MAX_REFERENCES):
            if not (reference := text_of(tree.get("$ref"))):
                return tree, file
            file, pointer = self.schemas.place(reference, file)
            tree = self.root if file == self.path else self.read(file)
            for part in pointer.split("/")[1:]:
                tree = child(tree, unescape_pointer(unquote(part))) or NOTHING
            if tree.kind is Kind.NULL:
                break
        return NOTHING, file

    def _media_types(self, owner: Tree, name: str, otherwise: Sequence[str]) -> Sequence[str]:
        """Return `consumes` or `produces` of the document or an operation; an empty list is any."""
        listed = owner.get(name)
        if not _is(listed, Kind.LIST):
            return otherwise
        return tuple(filter(None, map(text_of, listed.items[:MAX_TYPES]))) or _ANY

    def _warn(self, detail: str, at: Tree | None) -> None:
        self.warnings.add("contract_invalid", detail, self.path, at)


def _is(tree: Tree | None, kind: Kind) -> TypeGuard[Tree]:
    return tree is not None and tree.kind is kind


def _part(name: str) -> str:
    """Return a name as a part of a pointer in a URL."""
    return quote(escape_pointer(name), safe="~")


def _weight(tree: Tree, limit: int) -> int:
    """Return about how many characters a value has, or a number beyond the limit."""
    found = 0
    for path, each in tree.walk():
        found += len(each.text) + len(path[-1] if path else "") + 8
        if found > limit:
            break
    return found
