"""`check_cluster` on a real cluster, as the account of the Role; each right is missing once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster_accounts import Account
from tests.support.cluster_commands import kubectl, server_of
from worker.domain.cluster_options import ClusterOptions
from worker.domain.runtime import RuntimeOptions
from worker.runtimes.kubernetes.cluster_check import Check, check_cluster
from worker.runtimes.kubernetes.rights import RIGHTS

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
PULL_S = 60


async def _list_problems(options: RuntimeOptions, pulls: tuple[str, ...]) -> list[Check]:
    found = [each async for each in check_cluster(options, pulls=pulls, pull_s=PULL_S)]
    return [each for each in found if each.state != "ok"]


def check(account: Account, *, namespace: str = "", pulls: tuple[str, ...] = ()) -> list[Check]:
    """Return what is not ok for the account, in its own namespace or another one."""
    server, authority = server_of()
    cluster = ClusterOptions(
        server=server,
        authority=authority,
        token=account.token(),
        namespace=namespace or account.namespace,
    )
    options = RuntimeOptions(state_dir=Path("/none"), installation_id="", cluster=cluster)
    return asyncio.run(_list_problems(options, pulls))


@pytest.fixture(scope="module")
def account() -> Iterator[Account]:
    made = Account()
    made.create()
    yield made
    made.remove()


def names(checks: list[Check]) -> list[tuple[str, str, str]]:
    return [(each.name, each.state, each.subject) for each in checks]


def test_the_role_lacks_nothing(account: Account) -> None:
    account.grant(RIGHTS)

    assert names(check(account)) == [("namespace", "unknown", account.namespace)]


def test_each_right_that_is_taken_away_is_found_and_no_other(account: Account) -> None:
    for right in RIGHTS:
        account.grant(tuple(each for each in RIGHTS if each != right))

        missing = [each.subject for each in check(account) if each.name == "right"]

        assert missing == [str(right)]


def test_what_the_cluster_would_refuse_is_said_in_its_words(account: Account) -> None:
    account.grant(RIGHTS)
    account.kubectl("create", "quota", "small", "--hard=pods=0")
    try:
        (refused,) = [each for each in check(account) if each.name == "pod"]
        assert "exceeded quota: small" in refused.detail
    finally:
        account.kubectl("delete", "quota", "small")

    label = "pod-security.kubernetes.io/enforce"
    kubectl("label", "namespace", account.namespace, f"{label}=restricted")
    try:
        (refused,) = [each for each in check(account) if each.name == "pod"]
        assert 'violates PodSecurity "restricted:latest"' in refused.detail
        assert refused.detail.endswith(f"label the namespace {label}=baseline")
    finally:
        kubectl("label", "namespace", account.namespace, f"{label}-")


def test_images_are_pulled_by_a_pod_that_is_removed(account: Account) -> None:
    account.grant(RIGHTS)

    found = check(account, pulls=("busybox:1.36", "registry.invalid/absent:1"))

    assert ("pull", "missing", "registry.invalid/absent:1") in names(found)
    assert ("pull", "missing", "busybox:1.36") not in names(found)
    assert account.kubectl("get", "pods", "--output", "name") == ""


def test_in_another_namespace_the_account_has_no_right(account: Account) -> None:
    account.grant(RIGHTS)
    found = check(account, namespace="default")

    assert [each.subject for each in found if each.name == "right"] == [str(r) for r in RIGHTS]
