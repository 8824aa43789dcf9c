"""A cluster of one node: its processes in a network namespace, its files in one folder."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from tests.support.kubernetes import config_files as config
from tests.support.kubernetes.commands import list_words
from tests.support.kubernetes.host_parts import (
    NAMESPACE,
    call,
    make_cgroups,
    make_network,
    read_settings,
    remove_cgroups,
    remove_network,
    write_settings,
)
from tests.support.kubernetes.pause_image import pack_image
from tests.support.kubernetes.programs import HELM, KUBE

START_S: Final = 60
IMPORT_S: Final = 300
SOCKET: Final = "containerd.sock"  # beside the kubeconfig


class KubernetesCluster:
    """`with KubernetesCluster(folder) as cluster:` starts it, and at the end leaves nothing of it.

    Needs root. `folder` is short, since sockets are in it, and is removed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "admin.conf"
        self.socket = folder / SOCKET
        self._settings: list[str] = []

    def __enter__(self) -> KubernetesCluster:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        for name in ("coredns", "kubelet", "proxy", "scheduler", "controller-manager"):
            self.end(name)
        self._remove_containers()
        for name in ("apiserver", "etcd", "containerd"):
            self.end(name)
        self._unmount()
        remove_network()
        remove_cgroups()
        if self._settings:
            write_settings(self._settings)
        shutil.rmtree(self.folder, ignore_errors=True)

    # Its parts

    def _start(self) -> None:
        for name in ("log", "pid", "volume-plugins"):
            (self.folder / name).mkdir(parents=True)
        self._settings = read_settings()
        config.write_all(self.folder)
        make_network()
        make_cgroups()
        for name in ("etcd", "apiserver", "containerd"):
            self.begin(name)
        self._wait("the API server", lambda: bool(self.kubectl("get", "--raw", "/readyz")))
        for name in ("controller-manager", "scheduler"):
            self.begin(name)
        self._wait("containerd", lambda: bool(self._ctr("version")))
        self.import_images(pack_image())
        for name in ("kubelet", "proxy", "coredns"):
            self.begin(name)
        self._serve_names()
        self._wait("the node", self._is_node_ready)
        account = ("get", "serviceaccount", "default", "-o", "name")
        self._wait("the account of pods", lambda: bool(self.kubectl(*account)))

    def begin(self, name: str) -> None:
        """Start one process of the cluster, whose pid and output are known by its name."""
        # not `ip netns exec`: that mounts a /sys of its own, which hides the control groups
        command = list_words(name, self.folder)
        inside = ["nsenter", f"--net=/run/netns/{NAMESPACE}", *command]
        with (self.folder / "log" / f"{name}.log").open("ab") as output:
            process = subprocess.Popen(
                inside, stdout=output, stderr=output, stdin=subprocess.DEVNULL,
                start_new_session=True, cwd="/",
            )  # fmt: skip
        (self.folder / "pid" / name).write_text(str(process.pid))

    def end(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """End a process, by force if it does not within 5 s; it may have ended already."""
        file = self.folder / "pid" / name
        if not file.exists():
            return
        pid = int(file.read_text())
        with suppress(ProcessLookupError):
            os.kill(pid, number)
            for _ in range(50):
                if _has_ended(pid):
                    return
                time.sleep(0.1)
            os.kill(pid, signal.SIGKILL)

    # What tests ask of it

    def kubectl(self, *words: str, text: str = "") -> str:
        """Return what kubectl prints. Raises CalledProcessError, with its words in `stderr`."""
        command = [str(KUBE), "kubectl", f"--kubeconfig={self.kubeconfig}", *words]
        return subprocess.run(
            command, input=text, capture_output=True, text=True, check=True, timeout=120
        ).stdout

    def import_images(self, archive: bytes) -> None:
        """Give the node the images of an archive, as `docker save` writes it."""
        self._ctr("images", "import", "-", data=archive)

    # How it comes and goes

    def _wait(self, what: str, is_ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_S
        while True:
            with suppress(subprocess.CalledProcessError):
                if is_ready():
                    return
            if time.monotonic() > deadline:
                said = [
                    f"{log.stem}: {''.join(log.read_text(errors='replace').splitlines(True)[-3:])}"
                    for log in sorted((self.folder / "log").iterdir())
                ]
                raise RuntimeError(f"{what} did not start within {START_S} s\n" + "\n".join(said))
            time.sleep(0.2)

    def _is_node_ready(self) -> bool:
        nodes = self.kubectl("get", "nodes", "--no-headers")
        return any(line.split()[1:2] == ["Ready"] for line in nodes.splitlines())

    def _serve_names(self) -> None:
        """Let the names of services lead to CoreDNS, which runs beside the kubelet."""
        ports = [("dns", "UDP"), ("dns-tcp", "TCP")]
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kube-dns", "namespace": "kube-system"},
            "spec": {
                "clusterIP": config.DNS_ADDRESS,
                "ports": [
                    {"name": name, "port": 53, "protocol": protocol, "targetPort": 10053}
                    for name, protocol in ports
                ],
            },
        }
        slice_ = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": "kube-dns-host",
                "namespace": "kube-system",
                "labels": {"kubernetes.io/service-name": "kube-dns"},
            },
            "addressType": "IPv4",
            "ports": [
                {"name": name, "port": 10053, "protocol": protocol} for name, protocol in ports
            ],
            "endpoints": [{"addresses": [config.NODE_ADDRESS]}],
        }
        both = {"apiVersion": "v1", "kind": "List", "items": [service, slice_]}
        self.kubectl("apply", "-f", "-", text=json.dumps(both))

    def _ctr(self, *words: str, data: bytes = b"") -> bytes:
        return subprocess.run(
            [*_ctr_words(self.socket), *words],
            input=data,
            capture_output=True,
            check=True,
            timeout=120,
        ).stdout

    def _remove_containers(self) -> None:
        """End what the kubelet left running, and the network namespaces of pods."""
        if not self.socket.exists():
            return
        for _ in range(5):
            try:
                containers = self._ctr("containers", "ls", "-q").decode().split()
            except subprocess.CalledProcessError:
                return  # containerd did not start
            if not containers:
                return
            for container in containers:
                self._remove_container(container)

    def _remove_container(self, container: str) -> None:
        spec: Any = {}
        with suppress(subprocess.CalledProcessError):
            spec = json.loads(self._ctr("containers", "info", container))["Spec"]
        with suppress(subprocess.CalledProcessError):
            self._ctr("tasks", "kill", "-s", "KILL", "-a", container)
        for words in (("tasks", "rm", "-f"), ("containers", "rm")):
            with suppress(subprocess.CalledProcessError):
                self._ctr(*words, container)
        for each in spec.get("linux", {}).get("namespaces", []):
            if "/netns/cni-" in (path := each.get("path", "")):
                call("ip", "netns", "del", Path(path).name)

    def _unmount(self) -> None:
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in sorted(mounts, reverse=True):
            if mount.startswith(f"{self.folder}/"):
                call("umount", "-l", mount)


def _has_ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:  # started by another process than this one
        return not Path(f"/proc/{pid}").exists()


@contextmanager
def kubernetes(folder: Path, docker_host: str, images: Sequence[str]) -> Iterator[dict[str, str]]:
    """Start a cluster with these images of the Docker engine; how tests find it and its clients."""
    clients = folder / "cluster-bin"
    clients.mkdir()
    (clients / "kubectl").write_text(f'#!/bin/sh\nexec {KUBE} kubectl "$@"\n')
    (clients / "kubectl").chmod(0o755)
    if HELM.exists():
        (clients / "helm").symlink_to(HELM)
    with KubernetesCluster(folder / "k") as cluster:
        import_from_docker(cluster.socket, docker_host, images)
        yield {
            "TEST_KUBECONFIG": str(cluster.kubeconfig),
            "PATH": f"{clients}:{os.environ['PATH']}",
        }


def import_from_docker(socket: Path, docker_host: str, images: Sequence[str]) -> None:
    """Give the node whose containerd has this socket images of a Docker engine.

    Nothing of them is held in memory. Raises CalledProcessError.
    """
    save = ["docker", "-H", docker_host, "save", *images]
    with subprocess.Popen(save, stdout=subprocess.PIPE) as saving:
        subprocess.run(
            [*_ctr_words(socket), "images", "import", "-"],
            stdin=saving.stdout, check=True, capture_output=True, timeout=IMPORT_S,
        )  # fmt: skip
    if saving.returncode:
        raise subprocess.CalledProcessError(saving.returncode, save)


def _ctr_words(socket: Path) -> list[str]:
    return ["ctr", "-a", str(socket), "-n", "k8s.io"]
