"""`partita settings`, `worker` and `mock` as they are typed, against a real `up`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from tests.integration.suites import make_suites
from tests.support.openapi_answers import check_against_openapi
from tests.support.processes import ROOT, until
from tests.support.typed import Typed
from tests.support.up import Up

pytestmark = pytest.mark.slow
SHOP = ROOT / "examples" / "oci-suites" / "shop"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("installation")
    suites = make_suites(folder / "suites")
    shutil.copytree(SHOP, suites / "shop")
    more = {"SUITES_DIR": str(suites), "UP_DEMO": "0", "LOCAL_RUNTIME": "process"}
    with Up(folder / "up", **more, XDG_STATE_HOME=str(folder / "state")) as up:
        yield up


@pytest.fixture
def here(up: Up, tmp_path: Path) -> Typed:
    """Somebody on the machine of the `up`, who knows its data folder."""
    return Typed(tmp_path, DATA_DIR=str(up.data), SUITES_DIR=up.environment["SUITES_DIR"])


def test_the_settings_go_out_and_come_back(here: Typed, tmp_path: Path):
    before = here.json("settings", "show")
    check_against_openapi("platform_settings_get", before)
    now = tmp_path / "now.yaml"
    now.write_text(here.run("settings", "show", "-o", "yaml"))
    assert here.run("settings", "diff", "now.yaml") == "nothing differs\n"
    changed = yaml.safe_load(now.read_text()) | {"description": "ours"}
    now.write_text(yaml.safe_dump(changed))

    planned = json.loads(here.run("settings", "diff", "now.yaml", "-o", "json", code=1))
    assert planned["changes"] == [{"key": "description", "old": "", "new": "ours"}]
    assert here.json("settings", "apply", "now.yaml", "--dry-run") == planned
    assert here.json("settings", "apply", "now.yaml")["dryRun"] is False

    assert here.json("settings", "show")["description"] == "ours"
    assert here.json("admin", "settings", "show")["description"] == "ours"


def test_a_fault_of_a_file_has_file_line_and_key(here: Typed, tmp_path: Path):
    (tmp_path / "new.yaml").write_text(
        "mode: local\nagents: [{agentId: a, nmae: A, type: local}]\n"
    )

    said = here.run("settings", "apply", "new.yaml", code=1)

    assert "error validation_failed: new.yaml:2:23: " in said
    assert '"nmae" is not a known key; did you mean name?' in said


def test_a_registry_that_does_not_answer_is_tested(here: Typed, tmp_path: Path):
    former = here.run("settings", "show", "-o", "yaml")
    (tmp_path / "former.yaml").write_text(former)
    registry = {
        "registryId": "gone", "name": "Gone", "provider": "Zot", "allowLocalNetwork": True,
        "registryUrl": "http://127.0.0.1:9",
    }  # fmt: skip
    (tmp_path / "with.json").write_text(
        json.dumps(yaml.safe_load(former) | {"registries": [registry]})
    )
    here.run("settings", "apply", "with.json")

    said = here.run("settings", "registries", "test", "gone", "-o", "json", code=6)

    check_against_openapi("platform_settings_test_registry", json.loads(said)["registries"][0])
    here.run("settings", "registries", "sync", code=6)
    here.run("settings", "apply", "former.yaml")


def test_a_drained_runner_takes_no_run_until_it_is_resumed(here: Typed):
    found = here.json("worker", "status")
    check_against_openapi("agents_list", found["agents"], member="agents")
    [name] = here.run("worker", "list", "--state", "online", "-o", "name").split()

    here.run("worker", "drain", name)
    try:
        assert here.json("worker", "show", name)["draining"] is True
        assert "1 of them draining" in here.run("worker", "status")
        assert "Administrator" in here.run("run", "launch", "hello", code=6)
    finally:
        here.run("worker", "resume", name)

    here.run("run", "launch", "hello", "--wait")
    assert "runner" in here.run("worker", "remove", name, "-y", code=5)


def test_mocks_are_explained_asked_and_reset(here: Typed, up: Up):
    here.run("mock", "reset", "shop", "--calls")
    explained = here.json(
        "mock", "explain", "shop", "shop", "POST", "/orders", "-d", '{"apple": 1}'
    )
    check_against_openapi("mocks_explain", explained)
    answer = httpx.post(f"{up.url}/mocks/rest/shop/shop/orders", json={"apple": 1})
    assert answer.status_code == 201, answer.text

    here.run("mock", "verify", "shop", "--method", "POST", "--path", "/orders", "--count", "1")
    missed = here.run("mock", "verify", "shop", "--path", "/orders", "--count", "3", code=1)
    assert missed.startswith("✗ ")
    check_against_openapi("mocks_journal", here.json("mock", "journal", "shop"))
    assert "/orders" in here.run("mock", "journal", "shop")
    check_against_openapi("mocks_state", here.json("mock", "state", "shop"))
    here.run("mock", "state", "shop", "--key", "orders", "--set", "placed=7")
    assert "placed=7" in here.run("mock", "state", "shop")
    reset = here.json("mock", "reset", "shop", "--calls")
    assert (reset["removed"], reset["forgottenCalls"]) == (1, 1)


def test_a_journal_is_followed_until_ctrl_c(here: Typed, up: Up):
    following = here.start("mock", "journal", "shop", "--follow", "-o", "json")
    assert following.stdout
    try:

        def call() -> bool:
            return httpx.get(f"{up.url}/mocks/rest/shop/shop/goods?q=ea").status_code == 200

        until(call, within_s=20, what="the mock answers")
        assert json.loads(following.stdout.readline())["path"] == "/goods"
    finally:
        following.send_signal(2)
        _, err = following.communicate(timeout=30)
    assert (following.returncode, err) == (130, "")


def test_verbs_of_files_need_no_server(here: Typed, tmp_path: Path):
    nobody = Typed(tmp_path, SUITES_DIR=here.environment["SUITES_DIR"])

    assert "$schema" in nobody.json("mock", "schema", "examples")
    assert "no server is known" in nobody.run("mock", "state", "shop", code=6)
    assert "no server is known" in nobody.run("worker", "list", code=6)
