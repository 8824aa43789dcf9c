"""The commands of a cluster's processes."""

from __future__ import annotations

from pathlib import Path

from tests.support.kubernetes import config_files as config
from tests.support.kubernetes.programs import DNS, KUBE


def list_words(name: str, folder: Path) -> list[str]:
    """Return the command of a process; the cluster's files are in `folder`."""
    kube, own = str(KUBE), f"--kubeconfig={folder}/{name}.conf"
    return {
        "etcd": _etcd(folder),
        "apiserver": [kube, "apiserver", *_api_server_options(folder)],
        "containerd": ["containerd", "--config", f"{folder}/containerd.toml"],
        "controller-manager": [kube, "controller-manager", own, *_controller_options(folder)],
        "scheduler": [kube, "scheduler", own, "--leader-elect=false", "--bind-address=127.0.0.1"],
        "kubelet": [kube, "kubelet", own, *_kubelet_options(folder)],
        "proxy": [kube, "proxy", f"--config={folder}/proxy.yaml"],
        "coredns": [str(DNS), "-conf", f"{folder}/Corefile"],
    }[name]


def _etcd(folder: Path) -> list[str]:
    return [
        *("etcd", "--data-dir", f"{folder}/etcd", "--unsafe-no-fsync"),
        *("--listen-client-urls", "http://127.0.0.1:2379"),
        *("--advertise-client-urls", "http://127.0.0.1:2379"),
        *("--listen-peer-urls", "http://127.0.0.1:2380"),
    ]


def _api_server_options(folder: Path) -> list[str]:
    keys = folder / "pki"
    return [
        "--etcd-servers=http://127.0.0.1:2379",
        *("--secure-port=6443", f"--advertise-address={config.NODE_ADDRESS}"),
        f"--tls-cert-file={keys}/server.crt",
        f"--tls-private-key-file={keys}/server.key",
        f"--client-ca-file={keys}/ca.crt",
        f"--token-auth-file={keys}/tokens.csv",
        "--authorization-mode=Node,RBAC",
        f"--service-cluster-ip-range={config.SERVICE_ADDRESSES}",
        "--allow-privileged",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={keys}/accounts.pub",
        f"--service-account-signing-key-file={keys}/accounts.key",
        f"--kubelet-client-certificate={keys}/kubelet-client.crt",
        f"--kubelet-client-key={keys}/kubelet-client.key",
        f"--kubelet-certificate-authority={keys}/ca.crt",
        "--kubelet-preferred-address-types=InternalIP",
    ]


def _controller_options(folder: Path) -> list[str]:
    return [
        *("--leader-elect=false", "--bind-address=127.0.0.1"),
        "--use-service-account-credentials=true",
        f"--root-ca-file={folder}/pki/ca.crt",
        f"--service-account-private-key-file={folder}/pki/accounts.key",
    ]


def _kubelet_options(folder: Path) -> list[str]:
    return [
        f"--config={folder}/kubelet.yaml",
        f"--hostname-override={config.NODE}",
        f"--node-ip={config.NODE_ADDRESS}",
        f"--root-dir={folder}/kubelet",
        f"--cert-dir={folder}/kubelet/pki",
    ]
