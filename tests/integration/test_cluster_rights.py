"""`check_cluster` on a real cluster, as the account of the Role; each right is missing once."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.cluster_commands import kubectl, server_of
from tests.support.manifests import BASE
from worker.domain.cluster_options import ClusterOptions
from worker.domain.runtime import RuntimeOptions
from worker.runtimes.kubernetes.cluster_check import Check, check_cluster
from worker.runtimes.kubernetes.rights import RIGHTS, Right

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
ACCOUNT = "partita-runner"


class Account:
    """The service account of the manifests in a namespace of its own, reached by its token."""

    def __init__(self) -> None:
        self.namespace = f"partita-rights-{secrets.token_hex(3)}"

    def create(self) -> None:
        kubectl("create", "namespace", self.namespace)
        self.kubectl("create", "serviceaccount", ACCOUNT)
        self.grant(RIGHTS)
        binding = ("--role", ACCOUNT, "--serviceaccount", f"{self.namespace}:{ACCOUNT}")
        self.kubectl("create", "rolebinding", ACCOUNT, *binding)

    def kubectl(self, *words: str, text: str = "") -> str:
        return kubectl("--namespace", self.namespace, *words, text=text)

    def grant(self, rights: tuple[Right, ...]) -> None:
        rules = [{"apiGroups": [""], "resources": [r.resource], "verbs": [r.verb]} for r in rights]
        role = yaml.safe_load((BASE / "role.yaml").read_text())
        role["metadata"] = {"name": ACCOUNT, "namespace": self.namespace}
        self.kubectl("apply", "-f", "-", text=json.dumps({**role, "rules": rules}))

    def check(self, *, namespace: str = "", pulls: tuple[str, ...] = ()) -> list[Check]:
        """Return what is not ok, in its own namespace or another one."""
        server, authority = server_of()
        cluster = ClusterOptions(
            server=server,
            authority=authority,
            token=self.kubectl("create", "token", ACCOUNT).strip(),
            namespace=namespace or self.namespace,
        )
        options = RuntimeOptions(state_dir=Path("/none"), installation_id="", cluster=cluster)

        async def found() -> list[Check]:
            return [each async for each in check_cluster(options, pulls=pulls, pull_s=30)]

        return [each for each in asyncio.run(found()) if each.state != "ok"]


@pytest.fixture(scope="module")
def account() -> Iterator[Account]:
    made = Account()
    made.create()
    yield made
    kubectl("delete", "namespace", made.namespace, "--wait=false")


def names(checks: list[Check]) -> list[tuple[str, str, str]]:
    return [(each.name, each.state, each.subject) for each in checks]


def test_the_role_lacks_nothing(account: Account) -> None:
    account.grant(RIGHTS)

    assert names(account.check()) == [("namespace", "unknown", account.namespace)]


def test_each_right_that_is_taken_away_is_found_and_no_other(account: Account) -> None:
    for right in RIGHTS:
        account.grant(tuple(each for each in RIGHTS if each != right))

        missing = [each.subject for each in account.check() if each.name == "right"]

        assert missing == [str(right)]


def test_what_the_cluster_would_refuse_is_said_in_its_words(account: Account) -> None:
    account.grant(RIGHTS)
    account.kubectl("create", "quota", "small", "--hard=pods=0")
    try:
        (refused,) = [each for each in account.check() if each.name == "pod"]
        assert "exceeded quota: small" in refused.detail
    finally:
        account.kubectl("delete", "quota", "small")

    label = "pod-security.kubernetes.io/enforce"
    kubectl("label", "namespace", account.namespace, f"{label}=restricted")
    try:
        (refused,) = [each for each in account.check() if each.name == "pod"]
        assert 'violates PodSecurity "restricted:latest"' in refused.detail
        assert refused.detail.endswith(f"label the namespace {label}=baseline")
    finally:
        kubectl("label", "namespace", account.namespace, f"{label}-")


def test_images_are_pulled_by_a_pod_that_is_removed(account: Account) -> None:
    account.grant(RIGHTS)

    found = account.check(pulls=("busybox:1.36", "registry.invalid/absent:1"))

    assert ("pull", "missing", "registry.invalid/absent:1") in names(found)
    assert ("pull", "missing", "busybox:1.36") not in names(found)
    assert account.kubectl("get", "pods", "--output", "name") == ""


def test_in_another_namespace_the_account_has_no_right(account: Account) -> None:
    account.grant(RIGHTS)
    found = account.check(namespace="default")

    assert [each.subject for each in found if each.name == "right"] == [str(r) for r in RIGHTS]
