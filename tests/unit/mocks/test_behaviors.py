"""Faults, delays, limits and callbacks of mock files (reference: control-plane 6.2, 6.3, 18.2)."""

from __future__ import annotations

import asyncio
import random
from statistics import median

import pytest

from surfaces import hydrate
from tests.support.mocks import mock_of, mocks_of

REST = "path: /pay, method: GET"


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("fault: resett", '"resett" is not a fault; did you mean reset?'),
        ("fault: CONNECTION_RESET_BY_PEER", "write reset"),
        ("fault: EMPTY_RESPONSE", "write empty"),
        ("fault: MALFORMED_RESPONSE_CHUNK", "write half"),
        ("fault: RANDOM_DATA_THEN_CLOSE", "write garbage"),
        ("fault: chunkedDribbleDelay", "write dribble: {chunks: 5, over: 1s}"),
        ("fault: dribble", "write dribble: {chunks: 5, over: 1s}"),
        ("fault: {dribbel: {chunks: 5}}", "did you mean dribble?"),
        ("fault: {dribble: {chunks: 5, in: 1s}}", 'dribble has no key "in"; known: chunks, over'),
        ("fault: {dribble: {chunks: 0, over: 1s}}", "chunks must be an integer from 1 to 1000"),
        ("fault: {dribble: {chunks: 5}}", "over: ''"),
        ("fault: {dribble: {chunks: 5, over: 2m}}", "over must be from 0 ms to 60000 ms"),
        ("fault: [reset]", '"" is not a fault'),
        ("delay: 200", "delay needs a unit, as in 200ms or 200s"),
        ("delay: soon", "delay: 'soon': expected a duration such as 500ms"),
        ("delay: 2m", "delay must be from 0 ms to 60000 ms"),
        ("delay: {unifrom: [1s, 2s]}", "did you mean uniform?"),
        ("delay: {uniform: [2s, 1s]}", "uniform is a list: [lowest, highest]"),
        ("delay: {uniform: 1s}", "uniform is a list: [lowest, highest]"),
        ("delay: {uniform: [1s, 2s], fixed: 1s}", "one of fixed, uniform and lognormal"),
        ("delay: {}", "one of fixed, uniform and lognormal"),
        ("delay: {lognormal: {sigma: 0.4}}", "median: ''"),
        ("delay: {lognormal: {median: 80ms, sigma: 9}}", "sigma must be above 0 and at most 5"),
        ("delay: {lognormal: {median: 80ms, sigma: nan}}", "sigma must be above 0 and at most 5"),
        ("delay: {fixed: 1s}, delayMillis: 5", "use one of delayMillis and delay"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(spec, says):
    for path, text, code in (
        ("mock/a/b.metadata.yaml", f"spec:\n  {{path: /b, {spec}}}\n", "mock_metadata_invalid"),
        ("mock/a/b.yaml", f"examples:\n  a: {{response: {{{spec}}}}}\n", "mock_examples_invalid"),
    ):
        (warning,) = hydrate({path: text.encode()}, suite_id="s", base_url="").warnings
        assert (warning.code, warning.file, warning.line) == (code, path, 2)
        assert says in warning.detail


@pytest.mark.parametrize(
    ("spec", "response", "delay_ms"),
    [
        ("delayMillis: 5", "", 5),
        ("delayMillis: 5", "delayMillis: 7", 7),
        ("delayMillis: 5", "delay: 0ms", 0),
        ("delay: 1s", "", 1000),
        ("delay: {fixed: 200ms}", "", 200),
        ("", "delay: {fixed: 200ms}", 200),
        ("fault: reset", "delay: 1m", 60_000),
    ],
)
async def test_an_example_waits_as_it_says_itself_otherwise_as_the_operation(
    spec, response, delay_ms
):
    mocks = mock_of(f"{REST}, {spec}", f"a: {{response: {{body: x, {response}}}}}")
    assert (await mocks.call("/pay")).delay_ms == delay_ms


@pytest.mark.parametrize(
    ("spec", "response", "fault"),
    [("fault: half", "", "half"), ("fault: half", "fault: reset", "reset"),
     ("", "fault: {dribble: {chunks: 2, over: 1s}}", "dribble"), ("", "", None)],
)  # fmt: skip
async def test_an_example_breaks_as_it_says_itself_otherwise_as_the_operation(
    spec, response, fault
):
    mocks = mock_of(f"{REST}, {spec}", f"a: {{response: {{body: x, {response}}}}}")
    found = (await mocks.call("/pay")).fault
    assert (found and found.kind) == fault


@pytest.mark.parametrize("fallback", ["{status: '404', body: x}", "{proxyUrl: 'http://up/'}"])
async def test_a_fault_of_the_operation_is_one_of_its_fallback(fallback):
    answer = await mock_of(f"{REST}, fault: empty, fallback: {fallback}", "").call("/pay")
    assert answer.fault is not None
    assert answer.fault.kind == "empty"


async def test_a_refusal_is_never_broken():
    spec = f"{REST}, fault: reset, parameterConstraints: [{{name: q, required: true}}]"
    answer = await mock_of(spec, "a: {response: {body: x}}").call("/pay")
    assert (answer.error_code, answer.fault) == ("mock_constraint_failed", None)


@pytest.mark.parametrize("where", ["spec", "response"])
async def test_uniform_delays_are_between_their_bounds(where):
    delay = "delay: {uniform: [100ms, 300ms]}"
    spec, response = (delay, "") if where == "spec" else ("", delay)
    mocks = mock_of(f"{REST}, {spec}", f"a: {{response: {{body: x, {response}}}}}")
    drawn = [(await mocks.call("/pay")).delay_ms for _ in range(300)]
    assert 100 <= min(drawn) < 110
    assert 290 < max(drawn) <= 300


async def test_lognormal_delays_have_their_median_and_an_end():
    spec = f"{REST}, delay: {{lognormal: {{median: 80ms, sigma: 0.4}}}}"
    mocks = mock_of(spec, "a: {response: {body: x}}")
    drawn = [(await mocks.call("/pay")).delay_ms for _ in range(500)]
    assert 72 < median(drawn) < 88
    assert min(drawn) < 45
    assert max(drawn) > 140
    wild = mock_of(spec.replace("0.4", "5").replace("80ms", "60s"), "a: {response: {body: x}}")
    assert max([(await wild.call("/pay")).delay_ms for _ in range(50)]) == 60_000


async def test_delays_are_those_of_the_seed():
    async def draw(seed: int) -> list[int]:
        spec = f"{REST}, delay: {{uniform: [0ms, 60s]}}"
        mocks = mock_of(spec, "a: {response: {body: x}}", seed=seed)
        return [(await mocks.call("/pay")).delay_ms for _ in range(5)]

    assert await draw(1) == await draw(1)
    assert await draw(1) != await draw(2)


async def test_explain_says_fault_and_range():
    mocks = mock_of(
        f"{REST}, delay: {{uniform: [1s, 2s]}}", "a: {response: {body: x, fault: half}}"
    )
    response = (await mocks.explain("/pay"))["response"]
    assert response["delay"] == {"lowestMillis": 1000, "highestMillis": 2000}
    assert 1000 <= response["delayMillis"] <= 2000
    assert response["fault"] == {"kind": "half"}


def test_surfaces_show_faults_and_delays():
    files = {
        "mock/a/b.metadata.yaml": b"spec: {path: /b, fault: reset, delay: {uniform: [1s, 2s]}}",
        "mock/a/b.yaml": b"examples: {x: {response: {delayMillis: 5, fault: {dribble: "
        b"{chunks: 2, over: 1s}}}}}",
    }
    (surface,) = hydrate(files, suite_id="s", base_url="").documents
    (operation,) = surface["operations"]
    mock, (exchange,) = operation["mockMetadata"], operation["exchanges"]
    assert mock["fault"] == {"kind": "reset"}
    assert mock["delay"] == {"lowestMillis": 1000, "highestMillis": 2000}
    assert exchange["delay"] == {"lowestMillis": 5, "highestMillis": 5}
    assert exchange["fault"] == {"kind": "dribble", "chunks": 2, "overMillis": 1000}


@pytest.mark.parametrize(
    ("limit", "says"),
    [
        ("10", "rateLimit is a mapping: {calls: 10, per: 1s}"),
        ("{calls: 10, pre: 1s}", 'rateLimit has no key "pre"; did you mean per?'),
        ("{calls: 0, per: 1s}", "calls must be an integer from 1 to 1000000"),
        ("{calls: 5, per: 1}", "per needs a unit, as in 1ms or 1s"),
        ("{calls: 5, per: 2h}", "per must be from 1 ms to 3600000 ms"),
    ],
)
def test_what_is_wrong_with_a_rate_limit_is_said(limit, says):
    for kind in ("MockOperation", "MockSurface"):
        text = f"kind: {kind}\nspec:\n  rateLimit: {limit}\n"
        files = {"mock/a/b.metadata.yaml": text.encode()}
        (warning,) = hydrate(files, suite_id="s", base_url="").warnings
        assert (warning.code, warning.line) == ("mock_metadata_invalid", 3)
        assert says in warning.detail


async def test_calls_beyond_the_limit_wait_for_the_next_window():
    mocks = mock_of(f"{REST}, rateLimit: {{calls: 2, per: 1m}}", "a: {response: {body: x}}")
    answers = [await mocks.call("/pay") for _ in range(4)]
    assert [each.status for each in answers] == [200, 200, 429, 429]
    refused = answers[2]
    assert (refused.error_code, refused.detail) == (
        "mock_rate_limited",
        "more than 2 calls in 60 s",
    )
    assert dict(refused.headers) == {"Retry-After": "60"}
    assert (mocks.state.fields("rateLimit:payments/pay") or {})["calls"] == "2"

    await mocks.state.reset("shop")
    assert (await mocks.call("/pay")).status == 200


async def test_a_window_that_is_over_counts_no_more():
    mocks = mock_of(f"{REST}, rateLimit: {{calls: 1, per: 1ms}}", "a: {response: {body: x}}")
    assert (await mocks.call("/pay")).status == 200
    await asyncio.sleep(0.005)
    assert (await mocks.call("/pay")).status == 200


@pytest.mark.parametrize("until", ["", "soon", "9" * 15, "9" * 30, "-1"])
async def test_a_count_that_people_changed_begins_anew(until):
    mocks = mock_of(f"{REST}, rateLimit: {{calls: 1, per: 1m}}", "a: {response: {body: x}}")
    fields = {"calls": "1", "until": until}
    key = "rateLimit:payments/pay"
    await mocks.state.change("shop", key, "payments", version=0, fields=fields)
    assert [(await mocks.call("/pay")).status for _ in range(2)] == [200, 429]


async def test_calls_at_once_are_never_more_than_the_limit():
    mocks = mock_of(f"{REST}, rateLimit: {{calls: 7, per: 1m}}", "a: {response: {body: x}}")
    mocks.state.races = random.Random(3)
    answers = await asyncio.gather(*(mocks.call("/pay") for _ in range(40)))
    assert sorted(each.status for each in answers) == [200] * 7 + [429] * 33


async def test_operations_of_a_surface_share_its_limit():
    mocks = mocks_of(
        {
            "mock/shop/all.metadata.yaml": "kind: MockSurface\n"
            "spec: {rateLimit: {calls: 3, per: 1m}}",
            "mock/shop/a.metadata.yaml": "spec: {path: /a, rateLimit: {calls: 1, per: 1m}}",
            "mock/shop/b.metadata.yaml": "spec: {path: /b}",
            "mock/shop/a.yaml": "examples: {a: {response: {body: x}}}",
            "mock/shop/b.yaml": "examples: {b: {response: {body: x}}}",
        }
    )
    assert mocks.warnings == []
    assert [(await mocks.call(path)).status for path in ("/a", "/a", "/b", "/b", "/b")] == [
        200, 429, 200, 200, 429,
    ]  # fmt: skip


async def test_explain_counts_nothing():
    mocks = mock_of(f"{REST}, rateLimit: {{calls: 1, per: 1m}}", "a: {response: {body: x}}")
    for _ in range(3):
        assert (await mocks.explain("/pay"))["response"]["status"] == 200
    assert (await mocks.call("/pay")).status == 200
    assert (await mocks.explain("/pay"))["error"]["code"] == "mock_rate_limited"


@pytest.mark.parametrize(
    ("callbacks", "says"),
    [
        ("soon", "a callback is a mapping: {url: …, method: POST, body: …}"),
        ("[{body: x}]", "the url of a callback begins with http:// or https://"),
        ("[{url: 'ftp://a/'}]", "the url of a callback begins with http:// or https://"),
        ("[{ulr: 'http://a/'}]", "did you mean url?"),
        ("[{url: 'http://a/', method: CONNECT}]", '"CONNECT" is not a method of a callback'),
        ("[{url: 'http://a/', method: 'A B'}]", '"A B" is not a method of a callback'),
        ("[{url: 'http://a/{{request.pth.id}}'}]", "request.pth"),
        ("[{url: 'http://a/', body: {a: '{{nothing(1)}}'}}]", 'there is no function "nothing"'),
        ("[{url: 'http://a/', body: {a: \"{{counter('a')}}\"}}]", "a callback has no counter"),
        ("[{url: 'http://a/', delay: 5}]", "delay needs a unit"),
        (f"[{', '.join(['{url: http://a/}'] * 11)}]", "more than 10 callbacks"),
    ],
)
def test_what_is_wrong_with_a_callback_is_said(callbacks, says):
    text = f"examples:\n  a: {{response: {{body: x}},\n    callbacks: {callbacks}}}\n"
    (warning,) = hydrate({"mock/a/b.yaml": text.encode()}, suite_id="s", base_url="").warnings
    assert (warning.code, warning.line) == ("mock_examples_invalid", 3)
    assert says in warning.detail
