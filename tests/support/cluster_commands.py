"""kubectl on the cluster of the tests."""

from __future__ import annotations

import base64
import json
import subprocess

from tests.support.manifests import need_program
from tests.support.parts import need_cluster


def kubectl(*words: str, text: str = "") -> str:
    """Run a command as the cluster's administrator; its own words are in the error."""
    command = [need_program("kubectl"), "--kubeconfig", need_cluster(), *words]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
    return done.stdout


def server_of() -> tuple[str, str]:
    """Return the address of the API server, and its authority as PEM text."""
    words = ("config", "view", "--minify", "--raw", "--flatten", "--output", "json")
    cluster = json.loads(kubectl(*words))["clusters"][0]["cluster"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    return str(cluster["server"]), authority
