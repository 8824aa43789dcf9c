"""One key of a YAML text changes, and nothing else."""

from __future__ import annotations

import pytest

from apps.profiles.domain.yaml_text import NotEditable, with_key


@pytest.mark.parametrize(
    ("text", "key", "value", "expected"),
    [
        ("a: 1 # x\n", "default", True, "a: 1 # x\ndefault: true\n"),
        ("a: 1", "default", True, "a: 1\ndefault: true\n"),
        ("{a: 1} # x", "default", True, "{default: true, a: 1} # x"),
        ("{}", "default", True, "{default: true}"),
        ("# x\ndefault: false # y\n", "default", True, "# x\ndefault: true # y\n"),
        ("default:\na: 1\n", "default", False, "default: false\na: 1\n"),
        ("default: false # y\n", "default", None, "default: null # y\n"),
        ("extendsId: 'a' # y\n", "extendsId", "b", "extendsId: b # y\n"),
        ('extendsId: "a"\nx: 1', "extendsId", "1", 'extendsId: "1"\nx: 1'),
        ("env:\n  A: 1\n", "default", True, "default: true\nenv:\n  A: 1\n"),
        ("---\nenv:\n  A: 1\n...\n", "default", True, "---\ndefault: true\nenv:\n  A: 1\n...\n"),
        ("a: |\n  x\n", "default", True, "default: true\na: |\n  x\n"),
        ("  a: 1\n  b: 2\n", "default", True, "  a: 1\n  default: true\n  b: 2\n"),
    ],
)
def test_a_key_changes(text, key, value, expected):
    assert with_key(text, key, value) == expected


def test_what_cannot_be_changed_is_refused():
    with pytest.raises(NotEditable, match='set "default" to true'):
        with_key("x: &a false\ndefault: *a\n", "default", True)
