"""Which backend runs a launch (reference: control-plane 4, 11.1)."""

from __future__ import annotations

import pytest

from apps.platform_settings.api import Backend, BackendUnavailable
from apps.platform_settings.domain.backends import BUILT_IN, BackendUnknown, choose

LOCAL = Backend(backend_id="local", label="Local Docker")
REMOTE = Backend(backend_id="far", label="Far Docker", type="remote-docker", host_url="tcp://far")
CLUSTER = Backend(backend_id="cluster", label="Cluster", type="kubernetes")
EDGE = Backend(backend_id="edge", label="Edge", type="remote-agent")
ALL = (LOCAL, REMOTE, CLUSTER, EDGE)


def default(backend: Backend) -> Backend:
    return Backend(backend_id=backend.backend_id, label="x", type=backend.type, default=True)


def pick(backends, requested="", *, mode="local", online=ALL):
    ids = {backend.backend_id for backend in online}

    def waits_for(backend):
        return "" if backend.backend_id in ids else f"{backend.label} sleeps"

    return choose(backends, requested, mode=mode, waits_for=waits_for).backend_id


def test_kinds_on_the_wire():
    assert [backend.kind for backend in ALL] == ["local", "local", "kubernetes", "remote-agent"]


def test_an_explicit_backend_ignores_the_mode():
    assert pick(ALL, "edge", mode="local") == "edge"


def test_an_explicit_backend_that_is_away_is_not_replaced():
    with pytest.raises(BackendUnavailable) as caught:
        pick(ALL, "edge", online=[LOCAL])

    assert caught.value.problem_code == "backend_unavailable"


def test_an_unknown_backend_names_the_known_ones():
    with pytest.raises(BackendUnknown, match="known: local, far, cluster, edge"):
        pick(ALL, "cloud")


@pytest.mark.parametrize("requested", ["", "auto"])
def test_the_default_wins_over_the_mode_and_the_order(requested):
    assert pick((LOCAL, default(EDGE)), requested, mode="local") == "edge"


@pytest.mark.parametrize(
    ("mode", "chosen"), [("local", "far"), ("remote", "cluster"), ("hybrid", "far")]
)
def test_without_an_available_default_the_mode_decides(mode, chosen):
    backends = (LOCAL, default(EDGE), REMOTE, CLUSTER)

    assert pick(backends, mode=mode, online=[REMOTE, CLUSTER]) == chosen


def test_nothing_that_the_mode_allows_is_available_and_every_backend_has_its_reason():
    with pytest.raises(BackendUnavailable) as caught:
        pick((LOCAL, EDGE), mode="remote", online=[LOCAL])

    assert caught.value.detail == (
        "no backend is available. local: it is available, but mode remote does not choose it by "
        "itself: name it. edge: Edge sleeps"
    )


def test_the_built_in_backend():
    assert (BUILT_IN.backend_id, BUILT_IN.label, BUILT_IN.kind, BUILT_IN.default) == (
        "local-docker",
        "Local Docker",
        "local",
        True,
    )
