"""Calls that follow an answer: what is sent, where it may go, and what the journal says of it."""

from __future__ import annotations

import asyncio
import json
from ipaddress import ip_network
from typing import Any

import pytest

from mocks.engine.documents import call_document
from mocks.journal.entries import encode_entry
from mocks.model.calls import JournalEntry
from mocks.model.ports import ProxyAnswer, ProxyFailed, ProxyRefused
from mocks.plane import callbacks
from mocks.proxies.guarded import GuardedProxy
from tests.support.http_site import http_site, reply
from tests.support.mock_planes import ChangingSource, Planes, content_of, files, planes
from tests.support.mocks import ProxyAnswers, mock_of

ORDER = """
examples:
  taken:
    response: {status: "202", body: {id: "{{request.body.id}}"}}
    callbacks:
      - url: "{{request.body.callbackUrl}}"
        headers: {X-Order: "{{request.body.id}}", Authorization: Bearer hunter2}
        body: {order: "{{request.body.id}}", answered: "{{response.body.id}}"}
"""
ASKED = {"id": "o-7", "callbackUrl": "http://partner.test/hook"}


def source(mock: str = ORDER) -> ChangingSource:
    made = ChangingSource()
    made.contents = {"orders": content_of(files(createOrder=mock))}
    return made


async def ordered(made: Planes, **asked: Any) -> JournalEntry:
    """Return the entry of the callback of an order, once it is kept."""
    answer = await made.ask("POST", "/mocks/rest/orders/orders/orders", json={**ASKED, **asked})
    assert (answer.status_code, answer.json()) == (202, {"id": "o-7"})
    async with asyncio.timeout(10):
        while True:
            entry = made.journal.newest("orders")[0]
            if entry.method == "CALLBACK":
                return entry
            await asyncio.sleep(0.01)


async def test_a_callback_is_sent_and_kept():
    proxy = ProxyAnswers()
    async with planes(source(), proxy=proxy) as made:
        entry = await ordered(made)
    (sent,) = proxy.sent
    assert (sent["method"], sent["url"]) == ("POST", ASKED["callbackUrl"])
    assert json.loads(sent["body"]) == {"order": "o-7", "answered": "o-7"}
    assert sent["headers"] == {
        "x-order": "o-7", "authorization": "Bearer hunter2", "content-type": "application/json",
    }  # fmt: skip
    assert "authorization" in sent["let"]
    document = call_document(entry)
    assert (document["method"], document["path"]) == ("CALLBACK", ASKED["callbackUrl"])
    assert (document["status"], document["outcome"]) == (299, "example")
    assert (document["operationId"], document["matchedExample"]) == ("createOrder", "taken")
    assert document["requestHeaders"]["authorization"] == "***"
    assert "detail" not in document


async def test_it_is_sent_early_calls_or_not():
    proxy = ProxyAnswers()
    async with planes(source(), proxy=proxy, asks_early=True) as made:
        await ordered(made)
        assert made.early.answered == 0


async def test_a_failure_is_told_in_the_journal_after_two_retries(monkeypatch):
    monkeypatch.setattr(callbacks, "RETRIES_AFTER_S", (0.0, 0.0))
    proxy = ProxyAnswers(ProxyFailed("partner.test cannot be reached"))
    async with planes(source(), proxy=proxy) as made:
        entry = await ordered(made)
    assert len(proxy.sent) == 3
    assert (entry.status, entry.outcome) == (0, "error")
    assert entry.detail == "partner.test cannot be reached"


@pytest.mark.parametrize(("status", "times"), [(503, 3), (404, 1), (204, 1)])
async def test_only_errors_of_the_server_are_tried_again(monkeypatch, status, times):
    monkeypatch.setattr(callbacks, "RETRIES_AFTER_S", (0.0, 0.0))
    proxy = ProxyAnswers(ProxyAnswer(status=status, media_type="", headers=(), body=b""))
    async with planes(source(), proxy=proxy) as made:
        entry = await ordered(made)
    assert (len(proxy.sent), entry.status) == (times, status)
    assert entry.outcome == ("error" if status == 503 else "example")
    assert entry.detail == ("answered with 503" if status == 503 else "")


@pytest.mark.parametrize("url", ["ftp://a/", "", "http://user@a/", 7, "http://169.254.169.254/"])
async def test_the_guard_refuses_addresses_once(url):
    async with planes(source(), proxy=GuardedProxy()) as made:
        entry = await ordered(made, callbackUrl=url)
    assert (entry.status, entry.outcome) == (0, "error")
    assert entry.detail


async def test_private_networks_are_reached_where_they_are_allowed():
    async with http_site({"*": reply(b"", status=204)}) as site:
        proxy = GuardedProxy(allowed=[ip_network("127.0.0.0/8")])
        async with planes(source(), proxy=proxy) as made:
            entry = await ordered(made, callbackUrl=f"{site.url}/hook?x=1")
        async with planes(source(), proxy=GuardedProxy()) as made:
            refused = await ordered(made, callbackUrl=f"{site.url}/hook")
    assert entry.status == 204
    (asked,) = site.asked
    assert (asked.method, asked.target) == ("POST", "/hook?x=1")
    assert json.loads(asked.body)["order"] == "o-7"
    assert "MOCK_PROXY_ALLOW_CIDRS" in refused.detail


async def test_a_callback_waits_for_its_delay_and_the_answer_does_not():
    late = ORDER + "        delay: 1s\n"
    proxy = ProxyAnswers()
    async with planes(source(late), proxy=proxy) as made:
        await made.ask("POST", "/mocks/rest/orders/orders/orders", json=ASKED)
        assert not proxy.sent
        async with asyncio.timeout(10):
            while not proxy.sent:  # noqa: ASYNC110 - a fake has no event
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("text", ["\u20ac\u00e9", "\ud800", "a\r\nX-Other: b", "\0"])
async def test_no_text_of_a_call_breaks_a_callback(text):
    async with http_site({"*": reply(b"", status=204)}) as site:
        proxy = GuardedProxy(allowed=[ip_network("127.0.0.0/8")])
        async with planes(source(), proxy=proxy) as made:
            asked = {"id": text, "callbackUrl": f"{site.url}/{text}"}
            content = json.dumps(asked).encode()
            await made.ask("POST", "/mocks/rest/orders/orders/orders", content=content)
            async with asyncio.timeout(10):
                while len(made.journal.newest("orders")) < 2:  # noqa: ASYNC110 - it has no event
                    await asyncio.sleep(0.01)
            entry = next(e for e in made.journal.newest("orders") if e.method == "CALLBACK")
    assert "internal error" not in entry.detail
    assert entry.status == 204 or entry.detail
    assert all("x-other" not in each.headers for each in site.asked)
    assert encode_entry(entry)


async def test_a_callback_that_cannot_be_made_is_told():
    proxy = ProxyAnswers(RuntimeError("a bug"))
    async with planes(source(), proxy=proxy) as made:
        entry = await ordered(made)
        assert entry.detail == "an internal error occurred; the log has it"
        huge = await made.ask("POST", "/mocks/rest/orders/orders/orders",
                              json={"id": "x" * 2**20, "callbackUrl": "http://a/"})  # fmt: skip
        assert huge.status_code == 202
        async with asyncio.timeout(10):
            while len(made.journal.newest("orders")) < 4:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.01)
        details = [each.detail for each in made.journal.newest("orders")]
        assert "a header of the answer has more than 16,384 characters" in details


async def test_too_many_that_wait_are_told(monkeypatch):
    monkeypatch.setattr(callbacks, "MAX_WAITING", 0)
    async with planes(source(), proxy=ProxyAnswers()) as made:
        entry = await ordered(made)
    assert entry.detail == "not sent: 0 callbacks wait already"


class _SlowProxy:
    """Counts what is sent at once, until it may answer."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.at_once = self.most = 0

    async def forward(self, _url: str, **_call: Any) -> ProxyAnswer:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await self.may_answer.wait()
        self.at_once -= 1
        return ProxyAnswer(status=204, media_type="", headers=(), body=b"")


async def test_callbacks_leave_places_to_fallbacks():
    proxy = _SlowProxy()
    async with planes(source(), proxy=proxy) as made:
        for _ in range(callbacks.AT_ONCE + 4):
            await made.ask("POST", "/mocks/rest/orders/orders/orders", json=ASKED)
        async with asyncio.timeout(10):
            while proxy.most < callbacks.AT_ONCE:  # noqa: ASYNC110 - a fake has no event
                await asyncio.sleep(0.01)
        proxy.may_answer.set()
        async with asyncio.timeout(10):
            while len(made.journal.newest("orders")) < 2 * (callbacks.AT_ONCE + 4):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert proxy.most == callbacks.AT_ONCE


async def test_mocks_that_call_each_other_end():
    """The header Via of a call goes on, and the guard refuses the fourth pass."""
    proxy = ProxyAnswers(ProxyRefused("they lead in a circle"))
    async with planes(source(), proxy=proxy) as made:
        via = {"Via": "1.1 partita-mock"}
        await made.ask("POST", "/mocks/rest/orders/orders/orders", json=ASKED, headers=via)
        while not proxy.sent:  # noqa: ASYNC110 - a fake has no event
            await asyncio.sleep(0.01)
    assert proxy.sent[0]["headers"]["via"] == "1.1 partita-mock"


async def test_explain_shows_them_and_sends_nothing():
    mocks = mock_of(
        "path: /pay, method: POST",
        "a: {response: {body: x}, callbacks: [{url: 'http://a/{{request.query.q}}', method: put}]}",
    )
    found = await mocks.explain("/pay?q=1")
    assert found["response"]["callbacks"] == [{"method": "PUT", "url": "http://a/1"}]
    assert not mocks.proxy.sent
