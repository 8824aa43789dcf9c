"""Debian's Prometheus on a free port: what it scrapes, and what its API says."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.parts import give_up
from tests.support.processes import Process, until


def need_prometheus() -> None:
    if shutil.which("prometheus") and shutil.which("promtool"):
        return
    give_up("needs Debian's package prometheus (run `make test` as root)")


def lint(exposition: str) -> None:
    """What Prometheus's own tool says of a page of metrics: nothing."""
    command = ["promtool", "check", "metrics"]
    found = subprocess.run(command, input=exposition, text=True, capture_output=True, check=False)
    assert (found.returncode, found.stdout + found.stderr) == (0, "")


class Prometheus:
    """Scrapes each second."""

    def __init__(self, folder: Path, port: int, targets: Mapping[str, str]) -> None:
        self.url = f"http://127.0.0.1:{port}/api/v1"
        self._client = httpx.Client(trust_env=False)
        folder.mkdir()
        config = folder / "prometheus.json"  # JSON is YAML too
        config.write_text(json.dumps(configuration(targets)))
        command = [
            "prometheus",
            f"--config.file={config}",
            f"--web.listen-address=127.0.0.1:{port}",
            f"--storage.tsdb.path={folder / 'data'}",
        ]
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
        self.process = Process("prometheus", command, environment, folder / "log")

    def ask(self, path: str, **parameters: str) -> Any:
        """Empty while it does not answer yet."""
        with contextlib.suppress(httpx.HTTPError):
            answer = self._client.get(f"{self.url}/{path}", params=parameters)
            if answer.status_code == httpx.codes.OK:
                return answer.json()["data"]
        return {}

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        found = self.ask("query", query=expression).get("result", [])
        return [(series["metric"], float(series["value"][1])) for series in found]

    def value(self, expression: str) -> float:
        """The sum over all series; 0 without any."""
        return sum(value for _labels, value in self.query(expression))

    def up(self) -> set[str]:
        return {labels["job"] for labels, value in self.query("up") if value == 1}

    def types(self) -> dict[str, str]:
        """Of every metric that it knows of, also of those without a sample yet."""
        return {name: entries[0]["type"] for name, entries in self.ask("metadata").items()}

    def close(self) -> None:
        self.process.end()
        self._client.close()


@contextmanager
def scraping(folder: Path, port: int, targets: Mapping[str, str]) -> Iterator[Prometheus]:
    made = Prometheus(folder, port, targets)
    try:
        made.process.start()
        until(lambda: made.up() == set(targets), within_s=60, what=made.process.tail)
        yield made
    finally:
        made.close()


def configuration(targets: Mapping[str, str]) -> dict[str, Any]:
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [
            {"job_name": name, "static_configs": [{"targets": [address]}]}
            for name, address in targets.items()
        ],
    }
