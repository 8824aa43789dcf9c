"""The packages encoding/json and encoding/yaml."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, Final

from cue.builtins.function import (
    MAX_ITEMS,
    CallRefused,
    Failed,
    Function,
    Numeric,
    check_length,
    package,
)
from readers import Unreadable
from readers.json import read_json
from readers.tree import Kind
from readers.yaml import Node, read_yaml

_JSON_FLOAT: Final = re.compile(r"[.eE]")
_YAML_PLAIN: Final = re.compile(r"[A-Za-z/][A-Za-z0-9_./=,@+-]*(?:[ :][A-Za-z0-9_./=,@+-]+)*")
_YAML_NUMBER: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,14})?")
_YAML_WORDS: Final = re.compile(r"(?i)(?:y|n|yes|t|f|no|on|off|true|false|null)")
_YAML_INT: Final = re.compile(r"0|-?[1-9][0-9]{0,17}")
_YAML_FLOAT: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,14})\.[0-9]{1,14}")


def _json(value: Any) -> str:
    """Compact, fields in their order, signs of HTML as they are."""
    match value:
        case Numeric():
            return value.text
        case list():
            return f"[{','.join(map(_json, value))}]"
        case dict():
            members = [f"{_text(key)}:{_json(item)}" for key, item in value.items()]
            return "{" + ",".join(members) + "}"
        case str():
            return _text(value)
        case _:
            return {None: "null", True: "true", False: "false"}[value]


def _text(value: str) -> str:
    made = json.dumps(value, ensure_ascii=False)
    if "\x7f" in made or re.search("[\x00-\x1f]", value.replace("\n", "").replace("\t", "")):
        raise CallRefused("control characters in JSON")
    return made.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _from_json(text: str) -> Any:
    try:
        read_json(check_length(text).encode())
    except Unreadable:
        raise Failed("the text is not JSON") from None
    return json.loads(text, parse_int=_number, parse_float=_number)


def _number(text: str) -> Numeric:
    if len(text) > 30 or text == "-0":  # noqa: PLR2004 - what 34 digits hold for certain
        raise CallRefused("a number of more than 30 digits")
    return Numeric(Decimal(text), is_int=not _JSON_FLOAT.search(text))


def _is_json(text: str) -> bool:
    try:
        _from_json(text)
    except Failed:
        return False
    return True


def _indent(text: str, prefix: str, indent: str) -> str:
    value = _from_json(text)
    if text != _json(value):
        raise CallRefused("JSON that is not compact")
    return check_length(_lines(value, prefix, indent))


def _lines(value: Any, before: str, indent: str) -> str:
    if not isinstance(value, list | dict) or not value:
        return _json(value)
    inside = before + indent
    if isinstance(value, list):
        parts = [_lines(item, inside, indent) for item in value]
        opening, closing = "[", "]"
    else:
        parts = [f"{_text(key)}: {_lines(item, inside, indent)}" for key, item in value.items()]
        opening, closing = "{", "}"
    body = ",".join(f"\n{inside}{part}" for part in parts)
    return f"{opening}{body}\n{before}{closing}"


def _yaml(value: Any) -> str:
    if isinstance(value, list | dict) and value:
        return check_length("\n".join(_block(value)) + "\n")
    return f"{_scalar(value)}\n"


def _block(value: Any) -> list[str]:
    """Lines of a list or map that is not empty, without indentation."""
    lines: list[str] = []
    if isinstance(value, list):
        for item in value:
            first, *more = _block(item) if _is_block(item) else [_scalar(item)]
            lines += [f"- {first}", *(f"  {line}" for line in more)]
        return lines
    for key, item in value.items():
        if _is_block(item):
            lines += [f"{_scalar(key)}:", *(f"  {line}" for line in _block(item))]
        else:
            lines.append(f"{_scalar(key)}: {_scalar(item)}")
    return lines


def _is_block(value: Any) -> bool:
    return isinstance(value, list | dict) and bool(value)


def _scalar(value: Any) -> str:
    """Only what is written the same way by every edition."""
    match value:
        case list() | dict():
            return "[]" if isinstance(value, list) else "{}"
        case Numeric() if value.is_int or _YAML_FLOAT.fullmatch(value.text):
            return value.text
        case None | bool():
            return _json(value)
        case str() if not value or _YAML_WORDS.fullmatch(value) or _YAML_NUMBER.fullmatch(value):
            return f'"{value}"'
        case str() if _YAML_PLAIN.fullmatch(value):
            return value
        case _:
            raise CallRefused("YAML of a text or number that may need quotes")


def _from_yaml(text: str) -> Any:
    try:
        return _plain(read_yaml(check_length(text), max_alias_expansions=0, max_nodes=MAX_ITEMS))
    except Unreadable:
        raise CallRefused("YAML that is not read here") from None


def _plain(node: Node) -> Any:
    if node.pairs is not None:
        return {_key(name): _plain(value) for name, value in node.pairs}
    if node.items is not None:
        return [_plain(item) for item in node.items]
    kind, text = node.kind_and_text()
    if kind is Kind.STRING and node.plain and not _YAML_PLAIN.fullmatch(text):
        raise CallRefused("a text in YAML that some editions read as something else")
    if kind is Kind.STRING:
        return _word(text) if node.plain else text
    if kind is Kind.NUMBER:
        return _yaml_number(text)
    return None if kind is Kind.NULL else text == "true"


def _key(node: Node) -> str:
    kind, text = node.kind_and_text()
    if kind is not Kind.STRING or text == "<<":
        raise CallRefused("a key in YAML that is not text")
    return _word(text) if node.plain else text


def _word(text: str) -> str:
    if _YAML_WORDS.fullmatch(text):
        raise CallRefused("a word in YAML that some editions read as a boolean")
    return text


def _yaml_number(text: str) -> Numeric:
    if _YAML_INT.fullmatch(text):
        return Numeric(Decimal(text), is_int=True)
    if _YAML_FLOAT.fullmatch(text):
        return Numeric(Decimal(text), is_int=False)
    raise CallRefused("an unusual number in YAML")


JSON: Final = package(
    "json",
    Function("json.Compact", "s", lambda text: _json(_from_json(text))),
    Function("json.Indent", "sss", _indent),
    Function("json.Marshal", "o", lambda value: check_length(_json(value))),
    Function("json.Unmarshal", "s", _from_json),
    Function("json.Valid", "s", _is_json),
)
YAML: Final = package(
    "yaml",
    Function("yaml.Marshal", "o", _yaml),
    Function("yaml.Unmarshal", "s", _from_yaml),
)
