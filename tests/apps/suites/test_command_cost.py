"""A command reads the suite that it is asked about, and evaluates what it has not kept."""

from __future__ import annotations

import json
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from apps.suites import api
from apps.suites.domain import definition
from apps.suites.evaluator import kept_answers, process
from apps.suites.evaluator.kept_answers import FILE_NAME, KeptAnswers
from apps.suites.selectors import SuiteNotFound, focus_on
from apps.suites.sources import index
from tests.apps.suites.conftest import Workspace
from tests.support.commands import run_command

TASK = 'task.run("t", image="a:1")\n'
IMPORT = 'suite.run(name = "i", ref = "other")\n'


@pytest.fixture(autouse=True)
def _data(settings: Any, tmp_path: Path) -> Path:
    settings.DATA_DIR = tmp_path / "data"
    return Path(settings.DATA_DIR)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the suites whose files were read."""
    found: list[str] = []
    real = definition.suite_of

    def noted(package: Any) -> Any:
        found.append(package.suite_id)
        return real(package)

    monkeypatch.setattr(index, "suite_of", noted)
    return found


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that an evaluator process was started for."""
    found: list[str] = []
    real = process._answer

    def noted(request: Any) -> Any:
        found.append(request["source"])
        return real(request)

    monkeypatch.setattr(process, "_answer", noted)
    return found


def typed(*words: str) -> int:
    return run_command("suite", *words)


def importing(workspace: Workspace, suite_id: str, ref: str) -> None:
    files = {
        "suite.star": IMPORT,
        "dependencies.yaml": f"dependencies: {{other: {{ref: '{ref}'}}}}",
    }
    workspace.add(suite_id, files)


@pytest.mark.parametrize("verb", ["validate", "show", "lint", "fmt"])
def test_a_command_about_one_suite_reads_no_other(
    workspace: Workspace, read: list[str], evaluated: list[str], verb: str
) -> None:
    for name in ("one", "two", "three"):
        workspace.add(name, TASK)

    assert typed(verb, "one") == 0

    assert set(read) == {"one"}
    assert len([text for text in evaluated if text == TASK]) <= 2  # once, and once for its lints


@pytest.mark.parametrize("ref", ["two", "workspace/two", "team/second", "from/profile"])
def test_what_a_suite_imports_is_read_with_it(
    workspace: Workspace, read: list[str], ref: str
) -> None:
    workspace.add(
        "two",
        {
            "suite.star": TASK,
            **({"metadata.yaml": "repository: team/second"} if ref == "team/second" else {}),
            **(
                {"profiles/p.yaml": "runtime: {repository: from/profile}"}
                if ref == "from/profile"
                else {}
            ),
        },
    )
    importing(workspace, "one", ref)
    importing(workspace, "above", "one")
    workspace.add("three", TASK)

    assert typed("validate", "above") == 0
    assert set(read) == {"above", "one", "two"}


def test_an_unknown_name_still_names_the_others(workspace: Workspace, capsys: Any) -> None:
    workspace.add("here", TASK)
    importing(workspace, "one", "nosuch")

    assert typed("validate", "nothing") == 3
    assert "there is no suite 'nothing'; known: here, one" in capsys.readouterr().err
    assert typed("validate", "one") == 1
    assert 'there is no suite "nosuch"; known: here, one' in capsys.readouterr().out


def test_what_was_evaluated_is_kept_for_the_next_command(
    workspace: Workspace, evaluated: list[str], capsys: Any
) -> None:
    workspace.add("one", TASK)
    workspace.add("two", 'task.run("u", image="a:1")\n')
    assert typed("list", "-o", "json") == 0
    first, seen = json.loads(capsys.readouterr().out), len(evaluated)
    selectors_library_forgets()

    assert typed("list", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == first
    assert (seen, len(evaluated)) == (2, 2)

    workspace.add("two", 'task.run("v", image="a:1")\n')
    assert typed("list") == 0
    assert len(evaluated) == 3


def selectors_library_forgets() -> None:
    """Forget what this process has in memory, as the next command would."""
    api.list_suites.__globals__["library"]._evaluations._kept.clear()
    api.list_suites.__globals__["library"]._prepared.clear()


REQUEST: Any = {"source": "a", "env": {}}
ANSWER: Any = {"nodes": [], "bound": {}, "printed": [], "loads": [], "problem": None}


def test_the_file_is_private_and_its_key_has_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = KeptAnswers(tmp_path)
    kept.keep(REQUEST, ANSWER)
    kept.write()

    assert KeptAnswers(tmp_path).find(REQUEST) == ANSWER
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600
    monkeypatch.setattr(kept_answers, "evaluator_digest", lambda: "of newer code")
    assert KeptAnswers(tmp_path).find(REQUEST) is None


def test_an_evaluation_that_a_limit_ended_is_not_kept(tmp_path: Path) -> None:
    kept = KeptAnswers(tmp_path)
    kept.keep(REQUEST, ANSWER | {"killed": True})
    kept.write()

    assert kept.find(REQUEST) is None


@pytest.mark.parametrize("broken", [b"no database at all" * 100, b"", b"\0" * 8192])
def test_a_broken_file_is_replaced(tmp_path: Path, broken: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(broken)
    kept = KeptAnswers(tmp_path)

    assert kept.find(REQUEST) is None
    kept.keep(REQUEST, ANSWER)
    kept.write()
    assert KeptAnswers(tmp_path).find(REQUEST) == ANSWER


def test_a_broken_answer_is_none(tmp_path: Path) -> None:
    kept = KeptAnswers(tmp_path)
    kept.keep(REQUEST, ANSWER)
    kept.write()
    with sqlite3.connect(tmp_path / FILE_NAME) as store:
        store.execute("UPDATE answers SET content = x'00'")

    assert KeptAnswers(tmp_path).find(REQUEST) is None


def test_the_file_stays_small_and_forgets_what_was_used_longest_ago(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_answers, "MOST_ANSWERS", 3)
    for number in range(3):
        kept = KeptAnswers(tmp_path)
        kept.keep(REQUEST | {"source": str(number)}, ANSWER)
        kept.write()
    kept = KeptAnswers(tmp_path)
    assert kept.find(REQUEST | {"source": "0"})
    kept.keep(REQUEST | {"source": "new"}, ANSWER)
    kept.write()

    left = [name for name in ["0", "1", "2", "new"] if kept.find(REQUEST | {"source": name})]
    assert left == ["0", "2", "new"]


def test_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    def write(number: int) -> None:
        kept = KeptAnswers(tmp_path)
        kept.keep(REQUEST | {"source": str(number)}, ANSWER)
        kept.write()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(40)))

    kept = KeptAnswers(tmp_path)
    assert all(kept.find(REQUEST | {"source": str(number)}) for number in range(40))


def test_a_suite_that_is_unknown_is_one_error(workspace: Workspace) -> None:
    focus_on(["nothing"])

    with pytest.raises(SuiteNotFound, match="none exist"):
        api.find_suite("nothing")
