"""What the container engine itself tells of a run: who started and ended when, and what is left."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

from tests.support.processes import Process, until

GATE, AHEAD = "partita.gate", "-ahead"
LISTED = (("ps", "-a"), ("network", "ls"), ("volume", "ls"))


class EngineWatch:
    """Reads the engine's events while it is entered: an engine remembers only its last few."""

    def __init__(self, docker_host: str, folder: Path) -> None:
        self.docker_host = docker_host
        command = [
            *("docker", "-H", docker_host, "events", "--format", "{{json .}}"),
            *("--filter", "type=container", "--filter", "type=volume"),
            *("--filter", "event=start", "--filter", "event=die", "--filter", "event=mount"),
            *("--filter", "event=rename"),
        ]
        self._listening = Process(
            "events", command, {"PATH": "/usr/bin:/bin"}, folder / "engine.log"
        )

    def __enter__(self) -> EngineWatch:
        self._listening.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._listening.end()

    def starts(self, run_id: str) -> Counter[str]:
        """Step id → how many of its containers were started."""
        events = self._containers(run_id)
        return Counter(_labels(event)["partita.step"] for event in events if _is(event, "start"))

    def running(self, run_id: str) -> dict[str, str]:
        """Step id → its running container."""
        label = f"label=partita.run_id={run_id}"
        shown = '{{.Label "partita.step"}} {{.ID}} {{.Names}}'
        rows = self._docker("ps", "--filter", label, "--format", shown).splitlines()
        return {
            step: container
            for step, container, name in (row.split(" ") for row in rows)
            if step and not name.endswith(AHEAD)
        }

    def check_attempts(self, run_id: str) -> None:
        """No container of the run started twice; no two attempts of a step lived at once."""
        until(lambda: self._all_died(run_id), within_s=30, what="every container's end is told")
        alive: dict[str, str] = {}
        names = []
        for event in self._containers(run_id):
            step, name = _labels(event)["partita.step"], _labels(event)["name"]
            if _is(event, "start"):
                assert step not in alive, f"{name} started while {alive[step]} lived"
                assert name not in names, f"{name} was started twice"
                names.append(name)
                alive[step] = name
            else:
                alive.pop(step)

    def check_nothing_left(self, run_id: str, *, within_s: float = 60) -> None:
        """Neither containers, networks and volumes of its label nor volumes it had mounted."""
        until(
            lambda: not self._labeled(run_id),
            within_s=within_s,
            what=lambda: f"{run_id} leaves nothing:\n{self._labeled(run_id, shows_names=True)}",
            each_s=0.5,
        )
        existing = set(self._docker("volume", "ls", "-q").split())
        assert not existing & self._mounted(run_id), "a volume without a label is left"

    def _labeled(self, run_id: str, *, shows_names: bool = False) -> str:
        """Return the ids, or the rows, of what the engine has of a run, a line each."""
        label = f"label=partita.run_id={run_id}"
        quiet = () if shows_names else ("-q",)
        return "".join(self._docker(*words, *quiet, "--filter", label) for words in LISTED)

    def _mounted(self, run_id: str) -> set[str]:
        containers = {event["Actor"]["ID"] for event in self._containers(run_id)}
        return {
            event["Actor"]["ID"]
            for event in self._events()
            if event["Type"] == "volume" and _labels(event).get("container") in containers
        }

    def _all_died(self, run_id: str) -> bool:
        kinds = Counter(event["Action"] for event in self._containers(run_id))
        return kinds["start"] == kinds["die"] > 0

    def _containers(self, run_id: str) -> list[dict[str, Any]]:
        """Return when programs began (`start`) and ended (`die`), in order.

        The program of a container that was started ahead begins when that gets the name of a unit;
        of one that ends at its gate none begins (decision 0060).
        """
        events = [
            event
            for event in self._events()
            if event["Type"] == "container" and _labels(event).get("partita.run_id") == run_id
        ]
        ended_at_gate = {event["Actor"]["ID"] for event in events if _ended_at_gate(event)}
        of_programs = [each for each in events if each["Actor"]["ID"] not in ended_at_gate]
        return [{**each, "Action": action} for each in of_programs if (action := _action(each))]

    def _events(self) -> list[dict[str, Any]]:
        whole = self._listening.text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def _docker(self, *words: str) -> str:
        command = ["docker", "-H", self.docker_host, *words]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=180)
        return done.stdout


def _ended_at_gate(event: dict[str, Any]) -> bool:
    of_gate, labels = _is(event, "die") and GATE in _labels(event), _labels(event)
    return of_gate and (labels["name"].endswith(AHEAD) or labels["exitCode"] == "125")


def _action(event: dict[str, Any]) -> str:
    """Return what an event says of the program of its container; empty if nothing."""
    if _is(event, "die"):
        return "die"
    began = "rename" if GATE in _labels(event) else "start"
    return "start" if _is(event, began) else ""


def _is(event: dict[str, Any], action: str) -> bool:
    return bool(event["Action"] == action)


def _labels(event: dict[str, Any]) -> dict[str, str]:
    attributes: dict[str, str] = event["Actor"]["Attributes"]
    return attributes
