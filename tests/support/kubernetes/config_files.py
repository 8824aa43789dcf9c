"""The files that the programs of a cluster read: keys, kubeconfigs and configurations."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

NODE: Final = "node-1"
HOST_ADDRESS: Final = "10.94.0.1"
NODE_ADDRESS: Final = "10.94.0.2"
POD_ADDRESSES: Final = "10.94.1.0/24"
SERVICE_ADDRESSES: Final = "10.94.2.0/24"
API_ADDRESS: Final = "10.94.2.1"  # the first of the services
DNS_ADDRESS: Final = "10.94.2.10"
CGROUP: Final = "partita-test-kubernetes"
PAUSE_IMAGE: Final = "docker.io/partita/pause:1"
ACCOUNTS: Final = {  # whose kubeconfig is <name>.conf: user, group
    "admin": ("admin", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "proxy": ("system:kube-proxy", ""),
    "kubelet": (f"system:node:{NODE}", "system:nodes"),
}
_NAMES: Final = (
    *(f"IP:{address}" for address in (NODE_ADDRESS, "127.0.0.1", API_ADDRESS)),
    *("DNS:localhost", f"DNS:{NODE}", "DNS:kubernetes", "DNS:kubernetes.default"),
    *("DNS:kubernetes.default.svc", "DNS:kubernetes.default.svc.cluster.local"),
)


def write_all(folder: Path) -> None:
    _write_keys(folder / "pki")
    _write_kubeconfigs(folder)
    (folder / "resolv.conf").write_text(f"nameserver {DNS_ADDRESS}\n")
    (folder / "containerd.toml").write_text(_containerd(folder))
    _write(folder / "cni" / "10-partita.conflist", _pod_network(folder))
    _write(folder / "kubelet.yaml", _kubelet(folder))
    _write(folder / "proxy.yaml", _proxy(folder))
    (folder / "Corefile").write_text(
        f"cluster.local:10053 in-addr.arpa:10053 {{\n  bind {NODE_ADDRESS}\n  errors\n"
        f"  kubernetes cluster.local in-addr.arpa {{\n    kubeconfig {folder}/admin.conf\n"
        "    ttl 2\n  }\n}\n"
    )


def _write(path: Path, document: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1))  # which is YAML, too


def _write_keys(folder: Path) -> None:
    """Make an authority, which signs one certificate each, and the key of service accounts."""
    folder.mkdir(parents=True)
    subject = ["-subj", "/CN=partita-test"]
    _openssl(
        folder,
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", *subject),
        *("-keyout", "ca.key", "-out", "ca.crt"),
    )
    (folder / "names").write_text(f"subjectAltName={','.join(_NAMES)}\n")
    sign_certificate(folder, "server", "/CN=kube-apiserver")
    sign_certificate(folder, "kubelet-server", f"/CN={NODE}")
    sign_certificate(folder, "kubelet-client", "/O=system:masters/CN=apiserver-kubelet")
    _openssl(folder, "genrsa", "-out", "accounts.key", "2048")
    _openssl(folder, "rsa", "-in", "accounts.key", "-pubout", "-out", "accounts.pub")


def sign_certificate(folder: Path, name: str, subject: str) -> None:
    """Make <name>.key and <name>.crt in the folder of the keys."""
    request = ("req", "-newkey", "rsa:2048", "-nodes", "-subj", subject)
    _openssl(folder, *request, "-keyout", f"{name}.key", "-out", f"{name}.csr")
    authority = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30")
    signed = ("x509", "-req", "-in", f"{name}.csr", *authority, "-extfile", "names")
    _openssl(folder, *signed, "-out", f"{name}.crt")


def _openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def _write_kubeconfigs(folder: Path) -> None:
    rows = []
    for number, (name, (user, group)) in enumerate(ACCOUNTS.items()):
        rows.append(f'token-{name},{user},{number},"{group}"')
        _write(folder / f"{name}.conf", kubeconfig(folder, {"token": f"token-{name}"}))
    (folder / "pki" / "tokens.csv").write_text("\n".join(rows) + "\n")


def kubeconfig(folder: Path, user: dict[str, Any], *, namespace: str = "default") -> dict[str, Any]:
    """Return a kubeconfig of the cluster in `folder` for somebody with this credential."""
    server = f"https://{NODE_ADDRESS}:6443"
    authority = str(folder / "pki" / "ca.crt")
    context = {"cluster": "tests", "user": "tests", "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "tests", "cluster": {"server": server, "certificate-authority": authority}}
        ],
        "users": [{"name": "tests", "user": user}],
        "contexts": [{"name": "tests", "context": context}],
        "current-context": "tests",
    }


def _containerd(folder: Path) -> str:
    # the kernel's priorities of killing are left alone: lowering one takes a right that
    # containers of tests often lack
    return f"""\
version = 2
root = "{folder}/containerd/root"
state = "{folder}/containerd/state"
oom_score = 0
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
"""


def _pod_network(folder: Path) -> dict[str, Any]:
    addresses = {
        "type": "host-local",
        "dataDir": str(folder / "addresses"),
        "ranges": [[{"subnet": POD_ADDRESSES}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": "partita0",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": addresses,
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "0.4.0", "name": "partita", "plugins": [bridge, ports]}


def _kubelet(folder: Path) -> dict[str, Any]:
    keys = folder / "pki"
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NODE_ADDRESS,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(keys / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(keys / "kubelet-server.crt"),
        "tlsPrivateKeyFile": str(keys / "kubelet-server.key"),
        "containerRuntimeEndpoint": f"unix://{folder}/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{CGROUP}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "localStorageCapacityIsolation": False,
        "makeIPTablesUtilChains": False,
        "oomScoreAdj": 0,
        "clusterDNS": [DNS_ADDRESS],
        "clusterDomain": "cluster.local",
        "resolvConf": str(folder / "resolv.conf"),
        "volumePluginDir": str(folder / "volume-plugins"),
        # a kubelet removes the logs of pods that it does not know: of other clusters, too
        "podLogsDir": str(folder / "pod-logs"),
        "registryPullQPS": 0,
        "syncFrequency": "5s",
    }


def _proxy(folder: Path) -> dict[str, Any]:
    limits = {
        "maxPerCore": 0,
        "min": 0,
        "tcpEstablishedTimeout": "0s",
        "tcpCloseWaitTimeout": "0s",
    }
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(folder / "proxy.conf")},
        "hostnameOverride": NODE,
        "mode": "iptables",
        "clusterCIDR": POD_ADDRESSES,
        "conntrack": limits,
        "metricsBindAddress": "127.0.0.1:10249",
        "healthzBindAddress": "127.0.0.1:10256",
    }
