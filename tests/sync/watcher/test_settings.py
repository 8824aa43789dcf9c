"""The watcher's environment, and its three routes."""

from __future__ import annotations

import httpx
import pytest

from sync_stack.configuration.startup import StartRefused
from sync_stack.rpc.readiness import Health
from sync_stack.watcher.conf import read_settings
from sync_stack.watcher.process import AdminApp, AdminListener


def test_the_defaults_are_the_documented_ones():
    made = read_settings({})
    assert made.admin == ("", 9091)
    assert (made.orchestrator, made.app_env) == ("localhost:50051", "development")
    assert (made.poll_interval_s, made.heal_timeout_s, made.heal_task_timeout_s) == (60, 30, 300)
    assert (made.concurrency, made.log_values) == (4, False)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"APP_ENV": "production"}, "GRPC_TLS_CERT and GRPC_TLS_KEY: required"),
        ({"GRPC_TLS_CERT": "x.crt"}, "GRPC_TLS_KEY: required"),
        ({"GRPC_TLS_CA": "ca.crt"}, "GRPC_TLS_CERT and GRPC_TLS_KEY: required"),
        ({"POLL_INTERVAL": "soon"}, "POLL_INTERVAL='soon'"),
        ({"POLL_INTERVAL": "0"}, "POLL_INTERVAL"),
        ({"ADMIN_ADDR": "9091"}, "ADMIN_ADDR"),
        ({"ADMIN_ADDR": ":99999"}, "ADMIN_ADDR"),
        ({"WATCHER_CONCURRENCY": "0"}, "WATCHER_CONCURRENCY"),
        ({"DRIFT_LOG_VALUES": "perhaps"}, "DRIFT_LOG_VALUES"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_starts(variables, said):
    """Sync invariant 26."""
    with pytest.raises(StartRefused) as refusal:
        read_settings(variables)
    assert any(said in line for line in refusal.value.lines)
    assert refusal.value.exit_code == 78


def test_all_that_is_wrong_is_said_at_once():
    with pytest.raises(StartRefused) as refusal:
        read_settings({"APP_ENV": "prod", "POLL_INTERVAL": "x", "HEAL_TIMEOUT": "y"})
    assert len(refusal.value.lines) == 3


def test_a_follower_is_ready_and_a_watcher_without_orchestrator_is_not():
    seconds = [0.0]
    health = Health(lambda: ["the store cannot be used"], lambda: seconds[0])
    app = AdminApp(lambda: (*health.state(), False, 3), lambda: b"# metrics\n")
    listener = AdminListener(app, ("127.0.0.1", 0))
    listener.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{listener.port}") as client:
            assert client.get("/health/liveness").json() == {"status": "ok"}
            unready = client.get("/health/readiness")
            assert (unready.status_code, unready.json()["status"]) == (503, "NOT_READY")
            assert "has not responded yet" in unready.json()["detail"]

            health.record(ready=True)
            ready = client.get("/health/readiness")
            assert ready.status_code == 200
            assert ready.json() == {
                "status": "READY",
                "leader": False,
                "targets": 3,
                "detail": "the store cannot be used",
            }
            seconds[0] = 5.1
            assert client.get("/health/readiness").status_code == 503

            metrics = client.get("/metrics")
            assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
            assert client.get("/other").status_code == 404
            refused = client.post("/metrics")
            assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")
            assert client.head("/health/liveness").content == b""
    finally:
        listener.stop()


def test_an_address_in_use_is_exit_code_69():
    first = AdminListener(AdminApp(lambda: (True, "", False, 0), lambda: b""), ("127.0.0.1", 0))
    with pytest.raises(StartRefused) as refusal:
        AdminListener(
            AdminApp(lambda: (True, "", False, 0), lambda: b""), ("127.0.0.1", first.port)
        )
    first._socket.close()
    assert refusal.value.exit_code == 69
