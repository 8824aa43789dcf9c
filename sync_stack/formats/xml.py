"""XML: the root's name is the first key; `@attrs`, `#text`, lists of repeated names.

expat through defusedxml: no document type, no entities, nothing from outside.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from xml.sax import SAXException, SAXParseException
from xml.sax.handler import ContentHandler
from xml.sax.xmlreader import AttributesImpl, InputSource, Locator

import defusedxml.sax
from defusedxml.common import DefusedXmlException

from readers.tree import Tree
from sync_stack.core.formats import MAX_DEPTH, Format, Source, register

ATTRIBUTES: Final = "@attrs"
TEXT: Final = "#text"


@dataclass(slots=True, kw_only=True)
class _Element:
    name: str
    place: tuple[int, int]
    attributes: Mapping[str, str]
    children: dict[str, list[Tree]] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)


class _Elements(ContentHandler):
    """Trees of elements, made when they end."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source = source
        self.locator: Locator | None = None
        self.open: list[_Element] = [_Element(name="", place=(1, 1), attributes={})]

    def setDocumentLocator(self, locator: Locator) -> None:  # noqa: N802
        self.locator = locator

    def startElement(self, name: str, attrs: AttributesImpl) -> None:  # noqa: N802
        if len(self.open) >= MAX_DEPTH:
            self.source.too_deep(self.place())
        attributes = dict(attrs.items())
        self.open.append(_Element(name=name, place=self.place(), attributes=attributes))

    def characters(self, content: str) -> None:
        self.open[-1].text.append(content)

    def endElement(self, name: str) -> None:  # noqa: N802
        tree = self.tree(self.open.pop())
        self.open[-1].children.setdefault(name, []).append(tree)

    def place(self) -> tuple[int, int]:
        if self.locator is None:
            return (1, 1)
        return self.locator.getLineNumber() or 1, (self.locator.getColumnNumber() or 0) + 1

    def tree(self, element: _Element) -> Tree:
        """A string, or a map when the element has attributes or children."""
        text = "".join(element.text)
        place = element.place
        if not element.attributes and not element.children:
            return self.source.string(text, place)
        pairs: dict[str, Tree] = {}
        if element.attributes:
            named = {
                name: self.source.string(value, place) for name, value in element.attributes.items()
            }
            pairs[ATTRIBUTES] = self.source.map(named, place)
        if element.children:
            text = text.strip()  # what stands between children is mostly their indentation
        if text:
            pairs[TEXT] = self.source.string(text, place)
        pairs.update((name, self.one(trees)) for name, trees in element.children.items())
        return self.source.map(pairs, place)

    def one(self, trees: list[Tree]) -> Tree:
        if len(trees) == 1:
            return trees[0]
        return self.source.list(trees, (trees[0].line, trees[0].column))


def read(source: Source) -> Tree:
    elements = _Elements(source)
    document = InputSource()
    document.setByteStream(io.BytesIO(source.text.encode()))
    document.setEncoding("utf-8")  # whatever the declaration says
    parser = defusedxml.sax.make_parser()
    parser.forbid_dtd = True
    parser.setContentHandler(elements)
    try:
        parser.parse(document)
    except SAXParseException as error:
        place = (error.getLineNumber() or 1, (error.getColumnNumber() or 0) + 1)
        source.fail_at(error.getMessage(), place)
    except DefusedXmlException:
        source.fail_at("document types and entities are refused", elements.place())
    except SAXException as error:
        source.fail_at(str(error), elements.place())
    return elements.tree(elements.open[0])


register(
    Format(
        name="xml",
        extensions=("xml",),
        names=("app.config", "web.config"),
        read=read,
        notes="`cfg.db.@attrs.host`, `#text`; DTD and entities are refused",
    )
)
