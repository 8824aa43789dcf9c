"""A real cluster reached from outside by a kubeconfig: each kind of credential, and wrong ones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.contracts.runtime.conftest import Driver, shell_node
from tests.support import cluster_accounts, steps
from tests.support.cluster_accounts import Account, Kubeconfig, Signer
from tests.support.processes import ROOT
from tests.support.servers import free_port
from tests.sync.gateway.certificates import Authority
from worker.domain.cluster_options import ClusterOptions
from worker.domain.runtime import RuntimeOptions, RuntimeUnavailable
from worker.runtimes.kubernetes.cluster_check import Check, check_cluster
from worker.runtimes.kubernetes.rights import RIGHTS
from worker.runtimes.kubernetes.runtime import KubernetesRuntime

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
HOUR = timedelta(hours=1)
WAYS = ("token", "token-file", "certificate", "plug-in", "plug-in-certificate")


@pytest.fixture(scope="module")
def account() -> Iterator[Account]:
    made = Account()
    made.create()
    yield made
    made.remove()


@pytest.fixture(scope="module")
def kubeconfig(account: Account, tmp_path_factory: pytest.TempPathFactory) -> Kubeconfig:
    """A kubeconfig with a context for each of WAYS, and for what must be refused."""
    signer = Signer.of_cluster()
    folder = tmp_path_factory.mktemp("operator") / "kube"
    made = Kubeconfig(folder, account.namespace)
    token, pair = account.token(), signer.certificate(account.user, until=HOUR)
    old_token, old_pair = (
        signer.token(account, until=-HOUR),
        signer.certificate(account.user, until=-HOUR),
    )
    made.add("token", {"token": token})
    (folder / "token.txt").write_text(f"{token}\n")
    made.add("token-file", {"tokenFile": "token.txt"})
    made.add_certificate("certificate", pair)
    made.add_plugin("plug-in", cluster_accounts.printing(token=token))
    both = {"clientCertificateData": pair[0], "clientKeyData": pair[1]}
    made.add_plugin("plug-in-certificate", cluster_accounts.printing(**both))
    made.add("old-token", {"token": old_token})
    made.add_certificate("old-certificate", old_pair)
    made.add_plugin("plug-in-old", cluster_accounts.printing(token=old_token))
    made.add_plugin("plug-in-failing", "#!/bin/sh\necho no session >&2\nexit 3\n")
    made.add_plugin("plug-in-garbage", "#!/bin/sh\necho hello\n")
    absent = {"command": "partita-no-such-program", "installHint": "ask the platform team"}
    version = {"apiVersion": cluster_accounts.PLUGIN_VERSION}
    made.add("plug-in-absent", {"exec": {**absent, **version}})
    return made


def options(path: Path, context: str, state_dir: Path = Path("/none")) -> RuntimeOptions:
    return RuntimeOptions(
        state_dir=state_dir,
        installation_id=steps.INSTALLATION,
        cluster=ClusterOptions(kubeconfig=str(path), context=context),
    )


async def problems(path: Path, context: str) -> list[Check]:
    found = [each async for each in check_cluster(options(path, context))]
    return [each for each in found if each.state == "missing"]


@pytest.mark.parametrize("context", WAYS)
async def test_a_context_of_the_kubeconfig_lacks_nothing_and_runs_a_step(
    kubeconfig: Kubeconfig, context: str, tmp_path: Path
) -> None:
    assert await problems(kubeconfig.path, context) == []

    def opened() -> KubernetesRuntime:
        return KubernetesRuntime(options(kubeconfig.path, context, tmp_path))

    driver = Driver(runtime=opened(), reopen=opened, words_to_node=shell_node)
    try:
        unit = await driver.start("write:a.txt=made", "out:hello", "exit:3")
        assert await driver.texts(unit) == ["hello\n"]
        assert (await driver.runtime.wait(unit)).exit_code == 3
        collected = await driver.runtime.collect(unit, "a.txt")  # by exec, over a WebSocket
        assert [each.body for each in collected.files] == [b"made"]
    finally:
        await driver.close()


@pytest.mark.parametrize(
    ("context", "name", "words"),
    [
        ("nowhere", "access", "the kubeconfig has no context 'nowhere': it has certificate, old"),
        ("old-token", "api", "refuses the token of the user 'old-token' of the kubeconfig, which"),
        ("old-token", "api", ": put a new one into the file"),
        ("old-certificate", "api", "refuses the client certificate of the user 'old-certificate'"),
        ("plug-in-old", "api", "refuses what the exec plug-in ./plug-in-old printed, which expire"),
        ("plug-in-failing", "api", "./plug-in-failing ended with code 3: run it as the user"),
        ("plug-in-garbage", "api", "./plug-in-garbage did not print an ExecCredential"),
        ("plug-in-absent", "api", "partita-no-such-program is not there: ask the platform team"),
    ],
)
async def test_a_credential_that_lets_nobody_in_is_said_with_what_to_do(
    kubeconfig: Kubeconfig, context: str, name: str, words: str
) -> None:
    (problem,) = await problems(kubeconfig.path, context)

    assert problem.name == name
    assert words in problem.detail


async def test_a_step_whose_token_has_expired_says_so(
    kubeconfig: Kubeconfig, tmp_path: Path
) -> None:
    def opened() -> KubernetesRuntime:
        where = options(kubeconfig.path, "old-token", tmp_path)
        return KubernetesRuntime(where, unavailable_after_s=1)

    driver = Driver(runtime=opened(), reopen=opened, words_to_node=shell_node)
    try:
        with pytest.raises(RuntimeUnavailable, match="which expired at"):
            await driver.start("out:hello")
    finally:
        await driver.runtime.close()


async def test_the_authority_of_another_cluster_is_said(account: Account, tmp_path: Path) -> None:
    other = Kubeconfig(tmp_path / "kube", account.namespace)
    other.cluster["certificate-authority"] = str(Authority(tmp_path).file)
    other.add("token", {"token": account.token()})

    (problem,) = await problems(other.path, "")

    assert problem.name == "api"
    assert problem.detail.startswith("the API server's certificate is not trusted: the certificate")


async def test_an_address_where_nothing_listens_is_said(account: Account, tmp_path: Path) -> None:
    other = Kubeconfig(tmp_path / "kube", account.namespace)
    other.cluster["server"] = f"https://127.0.0.1:{free_port()}"
    other.add("token", {"token": account.token()})

    (problem,) = await problems(other.path, "")

    assert problem.subject == other.cluster["server"]
    assert "does not answer" in problem.detail


@pytest.mark.parametrize(
    ("context", "code", "words"),
    [
        ("certificate", 0, f"{len(RIGHTS)} of {len(RIGHTS)}"),
        ("nowhere", 6, "the kubeconfig has no context 'nowhere'"),
        ("plug-in-failing", 6, "./plug-in-failing ended with code 3"),
    ],
)
def test_the_command_says_it_too(
    kubeconfig: Kubeconfig, tmp_path: Path, context: str, code: int, words: str
) -> None:
    command = [sys.executable, "manage.py", "check_cluster", "--kubeconfig", str(kubeconfig.path)]
    environment = {"PATH": os.environ["PATH"], "DB_DRIVER": "sqlite", "DATA_DIR": str(tmp_path)}

    done = subprocess.run(
        [*command, "--context", context], cwd=ROOT, env=environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == code, done.stderr
    assert words in done.stdout
