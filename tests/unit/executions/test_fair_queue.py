"""The queue of places: limits, fairness, and forecasts, in simulations and by a model."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.executions.domain.fair_share import (
    Account,
    Happened,
    Occupant,
    account_of,
    add_given,
    settle_account,
)
from apps.executions.domain.place_queue import (
    PlaceLimits,
    PlaceQueue,
    Waiter,
    WaitKind,
    turns,
    wait_of,
)
from apps.executions.domain.queue_forecast import Durations, expected_starts, start_interval
from apps.executions.domain.queue_words import start_phrase, wait_phrase
from tests.unit.executions.queue_simulation import Arrival, Simulation, alone, steady

ARRIVALS = 10_000
FLOOD = 500


def floods(rng: random.Random, count: int, places: int) -> list[Arrival]:
    """Arrivals of 500 at once, again and again, with pauses between them."""
    at, made = 0.0, list[Arrival]()
    while len(made) < count:
        for _ in range(min(FLOOD, count - len(made))):
            made.append(Arrival(f"flood-{len(made)}", at, "flood", rng.gammavariate(4, 2.5)))
        at += FLOOD * 10 / places * rng.uniform(1.2, 2.2)
    return made


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "places"), [(2, 1), (1, 4)])
def test_a_flood_delays_others_by_no_more_than_their_share_and_one_longest_step(
    seed: int, places: int
) -> None:
    """10,000 arrivals of two workspaces, one of which floods with 500 at once."""
    rng = random.Random(seed)
    other = steady(rng, "other", ARRIVALS // 2, every_s=10 / (0.42 * places), mean_s=10)
    everyone = [*other, *floods(rng, ARRIVALS // 2, places)]
    played = Simulation(PlaceLimits(backends={"b": places}))

    played.play(everyone)

    slow_down = 2 if places == 1 else 1  # half of one place: one place at half speed
    shared = [Arrival(each.key, each.at, "other", each.lasts * slow_down) for each in other]
    of_its_share = alone(shared, max(1, places // 2))
    longest = max(each.lasts for each in everyone)
    worst = max(played.wait(each.key) - of_its_share[each.key] for each in other)
    assert worst <= longest
    assert played.idle_while_waiting == 0


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "places"), [(1, 2)])
def test_four_of_five_runs_start_in_the_interval_that_was_forecast(seed: int, places: int) -> None:
    rng = random.Random(seed)
    short = steady(rng, "a", 3_334, every_s=10 / (0.5 * places), mean_s=10, kind="short")
    long = steady(rng, "b", 1_666, every_s=20 / (0.42 * places), mean_s=20, kind="long")
    played = Simulation(PlaceLimits(backends={"b": places}), forecast_each=2)

    played.play([*short, *long])

    assert len(played.intervals) > 1_000
    assert 0.76 <= played.coverage(skip=100) <= 0.84


@pytest.mark.parametrize(("weights", "places"), [({"a": 3, "b": 1}, 1), ({"a": 3, "b": 1}, 5)])
def test_two_that_always_have_work_get_time_by_their_weights(
    weights: dict[str, int], places: int
) -> None:
    rng = random.Random(7)
    both = [
        Arrival(f"{each}-{index}", 0.0, each, rng.uniform(1, mean))
        for each, mean in (("a", 4), ("b", 40))
        for index in range(1_000)
    ]
    played = Simulation(PlaceLimits(backends={"b": places}, weights=weights))

    played.play(both, until=2_000 / places)

    assert played.served["a"] / played.served["b"] == pytest.approx(3, rel=0.1)


def test_who_was_alone_for_long_owes_nothing_to_who_comes() -> None:
    alone_first = [Arrival(f"a-{index}", 0.0, "a", 10) for index in range(300)]
    late = [Arrival(f"b-{index}", 1_000.0, "b", 10) for index in range(100)]
    played = Simulation(PlaceLimits(backends={"b": 1}))

    played.play([*alone_first, *late])

    first_hundred = sorted(played.started, key=played.started.__getitem__)[100:200]
    assert Counter(each[0] for each in first_hundred) == {"a": 50, "b": 50}


durations = st.floats(0.1, 50, allow_nan=False)
arrivals = st.lists(
    st.tuples(st.floats(0, 100), st.sampled_from("abc"), st.sampled_from(["x", "y"]), durations),
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(
    arrivals,
    st.integers(0, 4),
    st.dictionaries(st.sampled_from(["x", "y"]), st.integers(0, 3)),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 3)),
    st.dictionaries(st.sampled_from("abc"), st.integers(1, 5)),
)
def test_no_limit_is_passed_no_place_is_idle_and_everybody_starts(
    given_arrivals: list[tuple[float, str, str, float]],
    total: int,
    by_backend: dict[str, int],
    by_workspace: dict[str, int],
    weights: dict[str, int],
) -> None:
    limits = PlaceLimits(total=total, backends=by_backend, workspaces=by_workspace, weights=weights)
    each = [
        Arrival(str(index), at, workspace, lasts, backend)
        for index, (at, workspace, backend, lasts) in enumerate(given_arrivals)
    ]
    played = Simulation(limits)

    played.play(each)

    assert len(played.started) == len(each)
    assert played.idle_while_waiting == 0
    assert not total or played.most_at_once["total"] <= total
    assert all(
        not limit or played.most_at_once[workspace] <= limit
        for workspace, limit in by_workspace.items()
    )
    assert all(
        not limit or played.most_at_once[f"backend {backend}"] <= limit
        for backend, limit in by_backend.items()
    )


def waiting(key: str, workspace: str = "a", **facts: object) -> Waiter:
    return Waiter(**{"key": key, "workspace": workspace, "backend": "b", "since": 0.0, **facts})  # type: ignore[arg-type]  # facts of a candidate


def test_one_of_a_concurrency_group_has_a_place_at_a_time() -> None:
    both = [waiting("1", group="g"), waiting("2", group="g", since=1.0), waiting("3", since=2.0)]

    assert [each.key for each in PlaceQueue(both, [], PlaceLimits(), {}).take_all()] == ["1", "3"]


def test_a_limit_that_was_lowered_gives_no_place_until_enough_are_free() -> None:
    held = [Occupant(str(index), "a", "b", 0.0) for index in range(3)]

    assert not list(PlaceQueue([waiting("x")], held, PlaceLimits(backends={"b": 2}), {}).take_all())
    assert list(PlaceQueue([waiting("x")], held[:1], PlaceLimits(backends={"b": 2}), {}).take_all())


def test_of_each_backend_the_workspaces_that_may_have_a_place_come_in_their_turns() -> None:
    queue = PlaceQueue(
        [
            *[waiting(f"full{index}", backend="x") for index in range(100)],
            waiting("busy", "a", backend="y"),
            waiting("young", "b", backend="y", since=2.0),
            waiting("old", "c", backend="y", since=1.0),
            waiting("limited", "d", backend="y"),
        ],
        [Occupant("1", "a", "x", 0.0), Occupant("2", "d", "z", 0.0)],
        PlaceLimits(backends={"x": 1}, workspaces={"d": 1}),
        {"y": Account(tags={"a": 5.0})},
    )

    assert queue.first_lanes(2) == [("y", "c"), ("y", "b")]
    assert queue.first_lanes(9) == [("y", "c"), ("y", "b"), ("y", "a")]


def test_turns_alternate_between_workspaces_that_are_level() -> None:
    queue = [waiting("a1"), waiting("a2", since=1.0), waiting("b1", "b", since=2.0)]

    assert turns(queue, {}, {}) == ["a1", "b1", "a2"]


def test_an_account_survives_the_store() -> None:
    account = settle_account(
        Account(),
        Happened(occupants=[Occupant("k", "a", "b", 5.0)], ended={}, waiting={"b": 0.0}),
        now=9.0,
        weights={},
    )

    assert account_of(account.as_json()) == account
    assert account_of({}) == Account()


def test_a_place_that_ends_is_charged_once_and_to_its_end() -> None:
    place = Occupant("k", "a", "b", 0.0)
    account = add_given({}, [place])["b"]
    waits = {"a": 0.0}
    held = Happened(occupants=[place], ended={}, waiting=waits)
    half = settle_account(account, held, now=4.0, weights={"a": 2})
    gone = Happened(occupants=[], ended={"k": 6.0}, waiting=waits)
    full = settle_account(half, gone, now=9.0, weights={"a": 2})

    assert (half.tags["a"], full.tags["a"]) == (2.0, 3.0)


def test_what_is_waited_for_names_only_workspaces_that_may_be_seen() -> None:
    held = [Occupant("1", "a", "b", 0.0), Occupant("2", "c", "b", 0.0)]
    wait = wait_of(waiting("x"), held, PlaceLimits(backends={"b": 2}))

    assert wait.kind is WaitKind.BACKEND
    phrases = [
        wait_phrase(wait, backend="gpu", workspace="a", names=names)
        for names in ({}, {"a": "Team A", "c": "Team C"})
    ]
    assert phrases == [
        "2 of 2 places of backend gpu are used by its workspace and another workspace",
        "2 of 2 places of backend gpu are used by Team A and Team C",
    ]


def test_a_group_and_a_workspace_are_waited_for_in_words() -> None:
    grouped = wait_of(waiting("x", group="g"), [], PlaceLimits(), {("a", "g")})
    full = wait_of(waiting("x"), [Occupant("1", "a", "z", 0.0)], PlaceLimits(workspaces={"a": 1}))
    words = [
        wait_phrase(each, backend="gpu", workspace="a", names={}, group_holder="run-1")
        for each in (grouped, full)
    ]

    assert words == [
        "run-1 of its concurrency group has not ended",
        "1 of 1 places of its workspace is used",
    ]


def test_a_forecast_waits_for_the_places_that_end_first() -> None:
    held = [Occupant("1", "a", "b", 0.0), Occupant("2", "a", "b", 5.0)]
    starts = expected_starts(
        [waiting("x"), waiting("y", since=1.0)],
        held,
        PlaceLimits(backends={"b": 2}),
        {},
        now=10.0,
        kinds={},
        durations=Durations(by_kind={"": [20.0]}),
    )

    assert starts == {"x": 10.0, "y": 15.0}


def test_an_interval_widens_with_what_was_wrong_before() -> None:
    exact = start_interval(100, [1.0] * 200)
    wrong = start_interval(100, [0.5, 2.0] * 100)

    assert exact == (100.0, 100.0)
    assert wrong == (49.5, 201.0)
    assert start_phrase(*wrong) == "in 0 to 4 min"
