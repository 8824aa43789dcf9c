"""Misspelled names in WSDL 1.1 and the schemas in it, and references to what is not declared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final
from xml.etree.ElementTree import Element

from readers.diagnostics import nearest_name

MAX_PROBLEMS: Final = 50
WSDL: Final = "http://schemas.xmlsoap.org/wsdl/"
_XSD: Final = "http://www.w3.org/2001/XMLSchema"
_SOAP: Final = ("http://schemas.xmlsoap.org/wsdl/soap/", "http://schemas.xmlsoap.org/wsdl/soap12/")
_LIKE: Final = 0.75
_MAX_COMPARED: Final = 500  # names that may be meant
_OF_SOAP: Final = (
    "binding operation body fault header headerfault address",
    """transport style soapAction soapActionRequired use location namespace encodingStyle parts part
    message name""",
)
# Elements and attributes of each namespace.
_NAMES: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    namespace: (tuple(elements.split()), tuple(attributes.split()))
    for namespace, (elements, attributes) in {
        WSDL: (
            """definitions import types message part portType operation input output fault binding
            service port documentation""",
            """name targetNamespace namespace location element type message parameterOrder binding
            schemaLocation""",
        ),
        _XSD: (
            """schema element complexType simpleType complexContent simpleContent sequence all
            choice any anyAttribute attribute attributeGroup group restriction extension enumeration
            pattern length minLength maxLength minInclusive maxInclusive minExclusive maxExclusive
            totalDigits fractionDigits whiteSpace list union import include redefine annotation
            documentation appinfo key keyref unique selector field notation""",
            """name type ref base value minOccurs maxOccurs nillable default fixed use form
            elementFormDefault attributeFormDefault targetNamespace namespace schemaLocation
            processContents abstract mixed substitutionGroup id block final blockDefault
            finalDefault version itemType memberTypes source xpath refer public system""",
        ),
        **dict.fromkeys(_SOAP, _OF_SOAP),
    }.items()
}
_XSD_TYPES: Final = tuple(
    """string boolean decimal float double duration dateTime time date gYearMonth gYear gMonthDay
    gDay gMonth hexBinary base64Binary anyURI QName NOTATION normalizedString token language NMTOKEN
    NMTOKENS Name NCName ID IDREF IDREFS ENTITY ENTITIES integer nonPositiveInteger negativeInteger
    long int short byte nonNegativeInteger unsignedLong unsignedInt unsignedShort unsignedByte
    positiveInteger anyType anySimpleType""".split()  # noqa: SIM905
)
Problem = tuple[str, Element | str]  # or a text, where it stands first


def wsdl_problems(root: Element, prefixes: Mapping[str, str]) -> Iterator[Problem]:
    """Yield what is wrong in a WSDL document and the element; `prefixes` are of namespaces."""
    return islice(_Wsdl(root, prefixes).problems(), MAX_PROBLEMS)


class _Wsdl:
    def __init__(self, root: Element, prefixes: Mapping[str, str]) -> None:
        self.root = root
        self.prefixes = prefixes
        self.imports = any(_split(each)[1] in ("import", "include") for each in root.iter())
        self.said: set[str] = set()
        self.declared: dict[tuple[str, ...], frozenset[str]] = {}
        operations = root.iterfind(f"{{{WSDL}}}portType/{{{WSDL}}}operation")
        self.of_ports = {each for operation in operations for each in operation}

    def problems(self) -> Iterator[Problem]:
        for element in self.root.iter():
            namespace, name = _split(element)
            if namespace not in _NAMES:
                yield from self._unknown_namespace(element, namespace)
                continue
            elements, attributes = _NAMES[namespace]
            if name not in elements and (near := nearest_name(name, elements, least=_LIKE)):
                yield f"there is no element {name[:80]}; did you mean {near}?", element
            for each in sorted(set(element.keys()) - set(attributes)):
                near = "" if "}" in each else nearest_name(each, attributes, least=_LIKE)
                if near:
                    yield f"{name} has no attribute {each[:80]}; did you mean {near}?", element
            yield from self._references(element, namespace, name)

    def _unknown_namespace(self, element: Element, namespace: str) -> Iterator[Problem]:
        near = nearest_name(namespace[-40:], {each[-40:]: each for each in _NAMES}, least=0.9)
        if near and namespace not in self.said:
            self.said.add(namespace)
            known = next(each for each in _NAMES if each.endswith(near))
            yield f"the namespace {namespace[:200]} is not known; did you mean {known}?", namespace

    def _references(self, element: Element, namespace: str, name: str) -> Iterator[Problem]:
        """Yield the attributes that name something which nothing declares."""
        if namespace == WSDL:
            wanted = {
                ("input", "message"): "message", ("output", "message"): "message",
                ("fault", "message"): "message", ("binding", "type"): "portType",
                ("port", "binding"): "binding",
            }  # fmt: skip
            for (owner, attribute), kind in wanted.items():
                if owner == name and (written := element.get(attribute)):
                    known = self._names(f"{{{WSDL}}}{kind}")
                    yield from self._reference(written, known, kind, element)
            if (
                name in ("input", "output")
                and not element.get("message")
                and element in self.of_ports
            ):
                yield f"{name} must have message", element
            if name == "operation" and not element.get("name"):
                yield "operation must have name", element
        for attribute in ("type", "element", "base", "ref"):
            if (namespace == WSDL and name != "part") or not (written := element.get(attribute)):
                continue
            yield from self._schema_reference(written, attribute, element)

    def _names(self, *tags: str) -> frozenset[str]:
        """Return the names that elements of some tags declare, looked up once."""
        if tags not in self.declared:
            found = (each.get("name", "") for tag in tags for each in self.root.iter(tag))
            self.declared[tags] = frozenset(found)
        return self.declared[tags]

    def _schema_reference(
        self, written: str, attribute: str, element: Element
    ) -> Iterator[Problem]:
        prefix, _, local = written.rpartition(":")
        if self.prefixes.get(prefix) == _XSD:
            if attribute in ("type", "base") and local not in _XSD_TYPES:
                near = nearest_name(local, _XSD_TYPES)
                advice = f"; did you mean {prefix}:{near}?" if near else ""
                yield f'"{written[:80]}" is not a type of XML Schema{advice}', element
            return
        kinds: tuple[str, ...] = {
            "element": ("element",),
            "ref": ("element", "group", "attribute", "attributeGroup"),
        }.get(attribute, ("complexType", "simpleType"))
        known = self._names(*(f"{{{_XSD}}}{kind}" for kind in kinds))
        yield from self._reference(written, known, attribute, element)

    def _reference(
        self, written: str, known: frozenset[str], kind: str, element: Element
    ) -> Iterator[Problem]:
        prefix, _, local = written.rpartition(":")
        if prefix and prefix not in self.prefixes:
            near = nearest_name(prefix, self.prefixes)
            advice = f"; did you mean {near}?" if near else ""
            yield f'the prefix of "{written[:80]}" is not declared{advice}', element
        elif local not in known:
            near = nearest_name(local, islice(sorted(known), _MAX_COMPARED))
            advice = f"; did you mean {near}?" if near else ""
            if near or not self.imports:
                yield f'no {kind} is called "{written[:80]}"{advice}', element


def syntax_advice(text: str, line: int, column: int, opened: str, prefixes: Iterable[str]) -> str:
    """Return what is said behind a reason of the parser: what is open, which prefix is like.

    `line` and `column` are those of the parser, `opened` is the name of the innermost open element.
    """
    rest = text.split("\n")[line - 1 : line]
    found = re.match(r"</?([\w.-]+):", rest[0][column:]) if rest else None
    if found and not rest[0][column:].startswith("</"):
        near = nearest_name(found[1], prefixes)
        return f' "{found[1][:80]}"; did you mean {near}?' if near else f' "{found[1][:80]}"'
    return f"; {opened[:80]} is open" if opened else ""


def is_known(tag: str) -> bool:
    namespace, _, name = tag.removeprefix("{").rpartition("}")
    return namespace not in _NAMES or name in _NAMES[namespace][0]


def _split(element: Element) -> tuple[str, str]:
    """Return namespace and local name of an element."""
    namespace, _, name = str(element.tag).removeprefix("{").rpartition("}")
    return namespace, name
