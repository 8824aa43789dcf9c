"""Step specs and suite files for tests, in the shape of a claim's answer."""

from __future__ import annotations

import gzip
import io
import secrets
import tarfile
from collections.abc import Mapping
from typing import Any

from worker.domain.ownership import UnitOwner

INSTALLATION = f"tests-{secrets.token_hex(4)}"  # of this process: others may test at the same time


def owner(orchestrator_id: str = "runner:tests") -> UnitOwner:
    return UnitOwner(
        installation_id=INSTALLATION, orchestrator_id=orchestrator_id, host_id="host-of-tests"
    )


def claim(run_id: str, node_id: str, *, attempt: int = 1, **changes: Any) -> dict[str, Any]:
    """A step spec; `node` keys are merged into the node."""
    node = {"id": node_id, "name": node_id, "kind": "task", "image": "busybox:1.36"}
    return {
        "jobId": f"job_{run_id}-{node_id}",
        "attempt": attempt,
        "executionId": run_id,
        "suiteId": "shop",
        "workspaceId": "workspace",
        "owner": "Ann",
        "installationId": INSTALLATION,
        "profile": "ci.yaml",
        "backendId": "local-docker",
        "leaseMs": 30_000,
        "timeoutMs": 60_000,
        "env": {},
        **changes,
        "node": node | changes.get("node", {}),
    }


def content(files: Mapping[str, str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(text.encode()), 0o644
            archive.addfile(info, io.BytesIO(text.encode()))
    return gzip.compress(out.getvalue(), mtime=0)  # the same bytes for the same files
