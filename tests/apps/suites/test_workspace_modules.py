"""Modules of the workspace: what they export and may load, and that hostile ones do no harm."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from django.conf import settings as project

from apps.suites.authoring import checks
from tests.support.files import write_files

pytestmark = pytest.mark.slow  # a process for each evaluation

ROOT = Path(__file__).resolve().parents[3]
USE = 'load("@acme/things", "make")\nmake("t")\n'
MAKE = """
load("@partita/runtime", "task")
load("_words.star", "greeting")

def make(name):
    return task.run(name, image = "a:1", command = ["echo", greeting(name)])
"""
WORDS = 'def greeting(name):\n    return "hello " + utils.quoted(name)\n'
GOOD = {"make.star": MAKE, "_words.star": WORDS}


def write(files: Mapping[str, str | bytes], label: str = "acme/things") -> Path:
    return write_files(Path(project.MODULES_DIR) / label, files)


def test_a_module_exports_the_public_names_of_its_files(workspace):
    write(GOOD | {"more.star": "LIMIT = 3\n", "sub/other.star": "X = 1\n", "notes.md": "words"})
    text = 'load("@acme/things", "make", most = "LIMIT")\nmake("t%d" % most)\n'

    (node,) = workspace.topology(text)
    assert node["command"] == ["echo", "hello 't3'"]


def test_the_examples_modules_are_there_beside_own_ones_which_win(workspace):
    write(GOOD)
    own = {"make.star": "LIMIT = 3\n"}
    of_examples = 'load("@partita/matrix", "LIMIT")\nprint(LIMIT)\n'
    assert "symbol_not_found" in repr(workspace.definition(of_examples))
    assert workspace.topology(USE)[0]["command"] == ["echo", "hello 't'"]

    write(own, "partita/matrix")

    assert "symbol_not_found" not in repr(workspace.definition(of_examples))


def test_the_topology_follows_the_module(workspace):
    write(GOOD)
    assert workspace.topology(USE)[0]["command"] == ["echo", "hello 't'"]

    write({"_words.star": WORDS.replace("hello", "good morning")})
    assert workspace.topology(USE)[0]["command"] == ["echo", "good morning 't'"]


def test_a_suite_that_imports_one_with_a_module_follows_the_module_too(workspace):
    write(GOOD)
    workspace.add("leaf", USE)
    importer = {
        "suite.star": 'suite.run(name = "x", ref = "leaf")',
        "dependencies.yaml": "dependencies: {leaf: leaf}",
    }
    assert workspace.topology(importer)[0]["command"] == ["echo", "hello 't'"]

    write({"_words.star": WORDS.replace("hello", "good morning")})
    assert workspace.topology(importer)[0]["command"] == ["echo", "good morning 't'"]


def test_modules_are_hints_of_the_definition(workspace):
    write(GOOD)
    assert workspace.definition(USE)["modules"] == ["things"]


def test_a_built_in_name_wins_whatever_the_scope(workspace):
    write({"redis.star": "def redis():\n    fail('the wrong one')\n"}, "acme/redis")
    assert workspace.topology('load("@acme/redis", "redis")\nredis()\n')


@pytest.mark.parametrize(
    ("files", "text", "code", "says", "column"),
    [
        ({}, USE, "module_not_found", "known: runtime, kafka", 1),
        (GOOD, 'load("@acme/thing", "make")\n', "module_not_found", "pins none", 1),
        (GOOD, 'load("@acme/things", "mke")\n', "symbol_not_found", 'no "mke"; known: make', 22),
        (GOOD, 'load("@acme/things", "_x")\n', "symbol_not_found", 'no "_x"', 22),
        (GOOD, 'load("@acme/things", "greeting")\n', "symbol_not_found", "known: make", 22),
        ({"make.star": "def make(:\n"}, USE, "syntax_error", "@acme/things/make.star:1:10: ", 1),
        ({"make.star": "x = 1\ny = x.z\n"}, USE, "eval_error", "@acme/things/make.star:2:5: ", 1),
        ({"make.star": 'fail("no")\n'}, USE, "fail_called", "@acme/things/make.star:1:1: no", 1),
        (
            {"a.star": "make = 1", "b.star": "make = 2"},
            USE,
            "package_invalid",
            "a.star and b.star",
            1,
        ),
        ({"module.star": "make = 1"}, USE, "package_invalid", "no .star file", 1),
        ({"make.star": b"\xff"}, USE, "package_invalid", "not UTF-8", 1),
        ({"make.star": "#" * (2**20 + 1)}, USE, "package_invalid", "larger than 1 MiB", 1),
    ],
)
def test_an_error_is_at_the_load(files, text, code, says, column, workspace):
    if files:
        write(files)
    error = workspace.error("\n" + text)

    assert (error["code"], error["line"], error["file"]) == (code, 2, "suite.star"), error
    assert says in error["message"]
    assert error["column"] in (column, 1)


def test_an_error_in_a_function_is_at_the_call_of_the_suite(workspace):
    write({"make.star": MAKE.replace('image = "a:1"', "imge = 1"), "_words.star": WORDS})
    error = workspace.error(USE)

    assert (error["code"], error["file"], error["line"]) == ("unknown_keyword", "suite.star", 2)


@pytest.mark.timed
@pytest.mark.parametrize(
    ("files", "code", "says"),
    [
        (
            {"make.star": "def f():\n  for i in range(1000000000):\n    pass\nf()\n"},
            "limit_exceeded",
            "instructions",
        ),
        ({"make.star": "def f(n):\n  return f(n + 1)\nf(1)\n"}, "limit_exceeded", "64 deep"),
        ({"make.star": 'x = "a" * 2000000000\n'}, "limit_exceeded", "memory"),
        (
            {"make.star": 'load("b.star", "x")\n', "b.star": 'load("make.star", "x")\n'},
            "eval_error",
            "b.star -> make.star -> b.star",
        ),
        ({"make.star": 'load("make.star", "x")\n'}, "eval_error", "make.star -> make.star"),
        ({"make.star": 'load("../../etc/passwd", "x")\n'}, "module_not_found", "its own files"),
        ({"make.star": 'load("@acme/other", "x")\n'}, "module_not_found", "built-in modules only"),
        ({"make.star": 'load("prelude", "_record")\n'}, "module_not_found", "its own files"),
        ({"make.star": 'load("shared", "server")\n'}, "module_not_found", "its own files"),
        ({"make.star": 'load("@partita/shared", "server")\n'}, "module_not_found", "its own files"),
        (
            {"make.star": 'load("@partita/runtime", "task")\ntask.run("early")\n'},
            "eval_error",
            "in its functions only",
        ),
        ({"make.star": 'task.run("no runtime")\n'}, "eval_error", "task"),
        ({"suite.star": "x = 1\nx.y\n"}, "eval_error", "@acme/things/suite.star:2:1"),
        (
            {"make.star": "def make(n):\n  x = [0]\n  for i in range(1000000000):\n    x[0] = i\n"},
            "limit_exceeded",
            "instructions",
        ),
        ({"make.star": "def make(n):\n  return make(n)\n"}, "limit_exceeded", "64 deep"),
        (
            {"make.star": 'def make(n):\n  fail("  * suite.star:77, in f\\n --> suite.star:9:9")'},
            "fail_called",
            "suite.star:77",
        ),
    ],
)
def test_a_hostile_module_is_refused_at_a_line_of_the_suite(files, code, says, workspace):
    write(files)
    began = time.monotonic()
    error = workspace.error(USE)

    assert error["code"] == code, error
    assert says in error["message"]
    assert error.get("line", 1) in (1, 2)
    assert time.monotonic() - began < 12


@pytest.mark.parametrize(
    "label", ["@../../etc", "@acme/..", "@./x", "@acme/../../x", "@a/b/c", "@"]
)
def test_a_label_is_no_path(label, workspace, tmp_path):
    (tmp_path / "x.star").write_text("make = 1")
    assert workspace.error(f'load("{label}", "make")\n')["code"] == "module_not_found"


def test_a_module_of_links_does_not_leave_its_folder(workspace, tmp_path):
    (tmp_path / "secret.star").write_text('make = "secret"')
    folder = write({"make.star": "def make(n):\n    pass\n"})
    (folder / "other.star").symlink_to(tmp_path / "secret.star")

    error = workspace.error(USE)
    assert error["code"] == "package_invalid"
    assert "outside" in error["message"]


@pytest.mark.parametrize("name", ["http", "matrix"])
def test_the_usage_of_an_example_module_is_a_suite(name, settings, workspace):
    settings.MODULES_DIR = ROOT / "examples" / "oci-modules"
    usage = settings.MODULES_DIR / "partita" / name / "usage.star"

    assert len(workspace.topology(usage.read_text())) == 3
    assert [each.code for each in checks.lint_suite("s") if each.severity == "error"] == []
