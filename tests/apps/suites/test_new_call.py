"""A new call is one file: that of docs/guides/adding-a-suite-call.md, dropped into a package."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.suites import api, calls
from apps.suites.calls import node_kinds
from apps.suites.evaluator import process
from kernel.registry import import_plugins
from tests.support import guides, suite_reference

ROOT = Path(__file__).resolve().parents[3]
MODULE = "apps/suites/calls/sql.py"


@pytest.fixture
def sql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The guide's file in a copy of what the evaluator process imports, and in this process."""
    copy = tmp_path / "tree"
    for package in ("apps/suites", "kernel", "readers"):
        shutil.copytree(ROOT / package, copy / package)
    shutil.copy(ROOT / "apps" / "__init__.py", copy / "apps")
    (copy / MODULE).write_text(guides.file_of("adding-a-suite-call.md", MODULE))
    monkeypatch.setattr(process, "_CHILD", copy / "apps/suites/evaluator/child.py")
    monkeypatch.setattr(calls, "__path__", [str((copy / MODULE).parent)])
    monkeypatch.setattr(node_kinds, "_entries", dict(node_kinds._entries))
    import_plugins(calls.__name__, calls.__path__)
    yield
    sys.modules.pop("apps.suites.calls.sql")


def test_a_suite_can_use_it_at_once(sql, workspace):
    nodes = workspace.topology(
        'db = service.run("db", image="postgres:17", ports=[5432])\n'
        'rows = sql.run("rows", statements=["SELECT 1"], after=db, timeout="5s")\n'
        'rows.export("plan.txt")\n'
    )

    assert (nodes[1]["kind"], nodes[1]["variant"], nodes[1]["dependsOn"]) == ("sql", "run", ["db"])
    assert nodes[1]["command"] == ["psql", "-c", "SELECT 1"]
    assert (nodes[1]["image"], nodes[1]["timeoutMs"]) == ("postgres:17-alpine", 5000)
    assert nodes[1]["evaluation"] == {"expectExit": 0}
    assert [export["path"] for export in nodes[1]["artifactExports"]] == ["plan.txt"]


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ('sql.run("a", statement="x")', "unknown_keyword", "retries, statements, timeout"),
        ('sql.run("a", statements=1)', "wrong_type", "sql.run: statements must be a list"),
        ("sql.rum()", "eval_error", "did you mean sql.run?"),
        ("sql()", "eval_error", 'sql is not callable; use sql.run("name", statements='),
    ],
)
def test_its_errors_name_it_and_the_line(sql, workspace, text, code, says):
    error = workspace.error(f"\n{text}\n")

    assert (error["code"], error["line"]) == (code, 2)
    assert says in error["message"]


def test_runners_claim_it_and_the_documentation_shows_it(sql):
    assert api.container_kinds() == ("service", "sql", "task", "test")
    assert "| `sql.run(…)` | a container that runs SQL statements with psql |\n" in [
        *suite_reference.calls()
    ]
    assert "| `statements` | sql | the statements, in order |\n" in [*suite_reference.keywords()]


def test_without_the_file_nothing_knows_it(workspace):
    assert "sql" not in node_kinds
    assert workspace.error('sql.run("a")')["code"] == "eval_error"
