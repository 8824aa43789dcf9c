"""Steps as folders and processes, in the terms of the inventory.

A step's folder with its processes counts as a container, a shared directory as a volume.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from kernel.agent_protocol import UNKNOWN_TIME, RuntimeResource
from worker.domain import ownership
from worker.domain.runtime import Unit, UnitState
from worker.runtimes.process.units import UnitFolder, remove_unit, run_labels

_DRIVER: Final = "folder"
_STATES: Final = {
    UnitState.CREATED: "created",
    UnitState.RUNNING: "running",
    UnitState.ENDED: "exited",
}


def list_all(root: Path, installation_id: str) -> list[RuntimeResource]:
    """Return the steps and shared directories of all runs of an installation."""
    found = (each for run in sorted(root.glob("*")) for each in _of_run(run))
    return [each for each in found if ownership.is_owned(each.labels, installation_id)]


def _of_run(run: Path) -> Iterator[RuntimeResource]:
    for path in sorted(run.glob("units/*")):
        folder = UnitFolder(path)
        if folder.is_there():
            yield _step(folder)
    labels = run_labels(run)
    for path in sorted(run.glob("workspaces/*")):
        if not path.name.startswith("."):  # one that is being filled
            yield _directory(path, run, labels)


def _step(folder: UnitFolder) -> RuntimeResource:
    unit: Unit = folder.unit()
    code = folder.exit_code()
    state = _STATES[unit.state]
    return RuntimeResource(
        kind="container",
        id=unit.id,
        name=unit.name,
        created_at=_written_at(folder.path / "unit.json"),
        labels=unit.labels,
        state=state,
        status=f"Exited ({code})" if state == "exited" and code is not None else state.capitalize(),
        started_at=unit.started_at,
        exit_code=code if state == "exited" else None,
    )


def _directory(path: Path, run: Path, labels: Mapping[str, str]) -> RuntimeResource:
    return RuntimeResource(
        kind="volume",
        id=path.name,
        name=path.name,
        created_at=_written_at(run / "run.json"),
        labels=labels,
        driver=_DRIVER,
        mountpoint=str(path),
    )


def _written_at(path: Path) -> datetime:
    try:
        return datetime.fromtimestamp(int(path.stat().st_mtime), UTC)
    except FileNotFoundError:
        return UNKNOWN_TIME


def look_at(root: Path, resource: RuntimeResource) -> RuntimeResource | None:
    run_id = resource.labels.get(ownership.RUN_ID, "")
    run = root / run_id
    if not run_id or run.parent != root:
        return None
    same = (resource.kind, resource.id)
    return next((each for each in _of_run(run) if (each.kind, each.id) == same), None)


def remove(root: Path, resource: RuntimeResource, installation_id: str) -> bool:
    """Remove a step or a shared directory, and the run's folder once it is empty."""
    now = look_at(root, resource)
    if now is None:
        return True
    if not ownership.is_owned(now.labels, installation_id):
        return False
    if now.kind == "container":
        remove_unit(UnitFolder(Path(now.id)))
    else:
        shutil.rmtree(now.mountpoint, ignore_errors=True)
    run = root / now.labels[ownership.RUN_ID]
    if not any(True for _ in _of_run(run)):
        shutil.rmtree(run, ignore_errors=True)
    return look_at(root, resource) is None
