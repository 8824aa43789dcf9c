"""`service.run` and its like: a container that runs until the verdict, and its readiness probe.

(reference: control-plane 7.4)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypedDict, cast

from apps.suites.domain import values
from apps.suites.domain.calls import (
    Arguments,
    Keyword,
    NodeKind,
    Preset,
    Rules,
    node_kinds,
)
from apps.suites.domain.keywords import CONTAINER, keyword, script_in
from apps.suites.domain.problems import TopologyProblem

WORKSPACE: Final = "/partita/workspace"  # the files of the suite, in a container
PRISM_PORT: Final = 4010
PROBES: Final = ("http", "tcp", "log", "command")
DEFAULT_TIMEOUT_MS: Final = 60_000
DEFAULT_INTERVAL_MS: Final = 500


class Timing(TypedDict, total=False):
    intervalMs: int
    startPeriodMs: int
    timeoutMs: int


class Readiness(Timing, total=False):
    """A readiness probe on the wire: one of `http`, `tcp`, `log` and `command`, and its options."""

    http: str
    tcp: int
    log: str
    command: list[str]
    port: int
    status: list[int]


_KEYS: Final = (*PROBES, "port", "status", "interval", "start_period", "timeout")


def read_probe(value: object, where: str, *, max_timeout_ms: int) -> Readiness:
    given = values.only_keys(value, where, _KEYS)
    probe = _the_probe(given, where)
    for key in ("port", "status"):
        if key in given and probe != "http":
            values.invalid(where, f"{key} is allowed with http only, not with {probe}")
    asked = {probe: _READERS[probe](given[probe], f"{where}.{probe}")}
    wanted = cast("Readiness", asked)
    if "port" in given:
        wanted["port"] = values.whole(given["port"], f"{where}.port", low=1, high=values.MAX_PORT)
    if "status" in given:
        wanted["status"] = _status(given["status"], f"{where}.status")
    return {**wanted, **_times(given, where, max_timeout_ms)}


def complete_probe(
    ready: Readiness | None, ports: list[int | str], timeout_ms: int | None
) -> Readiness | None:
    """Complete the probe by defaults that depend on other keywords.

    Without `ready`, the first tcp port is probed; return None when there is no such port.
    """
    tcp_ports = [port for port in ports if isinstance(port, int)]
    if ready is None:
        if not tcp_ports:
            return None
        ready = {"tcp": tcp_ports[0], "intervalMs": DEFAULT_INTERVAL_MS, "startPeriodMs": 0}
    if "http" in ready and "port" not in ready:
        if not tcp_ports:
            raise TopologyProblem("missing_argument", "ready.http requires `port` or `ports`")
        ready = {**ready, "port": tcp_ports[0]}
    return {**ready, "timeoutMs": ready.get("timeoutMs") or timeout_ms or DEFAULT_TIMEOUT_MS}


def _the_probe(given: Mapping[str, object], where: str) -> str:
    named = [probe for probe in PROBES if probe in given]
    if not named:
        raise TopologyProblem(
            "missing_argument", f"{where}: one of {', '.join(PROBES)} is required"
        )
    if len(named) > 1:
        values.invalid(where, f"only one of {', '.join(named)} may be set")
    return named[0]


def _times(given: Mapping[str, object], where: str, high_ms: int) -> Timing:
    times: Timing = {
        "intervalMs": values.duration_ms(
            given.get("interval", "500ms"), f"{where}.interval", high_ms=high_ms
        ),
        "startPeriodMs": values.duration_ms(
            given.get("start_period", 0), f"{where}.start_period", high_ms=high_ms, zero=True
        ),
    }
    if "timeout" in given:
        times["timeoutMs"] = values.duration_ms(
            given["timeout"], f"{where}.timeout", high_ms=high_ms
        )
    return times


def _path(value: object, where: str) -> str:
    path = values.text(value, where)
    if not path.startswith("/"):
        values.invalid(where, f'"{path}" must start with "/"')
    return path


def _command(value: object, where: str) -> list[str]:
    if isinstance(value, str):
        return ["sh", "-c", values.text(value, where, empty=False)]
    return values.command(value, where)


def _status(value: object, where: str) -> list[int]:
    listed = value if isinstance(value, list) else [value]
    if not listed:
        values.invalid(where, "must contain at least one status")
    return [values.whole(item, where, low=100, high=599) for item in listed]


_READERS: Final[Mapping[str, Callable[[object, str], object]]] = {
    "http": _path,
    "tcp": lambda value, where: values.whole(value, where, low=1, high=values.MAX_PORT),
    "log": lambda value, where: values.text(value, where, empty=False),
    "command": _command,
}


def _members(given: Arguments, rules: Rules) -> Mapping[str, object]:
    del rules
    if "timeout" in given and "timeoutMs" in given.get("ready", {}):
        values.invalid("service.run", "timeout is short for ready.timeout; set only one of them")
    ready = complete_probe(given.get("ready"), given.get("ports", []), given.get("timeout"))
    if ready is None:
        return {
            "idempotent": True,
            "timeoutMs": given.get("timeout", DEFAULT_TIMEOUT_MS),
        }
    return {"idempotent": True, "timeoutMs": ready["timeoutMs"], "ready": ready}


def _contract(value: object, where: str, rules: Rules) -> str:
    """Return the package path of a contract that is named with or without its folder."""
    name = values.text(value, where, empty=False)
    for path in (name, f"api/{name}"):
        if path.startswith("api/") and path in rules["files"]:
            return path
    raise TopologyProblem("file_not_found", f"{where}: the suite has no file api/{name}")


def _prism(given: Arguments, _: Rules) -> Mapping[str, object]:
    if any(given.get(key) for key in ("command", "commands", "file")):
        return {}
    if "contract" not in given:
        raise TopologyProblem("missing_argument", "service.prism: contract is required")
    path = f"{WORKSPACE}/{given['contract']}"
    return {"command": ["mock", "-h", "0.0.0.0", "-p", str(PRISM_PORT), path]}  # noqa: S104 - in its own container


node_kinds.register("service")(
    NodeKind(
        summary="a container that keeps running until the run ends; healthy when its readiness "
        "probe passes",
        hint='use service.run("name", image="…")',
        functions=("run",),
        presets={
            "wiremock": Preset(
                summary="WireMock: image `wiremock/wiremock:3.9.2`, port 8080, ready when "
                "`/__admin/health` answers",
                defaults={
                    "image": "wiremock/wiremock:3.9.2",
                    "ports": [8080],
                    "ready": {"http": "/__admin/health"},
                },
            ),
            "prism": Preset(
                summary="Prism: image `stoplight/prism:5`, port 4010, answers as `contract` says",
                defaults={"image": "stoplight/prism:5", "ports": [PRISM_PORT]},
                keywords=(
                    Keyword(
                        name="contract",
                        meaning="`service.prism`: the OpenAPI document of the suite that Prism "
                        "serves, below `api/`",
                        read=_contract,
                    ),
                ),
                members=_prism,
            ),
            "custom": Preset(summary="a mock server of your own: the same as `service.run`"),
        },
        same_as={"mock": "mock.serve"},
        other_names=("container",),
        keywords=(
            *CONTAINER,
            script_in("services"),
            keyword("ports", '`[8080, "53/udp"]`', values.ports),
            Keyword(
                name="ready",
                meaning="one of `http`, `tcp`, `log`, `command`; with `port`, `status`, "
                "`interval`, `start_period`, `timeout`",
                read=lambda value, where, rules: read_probe(
                    value, where, max_timeout_ms=rules["maxTimeoutMs"]
                ),
            ),
        ),
        members=_members,
    )
)
