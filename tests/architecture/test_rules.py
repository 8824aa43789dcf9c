"""Rules that no import contract can say (docs/architecture.md)."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator

from kernel.errors import PlatformError
from kernel.problems import PROBLEMS
from tests.apps.workers import test_background_loops as of_control_plane
from tests.architecture.sources import ROOT, lines_matching, modules, trees
from tests.sync import test_background_loops as of_sync

OURS = (
    "apps", "cue", "kernel", "mocks", "partita_mock", "readers", "surfaces", "sync_stack", "worker",
)  # fmt: skip
EDGES = ("/rest/", "/views/", "/views.py", "/pipeline/", "/http/", "/management/", "/asgi.py")


def test_edges_do_not_touch_rows() -> None:
    offenders = [
        line
        for line in lines_matching(r"\.objects\b", "apps")
        if any(edge in line.split(":")[0] for edge in EDGES)
    ]
    assert not offenders, "\n".join(offenders)


def test_only_the_services_of_executions_write_a_status() -> None:
    offenders = [
        line
        for line in lines_matching(
            r"\b(execution|run|step|job)\w*\.(job_)?status\s*=[^=]|\.update\(.*status=", "apps"
        )
        if not line.startswith("apps/executions/services/")
    ]
    assert not offenders, "\n".join(offenders)


def test_no_row_locks_and_no_raw_sql() -> None:
    """SQL stands beside the ORM's way in few modules alone (decision records 0018 and 0046)."""
    offenders = [
        line
        for line in lines_matching(r"select_for_update|\.raw\(|RawSQL|\.extra\(|\.cursor\(", "apps")
        if not re.match(
            r"apps/(executions/services/run_rows|streams/services/topics"
            r"|operations/services/store_(backup|restore))\.py:",
            line,
        )
    ]
    assert not offenders, "\n".join(offenders)


def test_settings_are_read_in_settings_and_conf_only() -> None:
    offenders = [
        line
        for line in lines_matching(r"django\.conf import|os\.environ|os\.getenv|environ\[")
        if not line.startswith("platform_site/") and not line.split(":")[0].endswith("/conf.py")
    ]
    assert not offenders, "\n".join(offenders)


def test_every_listener_is_made_in_one_module() -> None:
    """`kernel.listeners`, whose connections answer at once."""
    # a socket that another process passed on is no listener, and none of datagrams is
    made = lines_matching(r"socket\.socket\((?!fileno=|.*SOCK_DGRAM)|create_server\((?!$)|\.bind\(")
    others = [line for line in made if not line.startswith("kernel/listeners.py")]

    assert not others, "\n".join(others)


def test_modules_stay_short() -> None:
    offenders = [
        f"{path}: {text.count(chr(10))} lines" for path, text in modules() if text.count("\n") > 400
    ]
    assert not offenders, "\n".join(offenders)


def test_every_problem_code_that_is_raised_has_a_row() -> None:
    for path, _text in modules(*OURS):
        if path == "apps/social/services.py":  # needs apps that are installed on demand only
            continue
        importlib.import_module(
            path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        )

    unlisted = {
        f"{error.__module__}.{error.__name__}: {error.code}"
        for error in descendants(PlatformError)
        if error.code not in PROBLEMS
    }
    assert not unlisted | set(codes_given_at_calls()), "\n".join(sorted(unlisted))


def descendants(kind: type[PlatformError]) -> Iterator[type[PlatformError]]:
    for child in kind.__subclasses__():
        yield child
        yield from descendants(child)


def codes_given_at_calls() -> Iterator[str]:
    """`SomePlatformError(…, code="…")` with a code that has no row."""
    names = {error.__name__ for error in descendants(PlatformError)} | {"PlatformError"}
    for path, tree in trees():
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Name) and call.func.id in names:
                for keyword in call.keywords:
                    value = keyword.value
                    if (
                        keyword.arg == "code"
                        and isinstance(value, ast.Constant)
                        and value.value not in PROBLEMS
                    ):
                        yield f"{path}:{call.lineno}: {value.value!r}"


UNWATCHED = {
    "kernel/background.py": "it is what watches",
    "kernel/pinned_http.py": "what the thread raises is raised where its outcome is awaited",
    "apps/operations/lifespan.py": "prometheus_client's own listener survives its requests' errors",
    "apps/executions/services/run_outbox.py": "one nudge, which the next look makes up for",
    "partita_client/command/live_screen.py": "what it raises is raised at the next line",
    "partita_client/command/terminal/background_call.py": "what it raises is raised at its end",
    "partita_client/command/live_view.py": "without it the table goes and the log goes on",
    "sync_stack/orchestrator/tasks.py": "sets an event when a worker's time to finish is over",
}


def test_every_thread_is_watched() -> None:
    """Threads are kernel.background's, so that one that fails is counted and runs again."""
    started = r"\bthreading\.(Thread|Timer)\b|\bimport .*\b(Thread|Timer)\b|daemon=True"
    offenders = [line for line in lines_matching(started) if line.split(":")[0] not in UNWATCHED]
    assert not offenders, "\n".join(offenders)


ENDING_WITH_ITS_CALLER = {
    "mocks/plane/channel_wires.py: _read": "awaited by its socket, which ends with it",
    "mocks/plane/channel_wires.py: _wait_until_gone": "ends with its stream",
    "apps/shells/rest/websocket.py: _keep": "ends with its socket, which its session outlives",
    "apps/workers/served_shell.py: _pass_input": "awaited by its session, which it ends",
    "apps/workers/served_shell.py: _pass_output": "awaited by its session, which it ends",
    "apps/workers/served_shell.py: _watch": "awaited by its session, which it ends",
    "worker/control_plane/http.py: _poll": "one claim, awaited by who asked for it",
    "worker/runtimes/kubernetes/pod_gate.py: _beat": "without it the gate ends, and a pod starts",
    "worker/supervisor/step_log.py: _send_all": "awaited by its attempt, which it fails",
    "sync_stack/gateway/webhook_stream.py: _read": "counted, who waits is told, another opens",
    "sync_stack/gateway/webhook_stream.py: _write": "counted, its end ends the reader",
}


def test_every_endless_task_is_watched() -> None:
    """What loops for ever is run by keep_running, not as a bare task."""
    offenders = set()
    for path, tree in trees(*OURS):
        endless = {
            node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.AsyncFunctionDef)
            and any(isinstance(child, ast.While) for child in ast.walk(node))
        }
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if name_of(call.func) in ("create_task", "spawn", "ensure_future") and call.args:
                begun = call.args[0]
                if isinstance(begun, ast.Call) and name_of(begun.func) in endless:
                    offenders.add(f"{path}: {name_of(begun.func)}")
    assert offenders <= set(ENDING_WITH_ITS_CALLER), "\n".join(sorted(offenders))


def name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def test_every_background_loop_has_a_test_that_ends_it() -> None:
    sync = {*of_sync.ORCHESTRATOR, *of_sync.GATEWAY, *of_sync.WATCHER, *of_sync.PIECES}
    ended = sync | {*of_control_plane.PIECES, *of_control_plane.SUPERVISOR}
    starters = (
        "BackgroundThread",
        "PeriodicThread",
        "Delayed",
        "HttpThread",
        "keep_running",
        "Watch",
    )
    named = {
        str(call.args[0].value)
        for _path, tree in trees("apps", "mocks", "sync_stack", "worker")
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and name_of(call.func) in starters
        and call.args
        and isinstance(call.args[0], ast.Constant)
    }
    assert len(named) > 20
    assert not named - ended, f"no test ends {sorted(named - ended)}"
    pages = [(ROOT / "docs" / page).read_text() for page in ("operations.md", "sync-monitoring.md")]
    unlisted = [name for name in ended if not any(f"`{name}`" in page for page in pages)]
    assert not unlisted, f"docs do not list {unlisted}"
