"""A real Kubernetes on this machine for `make test-cluster`: etcd, control plane, one kubelet, DNS.

It is built once from the sources of Kubernetes and lives in one folder and one network namespace,
so that nothing of it touches the host's firewall or Docker; its end leaves neither.
"""
