"""JSONPath (RFC 9535) and XPath 1.0 on bodies of requests, with bounded work.

compile_query("jsonPath", "$.items[?@.id==1]")(body)    # the values that it finds
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, cast

from lxml import etree

from surfaces.xml_bodies import read_xml

SYNTAXES: Final = ("jsonPath", "xpath")
MAX_QUERY: Final = 500  # characters
MAX_XML: Final = 256 * 2**10  # bytes
MAX_DEPTHS: Final = 30_000  # of all elements together: what a step to descendants looks at
MAX_FAR: Final = 4  # steps of an XPath to other places than children
MAX_PREDICATES: Final = 8
MAX_FOUND: Final = 1_000
_QUOTED: Final = re.compile(r"\"[^\"]*\"|'[^']*'")
_PREFIX: Final = re.compile(r"(?<![\w.-])[A-Za-z_][\w.-]*:(?=[A-Za-z_*])", re.ASCII)
_STEP: Final = re.compile(r"\[|\]|//|\.\.|([a-z-]+)\s*::|(?<![\w\])*.@])/", re.ASCII)
_INNER_AXES: Final = ("child", "self", "attribute")
_AXES: Final = (*_INNER_AXES, "parent", "descendant", "descendant-or-self")
_XPATH_FUNCTION: Final = re.compile(r"([A-Za-z-][\w.-]*)\s*\(", re.ASCII)
_XPATH_FUNCTIONS: Final = frozenset(
    {"boolean", "ceiling", "concat", "contains", "count", "false", "floor", "last", "local-name"}
    | {"name", "namespace-uri", "normalize-space", "not", "number", "position", "round"}
    | {"starts-with", "string", "string-length", "substring", "substring-after", "or", "and"}
    | {"substring-before", "sum", "translate", "true", "text", "node", "comment", "div", "mod"}
)
Query = Callable[[Any], Sequence[Any]]


class QueryInvalid(ValueError):
    """A query that is none, or that might look through a body too often."""


@lru_cache(maxsize=1_000)
def compile_query(syntax: str, text: str) -> Query:
    """Return what finds values in a parsed body (JSONPath) or in its bytes (XPath).

    It never raises; what takes too much work finds nothing. Raise QueryInvalid.
    """
    if len(text) > MAX_QUERY:
        raise QueryInvalid(f"it has more than {MAX_QUERY} characters")
    if syntax == "xpath":
        return _compile_xpath(text)
    json_paths = import_module("surfaces.json_paths")  # its library takes 0.1 s to import
    try:
        return cast("Query", json_paths.compile_json_path(text))
    except ValueError as error:
        raise QueryInvalid(str(error)) from None


def _compile_xpath(text: str) -> Query:
    """Compile; names match whatever their namespace is, prefixes say nothing."""
    bare = _QUOTED.sub("''", text)
    _refuse_costly(bare)
    parts = re.split(r"(\"[^\"]*\"|'[^']*')", text)
    local = "".join(each if at % 2 else _PREFIX.sub("", each) for at, each in enumerate(parts))
    try:
        compiled = etree.XPath(local, regexp=False, smart_strings=False)
    except (etree.XPathError, ValueError) as error:  # ValueError: a character that XML has not
        raise QueryInvalid(str(error)[:200]) from None

    def find(body: Any) -> Sequence[Any]:
        root = parse_xml(body)
        if root is None:
            return ()
        try:
            found = compiled(root.getroottree())
        except etree.XPathError:
            return ()
        if isinstance(found, bool):
            return (True,) if found else ()
        if isinstance(found, list):
            return [_text(each) for each in found[:MAX_FOUND]]
        return (int(found) if isinstance(found, float) and found.is_integer() else found,)

    return find


def _refuse_costly(bare: str) -> None:
    """Raise QueryInvalid for what could take more than some looks through the tree."""
    if "$" in bare:
        raise QueryInvalid("variables are not known")
    for name in _XPATH_FUNCTION.findall(bare):
        if name not in _XPATH_FUNCTIONS:
            raise QueryInvalid(f'there is no function "{name[:40]}"')
    depth = far = 0
    for found in _STEP.finditer(bare):
        word, axis = found[0], found[1]
        depth += (word == "[") - (word == "]")
        if axis and axis not in _AXES:
            raise QueryInvalid(f"the axis {axis[:40]} is not used here")
        is_far = axis not in _INNER_AXES if axis else word not in "[]"
        if is_far and depth > 0:
            raise QueryInvalid(f'"{word.strip()}" is not allowed within [ ]: name children there')
        far += is_far
    if far > MAX_FAR or bare.count("[") > MAX_PREDICATES or bare.count("|") > MAX_FAR:
        raise QueryInvalid("it looks through the document too often")


def parse_xml(body: Any) -> etree._Element | None:
    """Return the root of an XML body, its names without namespaces; None for another body.

    Entities, document types and the network are not used; large documents are no XML.
    """
    if not isinstance(body, bytes) or len(body) > MAX_XML or b"<!" in body.replace(b"<!--", b""):
        return None
    try:
        root = read_xml(body)
    except ValueError:
        return None
    if _is_deep(root):
        return None
    for each in root.iter():
        if isinstance(each.tag, str):
            each.tag = _local(each.tag)
        for name in [name for name in each.attrib if "{" in cast("str", name)]:
            each.set(_local(cast("str", name)), each.attrib.pop(name))
    return root


def _is_deep(root: etree._Element) -> bool:
    """Return whether steps to descendants would look at too many elements."""
    depth = looks = 0
    for event, _ in etree.iterwalk(root, events=("start", "end")):
        if event == "end":
            depth -= 1
            continue
        depth += 1
        looks += depth
        if looks > MAX_DEPTHS:
            return True
    return False


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _text(node: Any) -> Any:
    """Return the text of a node: of an element, all text below it."""
    return "".join(node.itertext()) if isinstance(node, etree._Element) else node  # noqa: SLF001
