"""The programs of a cluster: built once, from the Go module proxy and Debian's packages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.support import packages

KUBERNETES: Final = "1.34.4"
COREDNS: Final = "github.com/coredns/coredns@v1.12.4"
HELM_MODULE: Final = "helm.sh/helm/v3/cmd/helm@v3.19.5"  # made with the same minor of Kubernetes
KWOK_MODULE: Final = "sigs.k8s.io/kwok/cmd/kwok@v0.8.0"
CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
FOLDER: Final = Path(os.environ.get("KUBERNETES_HOME", CACHE / "partita" / "kubernetes"))
BIN: Final = FOLDER / "bin"
KUBE: Final = BIN / "kube"  # API server, scheduler, kubelet, …, by its first argument
DNS: Final = BIN / "coredns"
PAUSE: Final = BIN / "pause"
HELM: Final = BIN / "helm"  # for tests of the chart; a cluster starts without it
KWOK: Final = BIN / "kwok"  # nodes and pods without machines, of which a benchmark has hundreds
KWOK_STAGES: Final = FOLDER / "stages.yaml"  # what becomes of them, from its own module
BUILD_COMMAND: Final = "make kubernetes"
DEBIAN: Final = {
    "etcd": "etcd-server",
    "containerd": "containerd",
    "runc": "runc",
    "conntrack": "conntrack",
    "iptables": "iptables",
    "gcc": "gcc",
}
NETWORK_PLUGINS: Final = Path("/usr/lib/cni")  # of the package containernetworking-plugins


def list_missing() -> list[str]:
    """Return the programs that a cluster needs and this machine lacks, by name."""
    built = [path.name for path in (KUBE, DNS, PAUSE) if not path.exists()]
    absent = [name for name in DEBIAN if shutil.which(name) is None]
    plugins = [] if NETWORK_PLUGINS.exists() else ["containernetworking-plugins"]
    return [*built, *absent, *plugins]


def list_optional() -> list[str]:
    """Return what is missing without which a cluster starts, and what needs it."""
    helm = HELM.exists() or shutil.which("helm")
    missing = [] if helm else ["helm: tests of the Helm chart need it"]
    return missing if KWOK.exists() else [*missing, "kwok: the benchmark kubernetes_pods needs it"]


def build() -> None:
    """Build what is missing: about 10 minutes of CPU, and 8 GB of caches that are removed.

    Raises subprocess.CalledProcessError; what a build printed is on the terminal.
    """
    if os.geteuid() == 0:
        plugins = {} if NETWORK_PLUGINS.exists() else {"host-local": "containernetworking-plugins"}
        packages.install_missing(DEBIAN | plugins)
    KUBE.parent.mkdir(parents=True, exist_ok=True)
    caches = FOLDER / "caches"
    known = {
        "GOMODCACHE": str(caches / "modules"),
        "GOCACHE": str(caches / "build"),
        "GOBIN": str(KUBE.parent),
        "CGO_ENABLED": "0",
    }
    try:
        if not KUBE.exists() or not PAUSE.exists():
            _build_kubernetes({**os.environ, **known, "GOFLAGS": "-mod=mod -buildvcs=false"})
        for program, module in ((DNS, COREDNS), (HELM, HELM_MODULE), (KWOK, KWOK_MODULE)):
            if not program.exists():
                install = ["nice", "-n", "15", "go", "install", "-p", "2", module]
                _run(install, FOLDER, {**os.environ, **known})
        if not KWOK_STAGES.exists():
            _write_stages(Path(known["GOMODCACHE"]))
    finally:
        _run(["chmod", "-R", "u+w", str(FOLDER)], FOLDER, os.environ)  # Go makes its modules so
        shutil.rmtree(caches, ignore_errors=True)


def _build_kubernetes(environment: Mapping[str, str]) -> None:
    """Build one program of all of Kubernetes' own, and the program `pause` of its pods."""
    folder = FOLDER / "source"
    folder.mkdir(exist_ok=True)
    shutil.copy(Path(__file__).with_name("main.go"), folder)
    _run(["go", "mod", "download", f"k8s.io/kubernetes@v{KUBERNETES}"], folder, environment)
    modules = Path(environment["GOMODCACHE"])
    its_own = modules / "cache/download/k8s.io/kubernetes/@v" / f"v{KUBERNETES}.mod"
    (folder / "go.mod").write_text(_go_mod(its_own.read_text()))
    _run(["go", "mod", "tidy", "-e"], folder, environment)
    about = "k8s.io/component-base/version"
    words = {
        "gitVersion": f"v{KUBERNETES}",
        "gitMajor": "1",
        "gitMinor": KUBERNETES.split(".")[1],
        "gitTreeState": "archive",
        "gitCommit": "0",
        "buildDate": "2026-01-01T00:00:00Z",
    }
    flags = " ".join(["-s", "-w", *(f"-X {about}.{key}={value}" for key, value in words.items())])
    built = ["go", "build", "-p", "2", "-trimpath", "-o", str(KUBE), "-ldflags", flags, "."]
    _run(["nice", "-n", "15", *built], folder, environment)
    source = modules / f"k8s.io/kubernetes@v{KUBERNETES}" / "build/pause/linux/pause.c"
    _run(
        ["gcc", "-static", "-Os", "-DVERSION=1", "-o", str(PAUSE), str(source)], folder, os.environ
    )


def _write_stages(modules: Path) -> None:
    """Let pods run and nodes be ready at once, as kwok's own stages have it."""
    name, _, version = KWOK_MODULE.partition("/cmd/kwok@")
    stages = modules / f"{name}@{version}" / "kustomize" / "stage"
    folders = ("node/fast", "node/heartbeat-with-lease", "pod/fast")
    files = [file for each in folders for file in sorted((stages / each).glob("[np]o*-*.yaml"))]
    KWOK_STAGES.write_text("\n---\n".join(file.read_text() for file in files))


def _go_mod(its_own: str) -> str:
    """Return a module that requires Kubernetes: its parts, which it has in its own folders, too."""
    minor = KUBERNETES.removeprefix("1.")
    parts = sorted(set(re.findall(r"=> \./staging/src/(k8s\.io/[a-z-]+)", its_own)))
    replaced = "\n".join(f"\t{part} => {part} v0.{minor}" for part in parts)
    return (
        "module partita.test/kube\n\ngo 1.24.0\n\ngodebug default=go1.24\n\n"
        f"require k8s.io/kubernetes v{KUBERNETES}\n\nreplace (\n{replaced}\n)\n"
    )


def _run(command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
    subprocess.run(command, cwd=folder, env=dict(environment), check=True, stdout=sys.stderr)
