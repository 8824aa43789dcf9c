"""What a step's environment will be: the same as it gets, with origins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apps.executions import conf
from apps.executions.api import explain_env
from apps.executions.domain.steps import BuiltIns, layered_env
from apps.profiles.api import ProfileNotInSuite, merge_chain
from apps.profiles.domain.drafts import DraftRules
from apps.suites.api import find_suite
from apps.suites.domain.definition import suite_of
from apps.suites.domain.package import Package
from apps.suites.evaluation.library import library
from apps.suites.selectors import resolve
from kernel.errors import NotFound
from tests.support.files import write_files

STAR = """
load("@partita/runtime", "task")
task.run(name = "say-it", image = "busybox:1.36", env = {"NODE": "node", "BOTH": "node"})
"""
SETTINGS = """
agents: [{agentId: local-docker, name: Local Docker, type: local}]
secrets:
  globalOverrides:
  - {key: BOTH, value: override}
  - {key: CHAIN, value: override}
  - {key: HIDDEN, value: the-override, sensitive: true}
"""
BASE = """
env: {CHAIN: base, GONE: base, BOTH: base}
services: {say-it: {env: {STEP: base, UNSET: base}}}
secretRefs: [{key: TOKEN, provider: local, ref: inherited}]
"""
CI = """
extendsId: base
default: true
env: {GONE: null, HIDDEN: profile}
services: {say-it: {env: {UNSET: null, NODE: by name}}}
secretRefs: [{key: TOKEN, provider: local, ref: psp}]
"""


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.SUITES_DIR = tmp_path / "suites"
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "configuration.yaml"
    settings.PLATFORM_SETTINGS_FILE.write_text(SETTINGS)
    folder = settings.SUITES_DIR / "shop"
    write_files(folder, {"suite.star": STAR, "profiles/base.yaml": BASE, "profiles/ci.yaml": CI})
    monkeypatch.setenv("PARTITA_SECRET_PSP", "the-planted-value")


pytestmark = pytest.mark.django_db


def origins() -> dict[str, tuple[str, str]]:
    return {each.key: (each.value, each.origin) for each in explain_env("shop").variables}


def test_each_value_has_its_origin():
    found = origins()

    assert found["CHAIN"] == ("override", "platform settings")
    assert found["BOTH"] == ("node", "suite.star")
    assert found["NODE"] == ("by name", "ci.yaml services.say-it")
    assert found["STEP"] == ("base", "base.yaml services.say-it")
    assert found["TOKEN"] == ("***", "local: psp")
    assert found["PARTITA_STEP_ID"] == ("say-it", "platform")
    assert "GONE" not in found
    assert "UNSET" not in found


def test_what_was_replaced_is_named():
    by_key = {each.key: each for each in explain_env("shop", "ci").variables}

    assert by_key["BOTH"].replaced == (("platform settings", "override"), ("base.yaml", "base"))


def test_no_secret_is_read_or_shown():
    """Invariants 19 and 21: references are explained, and no variable of this process is read."""
    found = explain_env("shop")

    assert {"HIDDEN", "TOKEN"} == found.secrets
    assert "the-override" not in str(found)
    assert "the-planted-value" not in str(found)


def test_it_is_what_the_step_gets():
    suite = find_suite("shop")
    chain = merge_chain(suite.profiles, suite.profiles[0])
    node = resolve("shop", profile_env=chain.env).topology[0]
    overrides = {"BOTH": "override", "CHAIN": "override", "HIDDEN": "***"}

    gets = layered_env(
        node,
        profile={"env": chain.env, "services": chain.services},
        overrides=overrides,
        secrets={"TOKEN": "***"},
        built_ins={},
    )

    explained = {key: value for key, (value, _) in origins().items()}
    platform = {key for key, (_, origin) in origins().items() if origin == "platform"}
    assert {key: value for key, value in explained.items() if key not in platform} == gets


def test_unknown_names_are_refused():
    with pytest.raises(ProfileNotInSuite, match=r"known: base\.yaml, ci\.yaml"):
        explain_env("shop", "nobody")
    with pytest.raises(NotFound, match="known: say-it"):
        explain_env("shop", "ci", "nobody")


def test_every_built_in_variable_is_refused_in_profiles():
    rules = DraftRules(env_prefixes=("PARTITA", "ACME"), reference_problem=lambda *_: "")
    names = BuiltIns(
        execution_id="", suite_id="", source_suite_id="", profile="", step_id="", step_name="",
        step_kind="", attempt=1, mock_base_url="",
    ).variables(rules.env_prefixes)  # fmt: skip

    assert all(map(rules.is_built_in, [*names, "TRACEPARENT", "PARTITA_MOCK_PSP_URL"]))
    assert not any(map(rules.is_built_in, ["PARTITA_OTHER", "STEP_ID", "XPARTITA_STEP_ID"]))
    assert "PARTITA" in conf.env_prefixes()


def test_another_version_than_the_listed_one_is_explained_as_itself(monkeypatch):
    files = {"suite.star": STAR.replace("say-it", "later").encode()}
    second = suite_of(Package(suite_id="shop", files=files))
    monkeypatch.setattr(library.index, "find", lambda _named: second)

    assert explain_env("registry.example/core/shop:2").step_id == "later"
