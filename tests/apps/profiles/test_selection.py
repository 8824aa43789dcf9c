"""Which profile a launch uses (reference: control-plane 10)."""

from __future__ import annotations

import pytest

from apps.profiles.api import LaunchProfile, ProfileInvalid, ProfileNotInSuite, select_profile
from apps.suites.api import find_suite
from apps.suites.lifespan import profiles as probe


@pytest.fixture
def suite(tmp_path, settings):
    settings.SUITES_DIR = tmp_path
    (tmp_path / "s" / "profiles").mkdir(parents=True)
    (tmp_path / "s" / "suite.star").write_text('task.run("t", image="x")')

    def write(**profiles: str) -> None:
        for name, text in profiles.items():
            (tmp_path / "s" / "profiles" / f"{name}.yaml").write_text(text)

    return write


def select(requested: str = "") -> LaunchProfile:
    return select_profile(find_suite("s").profiles, requested, suite_id="s")


def test_an_explicit_profile_wins_by_file_name_or_id(suite):
    suite(a="", b="default: true", base="")

    assert select("a.yaml").file_name == "a.yaml"
    assert select("a").file_name == "a.yaml"
    assert select("base.yaml").file_name == "base.yaml"


def test_else_the_default_else_the_first_launchable(suite):
    suite(a="", base="")
    assert select().file_name == "a.yaml"

    suite(b="default: true")
    assert select("").file_name == "b.yaml"


def test_a_suite_without_profiles_has_none(suite):
    chosen = select()

    assert (chosen.file_name, chosen.label, chosen.env, chosen.services) == ("", "", {}, {})
    assert chosen.observability == {"logs": True, "traces": True, "metrics": True}


def test_a_chain_is_merged(suite):
    suite(
        base="{env: {A: 1, B: 1}, services: {t: {env: {C: 1}}}}",
        ci="{extendsId: base, env: {A: null}}",
    )

    chosen = select("ci")

    assert (chosen.label, chosen.env, chosen.services) == ("Ci", {"B": "1"}, {"t": {"C": "1"}})


def test_an_unknown_profile_is_refused(suite):
    suite(a="")

    with pytest.raises(ProfileNotInSuite) as caught:
        select("b.yaml")

    assert caught.value.problem_code == "profile_not_in_suite"


def test_a_broken_profile_is_refused_with_file_and_line(suite):
    suite(a="name: x\nenv: [y]")

    with pytest.raises(ProfileInvalid) as caught:
        select("a")

    assert caught.value.detail == "profiles/a.yaml:2: env must be a mapping"
    assert caught.value.errors[0].line == 2


def test_readiness_reads_every_profile_and_counts_the_broken_ones(suite):
    suite(a="", b="default: [")

    result = probe()

    assert (result.ready, result.detail) == (True, "2 profiles, 1 of them invalid")


def test_without_the_folder_of_the_suites_profiles_are_not_ready(tmp_path, settings):
    settings.SUITES_DIR = tmp_path / "away"

    result = probe()

    assert not result.ready
    assert result.detail == "the folder of the suites cannot be read: No such file or directory"
