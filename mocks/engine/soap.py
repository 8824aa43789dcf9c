"""Calls of SOAP: the action or the first element of the body chooses the operation."""

from __future__ import annotations

import re
from html import escape
from typing import Final

from mocks.engine.tables import CompiledOperation
from mocks.model.calls import CallOutcome, MockAnswer, MockRequest
from surfaces.body_queries import parse_xml

_ENVELOPES: Final = {
    "1.1": "http://schemas.xmlsoap.org/soap/envelope/",
    "1.2": "http://www.w3.org/2003/05/soap-envelope",
}
_ACTION: Final = re.compile(r"""action\s*=\s*"?([^";]{1,500})""", re.IGNORECASE)
_MAX_LISTED: Final = 50


def find_soap_operation(
    first: CompiledOperation, request: MockRequest
) -> CompiledOperation | MockAnswer:
    """Return the operation that a call means, or the fault that lists the known ones.

    The name is the first element of the body, otherwise the end of the action.
    """
    listed = first.at_same_address
    if len(listed) == 1:
        return first
    wanted = [_element(request), _action(request)]
    names = {each.operation.name.rpartition(".")[2].casefold(): each for each in reversed(listed)}
    for word in wanted:
        for name in (word, word.removesuffix("Request")):
            if found := names.get(name.casefold()):
                return found
    known = ", ".join(each.operation.name.rpartition(".")[2] for each in listed[:_MAX_LISTED])
    shown = next(filter(None, wanted), "")[:200]
    return _fault(request, f'there is no operation "{shown}"; known: {known}')


def _element(request: MockRequest) -> str:
    """Return the name of the first element of the envelope's body, "" without one."""
    root = parse_xml(request.raw_body)
    body = root.find("Body") if root is not None else None
    return next((str(each.tag) for each in body), "") if body is not None else ""


def _action(request: MockRequest) -> str:
    """Return the last part of SOAPAction, or of `action` of the media type of SOAP 1.2."""
    action = request.headers.get("soapaction", "").strip(' "')
    if not action and (found := _ACTION.search(request.headers.get("content-type", ""))):
        action = found[1]
    return re.split(r"[/#:]", action.rstrip("/"))[-1]


def _fault(request: MockRequest, reason: str) -> MockAnswer:
    is_new = "application/soap+xml" in request.headers.get("content-type", "")
    version, text = ("1.2" if is_new else "1.1"), escape(reason, quote=False)
    fault = (
        f"<s:Code><s:Value>s:Sender</s:Value></s:Code>"
        f'<s:Reason><s:Text xml:lang="en">{text}</s:Text></s:Reason>'
        if is_new
        else f"<faultcode>s:Client</faultcode><faultstring>{text}</faultstring>"
    )
    body = (
        f'<s:Envelope xmlns:s="{_ENVELOPES[version]}"><s:Body><s:Fault>{fault}</s:Fault>'
        "</s:Body></s:Envelope>"
    )
    return MockAnswer(
        status=500,
        media_type="application/soap+xml" if is_new else "text/xml",
        body=body.encode(errors="replace"),
        outcome=CallOutcome.NO_MATCH,
    )
