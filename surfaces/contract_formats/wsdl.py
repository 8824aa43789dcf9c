"""SOAP contracts: the operations of WSDL 1.1 port types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit
from xml.etree.ElementTree import Element, ParseError, TreeBuilder

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from surfaces.contract_formats.wsdl_mistakes import WSDL, is_known, syntax_advice, wsdl_problems
from surfaces.contracts import INVALID, Contract, ContractOperation, Sources
from surfaces.xml_bodies import quote_attribute

PROTOCOL: Final = "SOAP"
_WSDL: Final = f"{{{WSDL}}}"
_ENVELOPE: Final = "http://schemas.xmlsoap.org/soap/envelope/"


def read_wsdl(path: str, sources: Sources) -> Contract | None:
    """Return what the file declares; None for a file without operations."""
    builder = _PlacedTree()
    try:
        root = builder.parse(sources.text(path))
    except ParseError as error:
        reason, line, column = builder.reason(error)
        sources.warnings.add_at(INVALID, f"not XML: {reason}", path, line, column)
        return None
    except (DefusedXmlException, ValueError):
        sources.warnings.add_at(INVALID, "a document type or entities are not allowed", path)
        return None
    if root.tag != f"{_WSDL}definitions":
        detail = f"not WSDL 1.1: the root must be `definitions` of {WSDL}"
        sources.warnings.add_at(
            INVALID, detail, path, *builder.place(root.tag[1:].partition("}")[0] or root)
        )
        return None
    for detail, where in wsdl_problems(root, builder.prefixes):
        sources.warnings.add_at(INVALID, detail, path, *builder.place(where))
    operations = tuple(_operations(root, path, sources, builder.places))
    if not operations:
        return None
    return Contract(
        path=path,
        protocol=PROTOCOL,
        title=root.get("name", "")[:300],
        description=_documentation(root),
        operations=operations,
    )


class _PlacedTree(TreeBuilder):
    """Makes the tree of a document, and notes the place of each element and the prefixes."""

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[Element, tuple[int, int]] = {}  # line and column from 1
        self.prefixes: dict[str, str] = {}
        self.open: list[Element] = []
        self.text = ""
        self.parser = DefusedXMLParser(target=self, forbid_dtd=True)

    def parse(self, text: str) -> Element:
        self.text = text
        self.parser.feed(text)
        root: Element = self.parser.close()
        return root

    def place(self, where: Element | str) -> tuple[int, int]:
        """Return line and column of an element, or of where a text stands first."""
        if isinstance(where, Element):
            return self.places[where]
        at = max(self.text.find(where), 0)
        return self.text.count("\n", 0, at) + 1, at - self.text.rfind("\n", 0, at)

    def reason(self, error: ParseError) -> tuple[str, int, int]:
        """Return what is wrong, and where: at an open element with an unknown name, if one is."""
        line, column = error.position
        opened = self.open[-1] if self.open else None
        name = str(opened.tag).rpartition("}")[2] if opened is not None else ""
        advice = syntax_advice(self.text, line, column, name, self.prefixes)
        reason = str(error).partition(":")[0] + advice
        if opened is None or is_known(str(opened.tag)):
            return reason, line, column + 1
        return reason, *self.places[opened]

    def end(self, tag: str) -> Element:
        self.open.pop()
        return super().end(tag)

    def start(self, tag: str, attrs: dict[str, str]) -> Element:
        element = super().start(tag, attrs)
        expat = self.parser.parser
        self.open.append(element)
        self.places[element] = expat.CurrentLineNumber, expat.CurrentColumnNumber + 1
        return element

    def start_ns(self, prefix: str, uri: str) -> None:
        self.prefixes[prefix or ""] = uri


def _operations(
    root: Element, path: str, sources: Sources, places: Mapping[Element, tuple[int, int]]
) -> Iterator[ContractOperation]:
    where = _path(root)
    namespace = root.get("targetNamespace", "")[:500]
    for port_type in root.iterfind(f"{_WSDL}portType"):
        for operation in port_type.iterfind(f"{_WSDL}operation"):
            name = operation.get("name", "")[:200]
            if name and sources.take_operation(path):
                yield ContractOperation(
                    operation_id=name,
                    method="POST",
                    name=f"{port_type.get('name', '')[:200]}.{name}",
                    path=where,
                    summary=_documentation(operation).partition("\n")[0][:300],
                    body=_envelope(name, namespace),
                    media_type="text/xml",
                    line=places[operation][0],
                    column=places[operation][1],
                )


def _path(root: Element) -> str:
    """Return the path of the service's address, `/` without one."""
    for element in root.iter():
        if element.tag.endswith("}address") and (location := element.get("location")):
            try:
                return urlsplit(location[:2000]).path or "/"
            except ValueError:
                return "/"
    return "/"


def _documentation(element: Element) -> str:
    found = element.find(f"{_WSDL}documentation")
    return (found.text or "").strip()[:4000] if found is not None else ""


def _envelope(name: str, namespace: str) -> str:
    return (
        f'<soap:Envelope xmlns:soap="{_ENVELOPE}"><soap:Body>'
        f"<{name} xmlns={quote_attribute(namespace)}/></soap:Body></soap:Envelope>"
    )
