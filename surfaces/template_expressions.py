"""Expressions of templates: their grammar, the functions they may call, and what is wrong in them.

expr = alt { "||" alt } ; alt = quoted | path | call ; call = name | name "(" args ")" | name args
args = { arg [ "," ] } ; arg = [ option "=" ] ( quoted | number | path | call | "(" call ")" )

Both `f(a, b)` and the Handlebars form `f a b option=c` make the same call. (control-plane 18.6)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from kernel.extras import missing_extra
from readers.diagnostics import nearest_advice
from surfaces.body_queries import QueryInvalid, compile_query
from surfaces.invented_values import open_generator
from surfaces.template_paths import EXPRESSION, ROOTS, Step, parse_path

MAX_DEPTH: Final = 8
MAX_ARGUMENTS: Final = 50


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """What a function takes: `names` in order, the first `required` of them at least.

    With `more`, any number of further ones.
    """

    names: tuple[str, ...] = ()
    required: int = 0
    more: bool = False


_TEXT: Final = FunctionSignature(("text",), 1)
_QUERY: Final = FunctionSignature(("value", "path"), 2)
FUNCTIONS: Final[Mapping[str, FunctionSignature]] = {
    "now": FunctionSignature(("offset", "format")),
    "uuid": FunctionSignature(),
    "randomInt": FunctionSignature(("lower", "upper")),
    "randomValue": FunctionSignature(("length", "type", "uppercase")),
    "pick": FunctionSignature(("first",), 1, more=True),
    "counter": FunctionSignature(("name",), 1),
    "upper": _TEXT, "lower": _TEXT, "trim": _TEXT, "capitalize": _TEXT, "urlEncode": _TEXT,
    "base64": FunctionSignature(("text", "decode"), 1),
    "base64decode": _TEXT,
    "string": _TEXT, "number": _TEXT, "boolean": _TEXT, "json": _TEXT, "size": _TEXT,
    "math": FunctionSignature(("first", "operator", "second"), 3),
    "jsonPath": _QUERY, "xPath": _QUERY,
}  # fmt: skip
FAKER: Final = (
    "name", "firstName", "lastName", "email", "phoneNumber", "userName", "address", "streetAddress",
    "city", "postcode", "state", "country", "countryCode", "latitude", "longitude", "company",
    "job", "word", "sentence", "paragraph", "url", "domainName", "ipv4", "ipv6", "macAddress",
    "userAgent", "date", "iban", "creditCardNumber", "currencyCode", "colorName", "hexColor",
    "boolean",
)  # fmt: skip
_ALIASES: Final[Mapping[str, str]] = {
    "pickrandom": "pick", "oneof": "pick", "guid": "uuid", "uppercase": "upper",
    "lowercase": "lower", "urlencode": "urlEncode", "base64encode": "base64", "xpath": "xPath",
    "jsonpath": "jsonPath", "int": "randomInt", "min": "lower", "max": "upper",
}  # fmt: skip
_ELSEWHERE: Final[Mapping[str, str]] = {
    "queryparam": "write request.query.NAME", "urlparam": "write request.path.NAME",
    "body": "write request.body.PATH", "header": "write request.headers.NAME",
    "bodyraw": "write request.rawBody", "method": "write request.method",
    "date": "write now(offset, format)", "faker": f"write one of faker.{', '.join(FAKER[:6])}, …",
    "parsejson": "write json(…)", "tojson": "write json(…)", "hostname": "it is not known",
}  # fmt: skip
_BLOCKS: Final[Mapping[str, str]] = {
    "if": "write an example with a condition for each case", "unless": "write a condition with not",
    "each": "insert a whole list, as in {{json(request.body.items)}}, or write a responseSchema",
}  # fmt: skip
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<quoted>"[^"]*"|'[^']*')|(?P<mark>\|\||[(),])|(?P<option>[A-Za-z_]\w*)=(?!=)"""
    r"""|(?P<word>(?:\[\s*(?:\d+|"[^"]*"|'[^']*')\s*\]|[^\s,()|"'=\[\]])+)(?P<call>\()?)\s*""",
    re.ASCII,
)
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?", re.ASCII)
_FUNCTION: Final = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Literal:
    value: str | int | float | bool


@dataclass(frozen=True, slots=True)
class Path:
    text: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call; `arguments` are in the order of the signature, None where one is left out."""

    name: str
    arguments: tuple[Node | None, ...] = ()
    problem: str = ""


Node = Literal | Path | FunctionCall


class NoExpression(ValueError):
    """What stands between the braces is text; the reason says what is wrong, "" if nothing is."""


def parse_expression(inner: str) -> tuple[Node, ...]:
    """Return the alternatives of an expression; raise NoExpression."""
    parser = _ExpressionParser(inner)
    found = [parser.alternative()]
    while parser.take("||"):
        found.append(parser.alternative())
    if parser.peek is not None:
        is_call = isinstance(found[-1], FunctionCall)
        raise NoExpression(f'"{parser.peek[0].strip()[:40]}" behind a call' if is_call else "")
    return tuple(found)


class _ExpressionParser:
    """Reads the tokens of one expression."""

    def __init__(self, text: str) -> None:
        self._tokens: list[re.Match[str]] = []
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None or len(self._tokens) > 4 * MAX_ARGUMENTS:
                raise NoExpression
            self._tokens.append(found)
            at = found.end()
        self._at = 0

    @property
    def peek(self) -> re.Match[str] | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def take(self, mark: str) -> bool:
        """Go over a mark, if it comes next."""
        found = self.peek is not None and self.peek["mark"] == mark
        self._at += found
        return found

    def alternative(self) -> Node:
        """Return a text, a path, or a call in either form."""
        token = self.peek
        if token is None or token["word"] is None or token["call"]:
            return self._argument(0)
        if token["word"].startswith("#"):
            raise NoExpression(_block_advice(token["word"][1:]))
        self._at += 1
        if self.peek is None or self.peek["mark"] == "||":
            return _word(token["word"], is_argument=False)
        if _FUNCTION.fullmatch(token["word"]) is None or not self._looks_like_a_call(token["word"]):
            raise NoExpression
        return self._call(token["word"], "||", 0)

    def _looks_like_a_call(self, name: str) -> bool:
        if function_name(name):
            return True
        ahead = self._tokens[self._at :]
        return any(
            each["quoted"]
            or each["option"]
            or (parse_path(each["word"] or "") or ("",))[0] in ROOTS
            for each in ahead
        )

    def _call(self, name: str, end: str, depth: int) -> Node:
        """Return the call whose arguments come next, up to a mark or the end."""
        if depth > MAX_DEPTH:
            raise NoExpression(f"more than {MAX_DEPTH} calls within one another")
        arguments: list[Node] = []
        options: dict[str, Node] = {}
        while self.peek is not None and self.peek["mark"] != end:
            option = self.peek["option"]
            self._at += option is not None
            made = self._argument(depth)
            if option is None:
                arguments.append(made)
            else:
                options[option] = made
            self.take(",")
            if len(arguments) > MAX_ARGUMENTS:
                raise NoExpression(f"more than {MAX_ARGUMENTS} arguments")
        if end == ")" and not self.take(")"):
            raise NoExpression(f"the arguments of {name[:40]} do not end")
        return _build_call(name, arguments, options)

    def _argument(self, depth: int) -> Node:
        token = self.peek
        if token is None or token["option"] is not None:
            raise NoExpression
        self._at += 1
        if token["quoted"] is not None:
            return Literal(token["quoted"][1:-1])
        if token["mark"] == "(":
            inner = self.peek
            if inner is None or inner["word"] is None or inner["call"]:
                raise NoExpression
            self._at += 1
            if self.take(")"):
                return _word(inner["word"], is_argument=True)
            return self._call(inner["word"], ")", depth + 1)
        if token["word"] is None:
            raise NoExpression
        if token["call"]:
            return self._call(token["word"], ")", depth + 1)
        return _word(token["word"], is_argument=True)


def _word(text: str, *, is_argument: bool) -> Node:
    if function_name(text):
        return _build_call(text, [], {})
    if text in ("true", "false"):
        return Literal(text == "true")
    if _NUMBER.fullmatch(text):
        return Literal(float(text) if "." in text else int(text))
    steps = parse_path(text)
    if steps is None:
        raise NoExpression(f'"{text[:40]}" is not a path' if is_argument else "")
    return Path(text, steps)


def function_name(name: str) -> str:
    """Return what a function is called here, "" for the name of none."""
    if name.startswith("faker."):
        folded = name.replace("_", "").lower()
        return next((f"faker.{each}" for each in FAKER if f"faker.{each.lower()}" == folded), "")
    return name if name in FUNCTIONS else _ALIASES.get(name.lower(), "")


def _build_call(name: str, arguments: list[Node], options: dict[str, Node]) -> FunctionCall:
    known = function_name(name)
    if not known:
        return FunctionCall(name, tuple(arguments), _unknown_function(name))
    signature = FUNCTIONS.get(known, FunctionSignature())
    given: dict[str, Node] = dict(zip(signature.names, arguments, strict=False))
    for written, node in options.items():
        option = written if written in signature.names else _ALIASES.get(written, written)
        if option not in signature.names or option in given:
            advice = nearest_advice(option, signature.names) if signature.names else "none is known"
            return FunctionCall(known, (), f'{known} has no option "{option[:40]}"; {advice}')
        given[option] = node
    rest = arguments[len(signature.names) :]
    missing = [each for each in signature.names[: signature.required] if each not in given]
    if missing or (rest and not signature.more):
        usage = f"{known}({', '.join(signature.names)}{', …' if signature.more else ''})"
        return FunctionCall(known, (), f"write {usage}")
    listed = tuple(given.get(each) for each in signature.names)
    return FunctionCall(known, (*listed, *rest), _argument_problem(known, listed))


def _argument_problem(name: str, arguments: tuple[Node | None, ...]) -> str:
    if name == "counter" and not isinstance(arguments[0], Literal):
        return "the name of a counter is a quoted text"
    if name not in ("jsonPath", "xPath"):
        return ""
    path = arguments[1]
    if not isinstance(path, Literal) or not isinstance(path.value, str):
        return f"the path of {name} is a quoted text"
    try:
        compile_query("xpath" if name == "xPath" else name, path.value)
    except QueryInvalid as error:
        return f"{path.value[:80]}: {error}"
    return ""


def _unknown_function(name: str) -> str:
    advice = _ELSEWHERE.get(name.lower())
    if name.startswith("faker."):
        advice = nearest_advice(name.removeprefix("faker."), FAKER)
    return f'there is no function "{name[:40]}"; {advice or nearest_advice(name, FUNCTIONS)}'


def _block_advice(name: str) -> str:
    return f"blocks are not known; {_BLOCKS.get(name, 'write an example for each case')}"


def template_problems(text: str) -> Iterator[str]:
    """Yield why expressions of a template can never have a value: unknown paths and functions.

    What a request or a record may lack is no problem, and neither is what is not an expression.
    """
    for found in EXPRESSION.finditer(text) if "{{" in text else ():
        try:
            reasons = [reason for node in parse_expression(found[1]) if (reason := _problem(node))]
        except NoExpression as error:
            reasons = [str(error)] if str(error) else []
        for reason in reasons:
            yield f"{found[0][:80]}: {reason}"


def calls_function(text: str, name: str) -> bool:
    """Return whether an expression of a template calls a function of this name."""
    waiting: list[Node | None] = []
    for found in EXPRESSION.finditer(text):
        with suppress(NoExpression):
            waiting += parse_expression(found[1])
    while waiting:
        node = waiting.pop()
        if isinstance(node, FunctionCall):
            if node.name == name:
                return True
            waiting += node.arguments
    return False


def path_problem(path: str) -> str:
    """Return why a path can never lead to a value, "" if it may."""
    steps = parse_path(path.strip())
    return _unknown_step((), *map(str, steps[:2])) if steps else "it is not a path"


def _problem(node: Node | None) -> str:
    if isinstance(node, Path):
        return _unknown_step(FUNCTIONS, *map(str, node.steps[:2]))
    if not isinstance(node, FunctionCall):
        return ""
    if node.name.startswith("faker.") and not node.problem:
        if missing := missing_extra("faker"):
            return f"{node.name} {missing}"
        open_generator()  # here, while files are read, and not while a call waits
    return node.problem or next(filter(None, map(_problem, node.arguments)), "")


def _unknown_step(functions: Collection[str], root: str, name: str = "") -> str:
    """Return which of the first two steps of a path is not known, "" if both are.

    The first may be meant as a function.
    """
    if root not in ROOTS:
        near = get_close_matches(root.lower()[:40], {each.lower() for each in functions}, 1)
        advice = nearest_advice(root, (*ROOTS, *functions) if near else ROOTS)
        return f'"{root[:40]}" is not known; {advice}'
    known = ROOTS[root]
    if not known or name in known:
        return ""
    if not name:
        return f"{root} needs a member: {', '.join(known)}"
    return f'{root} has no "{name[:40]}"; {nearest_advice(name, known)}'
