"""`suite lint`: what is valid but probably wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from apps.suites import api
from apps.suites.authoring import checks
from tests.apps.suites.test_imports import EXAMPLES, typed

pytestmark = pytest.mark.slow  # a process for each evaluation

GOOD = """
db = service.run(name = "db", image = "a:1", ports = [1])
test.run(name = "t", file = "t.sh", image = "a:1", after = [db])
"""
CODES = [
    "floating_image",
    "unused_service",
    "mock_not_awaited",
    "shared_export",
    "never_ready",
    "never_runs",
    "unused_file",
    "missing_file",
    "unknown_step",
    "unread_variable",
    "plain_secret",
    "unused_dependency",
    "not_locked",
    "lock_outdated",
    "unused_pin",
    "unused_load",
    "unreachable_code",
    "no_effect",
    "unknown_key",
    "unused_ignore",
]
SCRIPT = {"tests/t.sh": "#!/bin/sh\necho $REGION\n"}


def found(workspace, star: str = GOOD, **more: str) -> list[tuple[str, str, int]]:
    """Code, file and line of each diagnostic."""
    files = (
        {"suite.star": star}
        | SCRIPT
        | {path.replace("__", "/"): text for path, text in more.items()}
    )
    workspace.add("s", files)
    return [(each.code, each.file, each.line) for each in checks.lint_suite("s")]


def profiled(text: str) -> dict[str, str]:
    return {"profiles__ci.yaml": text}


def test_a_good_suite_has_no_diagnostics(workspace):
    assert found(workspace, **profiled("env: {REGION: eu}\nservices: {db: {env: {A: b}}}\n")) == []


@pytest.mark.slow
def test_the_examples_have_no_diagnostics(settings, library):
    settings.SUITES_DIR = EXAMPLES
    for suite in api.list_suites():
        assert checks.lint_suite(suite["id"]) == []


@pytest.mark.parametrize(
    ("star", "code"),
    [
        ('task.run(name = "t", image = "postgres")', "floating_image"),
        ('task.run(name = "t", image = "host:5000/postgres")', "floating_image"),
        ('task.run(name = "t", image = "postgres:latest")', "floating_image"),
        ('service.run(name = "alone", image = "a:1")', "unused_service"),
        ('mock.serve(name = "alone")', "unused_service"),
        (
            'task.run(name = "t", image = "a:1", env = {"DB_PASSWORD": "hunter2"})',
            "plain_secret",
        ),
        (
            'task.run(name = "t", image = "a:1", env = {"X": "AKIAABCDEFGHIJKLMNOP"})',
            "plain_secret",
        ),
        (
            'x = service.run("x", image = "a:1", ready = {"log": "up", "start_period": "2m"})\n'
            'task.run(name = "t", image = "a:1", after = [x])',
            "never_ready",
        ),
        (
            'x = service.run("x", image = "a:1", ready = {"log": "is up"}, fail_on_logs = "up")\n'
            'task.run(name = "t", image = "a:1", after = [x])',
            "never_ready",
        ),
    ],
)
def test_a_node_that_is_most_likely_wrong(star, code, workspace):
    workspace.add("s", star)
    (diagnostic,) = checks.lint_suite("s")

    assert (diagnostic.code, diagnostic.severity) == (code, "warning")
    assert (diagnostic.file, diagnostic.line) == ("suite.star", 1)
    assert "hunter2" not in diagnostic.message
    assert "AKIA" not in diagnostic.message


def test_one_shared_report_of_two_steps_at_once_is_an_error_of_the_suite(workspace):
    path = '"/partita/workspace/r.xml", format = "junit"'
    lines = [f'test.run("{name}", image = "a:1").export({path})' for name in ("a", "b")]
    workspace.add("s", "\n".join(lines))

    (found,) = checks.lint_suite("s")

    assert (found.code, found.severity, found.line) == ("export_clash", "error", 2)
    assert "b: it exports /partita/workspace/r.xml" in found.message


@pytest.mark.parametrize(
    ("star", "code", "line", "column"),
    [
        ('load("@partita/redis", "redis", "url")\nredis()', "unused_load", 1, 33),
        ("def f():\n    return 1\n    print(1)\nf()", "unreachable_code", 3, 5),
        ("x = [1]\nx", "no_effect", 2, 1),
        (
            'm = mock.serve()\nx = task.run("x", image = "a:1", after = [m])\n'
            'task.run("t", image = "a:1", reset_mocks = [m])',
            "mock_not_awaited", 3, 1,
        ),
        (
            'm = mock.serve()\nx = task.run("x", image = "a:1", after = [m])\n'
            'test.run("t", image = "a:1", expect_calls = [{"mock": m}])',
            "mock_not_awaited", 3, 1,
        ),
        (
            'test.run("a", image = "a:1").export("/partita/workspace/out/a.txt")\n'
            'test.run("b", image = "a:1").export("/partita/workspace/out/*.txt")',
            "shared_export", 2, 1,
        ),
        (
            'log.info("x", name = "l")\ntask.run("t", image = "a:1", on_failure = "l")',
            "never_runs", 2, 1,
        ),
        (
            'a = task.run("a", image = "a:1")\n'
            'task.run("t", image = "a:1", after = a, on_failure = a)\n'
            'task.run("u", image = "a:1", after = "t")',
            "never_runs", 2, 1,
        ),
        ('task.run("t", image = "a:1", commands = ["sh tests/gone.sh"])', "missing_file", 1, 1),
        (
            'task.run("t", image = "a:1", command = ["x", "ghp_' + "a" * 36 + '"])',
            "plain_secret", 1, 1,
        ),
    ],
)  # fmt: skip
def test_a_line_that_is_most_likely_wrong(star, code, line, column, workspace):
    workspace.add("s", star + '\ntask.run("last", image = "a:1")\n')
    found = [each for each in checks.lint_suite("s") if each.code == code]

    assert (found[0].line, found[0].column, found[0].severity) == (line, column, "warning")
    assert "ghp_" not in found[0].message
    assert len(found) == 1 + (line == 2 and "after" in star)


def test_a_text_that_is_hostile_is_linted_within_the_limits(workspace):
    workspace.add("s", "(" * 200_000)
    assert {each.code for each in checks.lint_suite("s")} <= {"syntax_error", "limit_exceeded"}


def test_a_pinned_module_that_is_not_loaded(workspace):
    pin = f"registry.example/acme/things@sha256:{'0' * 64}"
    lock = f"locks: {{}}\nmodules:\n  '@acme/things': {pin}\n"
    workspace.add(
        "s", {"suite.star": 'task.run("t", image = "a:1")', "dependencies.lock.yaml": lock}
    )

    (found,) = checks.lint_suite("s")
    assert (found.code, found.file, found.line) == ("unused_pin", "dependencies.lock.yaml", 3)


@pytest.mark.parametrize(
    ("star", "codes"),
    [
        ('task.run("t", image = "a")  # partita: ignore[floating_image]', []),
        ('# it is ours\n# partita: ignore[floating_image]\ntask.run("t", image = "a")', []),
        (
            'task.run("t", image = "a")  # partita: ignore[plain_secret]',
            ["floating_image", "unused_ignore"],
        ),
        (
            'service.run("t", image = "a")  # partita: ignore[floating_image, unused_service]',
            [],
        ),
        ('task.run("t", image = "a:1")  # partita: ignore[floating_image]', ["unused_ignore"]),
        (
            "task.run(imge = 1)  # partita: ignore[unknown_keyword]",
            ["unknown_keyword", "unused_ignore"],
        ),
    ],
)
def test_a_comment_accepts_a_warning_but_no_error(star, codes, workspace):
    workspace.add("s", star)
    assert [each.code for each in checks.lint_suite("s")] == codes


def test_a_comment_in_a_profile_and_in_a_script(workspace):
    profile = "env:\n  REGION: eu\n  API_TOKEN: abcdefgh  # partita: ignore[plain_secret]\n"
    old = "# partita: ignore[unused_file]\necho\n"
    assert found(workspace, **profiled(profile), tests__old_sh="") == [
        ("unused_file", "tests/old_sh", 0)
    ]
    assert found(
        workspace, **profiled(profile), **{"tests__old.sh": old, "tests__old_sh": "# t.sh"}
    ) == [("unused_file", "tests/old_sh", 0)]


@pytest.mark.parametrize("image", ["a@sha256:" + "0" * 64, "host:5000/a:1", "a:1"])
def test_a_pinned_image_is_none_of_them(image, workspace):
    workspace.add("s", f'task.run(name = "t", image = "{image}")')
    assert checks.lint_suite("s") == []


@pytest.mark.parametrize(
    ("profile", "diagnostic"),
    [
        ("env:\n  REGION: eu\nservices:\n  dbb:\n    env: {A: b}\n", ("unknown_step", 4)),
        ("env:\n  REGION: eu\n  API_TOKEN: abcdefgh\n", ("plain_secret", 3)),
        ("env:\n  REGION: eu\nspeed: 1\n", ("unknown_key", 3)),
    ],
)
def test_a_profile_that_is_most_likely_wrong(profile, diagnostic, workspace):
    assert found(workspace, **profiled(profile)) == [
        (diagnostic[0], "profiles/ci.yaml", diagnostic[1])
    ]


def test_a_variable_that_no_file_reads(workspace):
    scripts_only = 'test.run(name = "t", file = "t.sh", image = "a:1")'
    profile = profiled("env:\n  REGION: eu\n  REGOIN: eu\n")

    assert found(workspace, scripts_only, **profile) == [("unread_variable", "profiles/ci.yaml", 3)]
    assert found(workspace, GOOD, **profile) == [], "an image may read any variable"


def test_a_script_that_nobody_runs(workspace):
    more = {"tests__old.sh": "echo\n", "tests__lib.sh": "echo\n"}
    star = GOOD + "# t.sh sources lib.sh\n"

    assert found(workspace, star, **more) == [("unused_file", "tests/old.sh", 0)]


def test_dependencies_that_are_most_likely_wrong(workspace):
    workspace.add("leaf", 'task.run(name = "t", image = "a:1", commands = ["echo $REGION"])')
    star = 'suite.run(name = "x", ref = "used")'
    dependencies = "dependencies:\n  used: {ref: leaf, inputs: {REGOIN: eu}}\n  other: leaf\n"
    workspace.add("s", {"suite.star": star, "dependencies.yaml": dependencies})

    assert [(each.code, each.line) for each in checks.lint_suite("s")] == [
        ("not_locked", 2),
        ("unread_variable", 2),
        ("not_locked", 3),
        ("unused_dependency", 3),
    ]


def test_a_suite_that_does_not_resolve_is_an_error_with_its_place(workspace):
    profiles = {"profiles/a.yaml": "env: {A: '1'}\n", "profiles/b.yaml": "env: [\n"}
    workspace.add("s", {"suite.star": 'x = env["A"]\ntask.run(imge = 1)'} | profiles)
    errors = checks.lint_suite("s")

    assert [(each.code, each.severity, each.file) for each in errors] == [
        ("profile_invalid", "error", "profiles/b.yaml"),
        ("unknown_keyword", "error", "suite.star"),
    ]
    assert errors[1].message.startswith("task.run: unknown keyword")
    assert errors[1].line == 2


def test_the_documentation_names_every_code_with_an_example():
    text = (EXAMPLES.parents[1] / "docs" / "suites.md").read_text()
    chapter = text.partition("## Checks\n")[2].partition("\n## ")[0]
    for code in CODES:
        assert f"| `{code}` |" in chapter, code


def test_the_command_prints_places_and_fails_on_errors_only(workspace, capsys):
    workspace.add("s", 'task.run(name = "t", image = "postgres")')

    assert typed("lint", "s") == 0
    assert "suite.star:1:1: t: the image" in capsys.readouterr().out
    assert typed("lint", "s", "--strict") == 1
    capsys.readouterr()
    assert typed("lint", "-o", "json") == 0
    (shown,) = json.loads(capsys.readouterr().out)["suites"]
    assert shown["diagnostics"][0]["code"] == "floating_image"

    Path(workspace.root / "s" / "suite.star").write_text("task.run(imge = 1)")
    assert typed("lint") == 1
    assert "1 error, 0 warnings" in capsys.readouterr().out
