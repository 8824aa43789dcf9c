"""`suite fmt`: one style, the same meaning."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.suites.domain.starlark.style import format_text
from apps.suites.domain.starlark.text import UnreadableText
from tests.apps.suites.test_imports import EXAMPLES, typed

ROOT = EXAMPLES.parents[1]
OURS = [*ROOT.glob("examples/**/*.star"), *ROOT.glob("apps/suites/**/*.star")]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x=1", "x = 1\n"),
        ("x = f( a,b = 'c' )", 'x = f(a, b = "c")\n'),
        ("x = 'it\"s'", "x = 'it\"s'\n"),
        (r"x = 'a\'b'", "x = 'a\\'b'\n"),
        ("x = [1,2,]", "x = [1, 2]\n"),
        ("x = (1,)", "x = (1,)\n"),
        ("x = (1)", "x = (1)\n"),
        ("x = f(\n  a,\n     b)", "x = f(\n    a,\n    b,\n)\n"),
        ("def f(\n  a,\n  **kw):\n  return -a", "def f(\n    a,\n    **kw\n):\n    return -a\n"),
        ("x = a[1:2] + a[ - 1 ]", "x = a[1:2] + a[-1]\n"),
        ("x = f(*a,**b) * 2 ** -1", "x = f(*a, **b) * 2 ** -1\n"),
        ("x=1 if not a else -1", "x = 1 if not a else -1\n"),
        ("x = lambda a:a+1", "x = lambda a: a + 1\n"),
        ("#note\nx = 1 #why", "# note\nx = 1  # why\n"),
        ("if a:\n\tx = 1\n\t# in\n# out\n\n\n\ny = 1",
         "if a:\n    x = 1\n    # in\n# out\n\n\ny = 1\n"),
        ("x = [\n  1, # one\n  # two\n  2\n  # end\n]",
         "x = [\n    1,  # one\n    # two\n    2,\n    # end\n]\n"),
        ('x = """a\n  b"""', 'x = """a\n  b"""\n'),
        ("x = [a for a in b\n  if a]", "x = [\n    a for a in b\n    if a\n]\n"),
        ("\n\nload.smoke( 't' )\r\n", 'load.smoke("t")\n'),
        ("f(" + ", ".join(["argument"] * 20) + ")", "f(\n" + "    argument,\n" * 20 + ")\n"),
        ("", ""),
    ],
)  # fmt: skip
def test_one_style(text, wanted):
    assert format_text(text) == wanted
    assert format_text(wanted) == wanted


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x = (\n1", 1),
        ("x = 1)", 1),
        ("a\nx = [)", 2),
        ("x = $", 1),
        ("x = 'a\n", 1),
        ("(" * 300, 1),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(text, line):
    with pytest.raises(UnreadableText) as caught:
        format_text(text)
    assert caught.value.line == line


def words(text: str) -> str:
    """The text without what a style may change."""
    return "".join(text.split()).replace(",", "").replace("'", '"')


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.parent.name + "/" + path.name)
def test_the_text_of_the_repository_keeps_its_meaning(path: Path):
    text = path.read_text()
    once = format_text(text)

    assert format_text(once) == once
    assert words(once) == words(text)


def test_the_suites_of_the_repository_have_the_style(settings, library):
    settings.SUITES_DIR = EXAMPLES
    assert typed("fmt", "--check") == 0


def test_the_command_writes_once(workspace, capsys):
    folder = workspace.add("s", "task.run('t',image='a:1')")

    assert typed("fmt", "--check") == 1
    assert typed("fmt", "s", "--diff") == 1
    assert '+task.run("t", image = "a:1")' in capsys.readouterr().out
    assert (folder / "suite.star").read_text() == "task.run('t',image='a:1')"
    assert typed("fmt") == 0
    assert (folder / "suite.star").read_text() == 'task.run("t", image = "a:1")\n'
    assert typed("fmt", "--check") == 0


def test_a_suite_that_is_no_starlark_is_left_alone(workspace, capsys):
    folder = workspace.add("s", "def f(:\n  pass\n")

    assert typed("fmt") == 1
    assert "suite.star:1" in capsys.readouterr().out
    assert (folder / "suite.star").read_text() == "def f(:\n  pass\n"
