"""SOAP contracts: the operations of WSDL 1.1 port types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from surfaces.contracts import INVALID, Contract, ContractOperation, Sources
from surfaces.xml_bodies import quote_attribute

PROTOCOL: Final = "SOAP"
_WSDL: Final = "{http://schemas.xmlsoap.org/wsdl/}"
_ENVELOPE: Final = "http://schemas.xmlsoap.org/soap/envelope/"


def read_wsdl(path: str, sources: Sources) -> Contract | None:
    """Return what the file declares; None for a file without operations."""
    try:
        root = fromstring(sources.text(path), forbid_dtd=True)
    except ParseError as error:
        line, column = error.position
        reason = str(error).partition(":")[0]
        sources.warnings.add_at(INVALID, f"not XML: {reason}", path, line, column + 1)
        return None
    except (DefusedXmlException, ValueError):
        sources.warnings.add_at(INVALID, "a document type or entities are not allowed", path)
        return None
    if root.tag != f"{_WSDL}definitions":
        sources.warnings.add_at(INVALID, "not WSDL 1.1: the root must be `definitions`", path, 1)
        return None
    operations = tuple(_operations(root, path, sources))
    if not operations:
        return None
    return Contract(
        path=path,
        protocol=PROTOCOL,
        title=root.get("name", "")[:300],
        description=_documentation(root),
        operations=operations,
    )


def _operations(root: Element, path: str, sources: Sources) -> Iterator[ContractOperation]:
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
