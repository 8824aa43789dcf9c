"""XML as the value that a schema of OpenAPI means by it.

Names, attributes and wrapped lists are those of `xml`; prefixes and namespaces do not matter.
"""

from __future__ import annotations

from typing import Any, Final

from lxml import etree

from surfaces.contract_checks.shapes import Shape
from surfaces.xml_bodies import read_xml

MAX_DEPTH: Final = 60


def xml_value(raw: bytes, shape: Shape) -> Any:
    """Return the value of a document; raise ValueError for one that is not XML, or too deep.

    Entities are not resolved, and nothing is fetched.
    """
    return _value(read_xml(raw), shape, 0)


def _value(element: Any, shape: Shape, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError("is nested too deeply")
    if "object" in shape.types:
        return _object(element, shape, depth)
    if "array" in shape.types:
        below = element.iterchildren(etree.Element)
        return [_value(each, shape.items, depth + 1) for each in below]
    return shape.value("".join(element.itertext()))


def _object(element: Any, shape: Shape, depth: int) -> dict[str, object]:
    children: dict[str, list[Any]] = {}
    for each in element.iterchildren(etree.Element):
        children.setdefault(_local_name(each), []).append(each)
    attributes = {_local_name(str(key)): str(text) for key, text in element.attrib.items()}
    made: dict[str, object] = {}
    for name, below in shape.properties.items():
        tag = str(below.xml("name") or name)
        is_listed = "array" in below.types and below.xml("wrapped") is not True
        if is_listed:
            tag = str(below.items.xml("name") or tag)
        if below.xml("attribute") is True:
            if tag in attributes:
                made[name] = below.value(attributes[tag])
        elif found := children.pop(tag, None):
            made[name] = (
                [_value(each, below.items, depth + 1) for each in found]
                if is_listed
                else _value(found[0], below, depth + 1)
            )
    for tag, found in children.items():  # what the schema does not name
        made.setdefault(tag, "".join(found[0].itertext()))
    return made


def _local_name(named: Any) -> str:
    return str(etree.QName(named).localname)
