"""A cluster by hand.

python -m tests.support.kubernetes build    build what it needs: once, about 10 minutes of CPU
python -m tests.support.kubernetes check    say whether it can start; else exit 1
python -m tests.support.kubernetes up       start it until Ctrl-C; says where its kubeconfig is
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.support.kubernetes import programs
from tests.support.kubernetes.cluster import KubernetesCluster


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.kubernetes",
        description="A real Kubernetes on this machine, as the tests use it.",
    )
    parser.add_argument("what", choices=["build", "check", "up"])
    what = parser.parse_args().what
    if what == "build":
        programs.build()
    if missing := programs.list_missing():
        command = programs.BUILD_COMMAND
        print(f"the tests' Kubernetes is not complete: {', '.join(missing)} ({command})")
        return 1
    for absent in programs.list_optional():
        print(f"missing {absent} ({programs.BUILD_COMMAND})")
    if what != "up":
        print(f"the tests' Kubernetes {programs.KUBERNETES} is in {programs.FOLDER}")
        return 0
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with (
        suppress(KeyboardInterrupt),
        tempfile.TemporaryDirectory(prefix="partita-k-") as folder,
        KubernetesCluster(Path(folder) / "k") as cluster,
    ):
        print(f"export KUBECONFIG={cluster.kubeconfig}", flush=True)
        while True:
            signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
