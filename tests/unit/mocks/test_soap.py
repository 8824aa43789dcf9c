"""Calls of SOAP: the first element of the body, or the action, chooses the operation."""

from __future__ import annotations

import pytest

from tests.support.mocks import Mocks, mocks_of

WSDL = """<definitions xmlns="http://schemas.xmlsoap.org/wsdl/" name="Zoo" targetNamespace="urn:z">
<portType name="Zoo">
<operation name="GetPet"/><operation name="AddPet"/></portType></definitions>"""
FILES = {
    "api/zoo.wsdl": WSDL,
    "mock/zoo/GetPet.yaml": """examples: {a: {response: {body: "<got/>"}}}""",
    "mock/zoo/AddPet.yaml": """examples:
  full: {when: [{from: body, xpath: //name, value: Rex}], response: {status: "500", body: <Fault/>}}
  added: {response: {body: "<added>{{xPath(request.body, '//name')}}</added>"}}""",
}
ENVELOPE = '<s:Envelope xmlns:s="urn:s"><s:Body>{}</s:Body></s:Envelope>'


def zoo() -> Mocks:
    made = mocks_of(FILES)
    assert made.warnings == []
    return made


@pytest.mark.parametrize(
    ("headers", "body", "status", "answered"),
    [
        ({}, ENVELOPE.format("<z:GetPet xmlns:z='urn:z'/>"), 200, "<got/>"),
        ({}, ENVELOPE.format("<AddPet><name>Tom</name></AddPet>"), 200, "<added>Tom</added>"),
        ({}, ENVELOPE.format("<AddPetRequest><name>A</name></AddPetRequest>"), 200,
         "<added>A</added>"),
        ({}, ENVELOPE.format("<AddPet><name>Rex</name></AddPet>"), 500, "<Fault/>"),
        ({"SOAPAction": '"urn:z/GetPet"'}, "<other/>", 200, "<got/>"),
        ({"SOAPAction": '"urn:z#AddPet"'}, "", 200, "<added></added>"),
        ({"Content-Type": 'application/soap+xml; action="urn:z/GetPet"'}, "", 200, "<got/>"),
        ({"SOAPAction": "GetPet"}, ENVELOPE.format("<AddPet/>"), 200, "<added></added>"),
    ],
)  # fmt: skip
async def test_element_and_action_choose_the_operation(headers, body, status, answered):
    answer = await zoo().call("/", headers=headers, body=body.encode())
    assert (answer.status, answer.body.decode()) == (status, answered)


@pytest.mark.parametrize(
    ("media_type", "says"),
    [
        ("text/xml", "<faultcode>s:Client</faultcode>"),
        ("application/soap+xml; charset=utf-8", "<s:Value>s:Sender</s:Value>"),
    ],
)
async def test_an_unknown_operation_is_a_fault_that_lists_the_known_ones(media_type, says):
    body = ENVELOPE.format("<FeedPet/>").encode()
    answer = await zoo().call("/", headers={"content-type": media_type}, body=body)
    assert answer.status == 500
    assert answer.media_type == media_type.partition(";")[0]
    text = answer.body.decode()
    assert says in text
    assert 'there is no operation "FeedPet"; known: GetPet, AddPet' in text


@pytest.mark.parametrize("body", [b"", b"<a", b"\xff", b"<!DOCTYPE a><a/>", b"<Envelope><Body/>"])
async def test_a_body_that_is_no_envelope_is_a_fault(body):
    assert (await zoo().call("/", body=body)).status == 500
