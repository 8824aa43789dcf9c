"""The Docker engine of the tests as its program shows it."""

from __future__ import annotations

import subprocess

from tests.support.parts import need


def docker(*words: str) -> str:
    """Run the program `docker` and return what it printed; CalledProcessError when it fails."""
    command = ["docker", "-H", need("TEST_DOCKER_HOST", "a Docker engine"), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=180).stdout


def containers(run_id: str, shown: str = "{{.ID}}") -> dict[str, str]:
    """Return name without the run → id, or what `shown` says, of what the engine has of the run."""
    label = f"label=partita.run_id={run_id}"
    row = f"{{{{.Names}}}} {shown}"
    listed = docker("ps", "-a", "--no-trunc", "--filter", label, "--format", row)
    pairs = (line.split(" ", 1) for line in listed.splitlines())
    return {name.removeprefix(f"partita-{run_id}-"): text for name, text in pairs}
