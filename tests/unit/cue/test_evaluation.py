from __future__ import annotations

import stat
import time
from pathlib import Path

import pytest

from cue import CueError, evaluate, vet, vet_with_attributes
from readers.json import read_json
from readers.tree import Attribute, Kind, Tree
from tests.support import cue_oracle


def diagnostics(text: str) -> list[str]:
    with pytest.raises(CueError) as caught:
        evaluate(text, file="config.cue")
    return [str(diagnostic) for diagnostic in caught.value.diagnostics]


def tree(value: object) -> Tree:
    match value:
        case dict():
            return Tree(kind=Kind.MAP, pairs={key: tree(item) for key, item in value.items()})
        case list():
            return Tree(kind=Kind.LIST, items=tuple(tree(item) for item in value))
        case bool():
            return Tree(kind=Kind.BOOL, text=str(value).lower())
        case str():
            return Tree(kind=Kind.STRING, text=value, line=3, column=7)
        case _:
            return Tree(kind=Kind.NUMBER, text=str(value), line=3, column=7)


def test_values_keep_spelling_place_and_attributes():
    found = evaluate('a: 1.10\nb: {\n\tc: "x" @secret(ref="p#k")\n}\n', file="f.cue")

    version, secret = found.pairs["a"], found.pairs["b"].pairs["c"]
    assert (version.text, version.line, version.column) == ("1.10", 1, 4)
    assert (secret.line, secret.column) == (3, 5)
    assert secret.attributes == (Attribute(name="secret", body='ref="p#k"'),)


def test_every_error_is_named_and_sorted_by_position():
    assert diagnostics("a: 1\nb: string\na: 2\n") == [
        "config.cue:2:4: b: no value, only a string [not_concrete]",
        "config.cue:3:4: a: conflicts with the value at 1:4 [conflict]",
    ]


def test_at_most_fifty_complaints_are_made():
    assert len(diagnostics("\n".join(f"a{n}: 1 & 2" for n in range(80)))) == 50


def test_lists_of_unequal_length_name_both_places():
    assert diagnostics("a: [1, 2]\na: [1]\n") == [
        "config.cue:2:4: a: a list of 1 items conflicts with one of 2 (at 1:4) [conflict]"
    ]


def test_complaints_never_show_a_text_of_the_file():
    assert "hunter2" not in str(diagnostics('a: "hunter2" & "other"\nb: "hunter2" & >"i"\n'))


@pytest.mark.parametrize(
    ("text", "construct"),
    [
        ('import "strconv"', 'the import "strconv"'),
        ('import "strings"\na: strings.ByteAt("a", 0)', "strings.ByteAt"),
        ("a: error(1)", "the function error()"),
        ("a: [1] + [2]", "the operator + between lists"),
        ("a: {x: 1} == {x: 1}", "the operator == with a struct"),
        ("a: 'x'", "a literal of bytes"),
        ('X="\\("a")": 1\nb: X', "an alias of a computed label"),
        ("c: {x: 1}\nif c.x == 1 {c: y: 2}", "a value that depends on itself"),
        (
            "a: {b: 1 | 2, if true {c: 1}, ({d: 1} | {d: 2})}",
            "a comprehension beside a disjunction",
        ),
        ('a: "\\(a)"', "a value that depends on itself"),
        ("a: b.c\nb: a", "a value that depends on itself"),
    ],
)
def test_what_is_outside_the_subset_is_named(text, construct):
    (diagnostic,) = diagnostics(text)

    assert diagnostic.endswith(
        f"{construct} is not part of the supported subset of CUE; set CUE_BINARY to a cue program"
        " to have it read [unsupported_cue]"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 70 + "]" * 70,
        "a: " * 300 + "1",
        "a: " + "-" * 500 + "1",
        "a: x" + ".y" * 500,
        "a: " + "(" * 100_000,
        "\n".join(f"a{n}: a{n + 1}" for n in range(5000)) + "\na5000: 1",
        "a0: 1\n" + "\n".join(f'a{n + 1}: "\\(a{n})\\(a{n})"' for n in range(60)),
        "a0: {x: 1}\n" + "\n".join(f"a{n + 1}: {{x: a{n}, y: a{n}}}" for n in range(40)),
        "a: " + " & ".join(f"({n} | {n + 1} | _)" for n in range(40)),
        "#A: {b: #A | *null, c: #A | *null, d: #A | *null}\n" * 3
        + "x: #A & {b: {c: {d: {}}}, e: 1}",
        "a: " + "9" * 10_000,
        "a: 1e999999999",
        "a: {b: a}",
        '"' * 99_999,
        "a: b & {c: a}\nb: a & {d: b}",
        "a: [...a]\na: [[[]]]\nb: a & [b]",
        "\0",
        "a: " + "[for x in b " * 30 + "{1}" + "]" * 30 + "\nb: [1, 2, 3, 4, 5, 6, 7, 8]",
        "\n".join(f"a{n + 1}: [for x in a{n} for y in a{n} {{x + y}}]" for n in range(9))
        + "\na0: [1, 2, 3]",
        "\n".join(
            f'a{n + 1}: {{for k, v in a{n} for l, w in a{n} {{"\\(k)\\(l)": v}}}}' for n in range(9)
        )
        + "\na0: {a: 1, b: 2, c: 3}",
        "\n".join(f"a{n + 1}: a{n} + a{n}" for n in range(40)) + '\na0: "x"',
        'a: "x" * 1000000000',
        "\n".join(f"a{n + 1}: a{n} * a{n}" for n in range(50)) + "\na0: 9",
        'import "list"\na: list.Range(0, 1000000000, 1)',
        'import "list"\na: list.Repeat([1], 1000000000)',
        'import "strings"\na: strings.Repeat("x", 1000000000)',
        'import "strings"\na: strings.Split("x" * 1000000, "")',
        'import "regexp"\na: regexp.FindAll(".", "x" * 1000000, -1)',
        'import "list"\na: [for i in list.Range(0, 1000, 1) for j in list.Range(0, 1000, 1) {i}]',
        'import "strings"\na: strings.Replace("x" * 1000000, "", "y" * 1000, -1)',
        'import "math"\na: math.Pow(10, 1000000000)',
        'import "encoding/json"\na: json.Unmarshal("[" * 100000)',
        'import "encoding/yaml"\na: yaml.Unmarshal("[" * 100000)',
        "a: {for k, v in a {(k): v}}",
        "a: {if a.b {b: true}}",
        "#L: [#L & {}]\na: [for x in #L {x}]",
        "a: @" + "(" * 100,
        "x" * (4 * 2**20 + 1),
    ],
)
def test_a_hostile_file_ends_in_a_complaint_and_soon(text):
    started = time.process_time()

    assert diagnostics(text)
    assert time.process_time() - started < 20


def program(folder: Path, script: str) -> str:
    path = folder / "cue"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_the_named_program_decides_on_what_the_subset_leaves_out(tmp_path):
    binary = program(tmp_path, """echo "{\\"a\\": 3, \\"r\\": \\"$CUE_REGISTRY\\"}" """)

    found = evaluate("a: 'x'", file="f.cue", binary=binary)

    assert found.plain() == {"a": 3, "r": "none"}


def test_the_named_program_is_not_asked_about_plain_errors(tmp_path):
    binary = program(tmp_path, "echo '{}'")

    with pytest.raises(CueError):
        evaluate("a: 1 & 2", file="f.cue", binary=binary)


def test_the_named_programs_error_is_a_complaint_with_its_place(tmp_path):
    binary = program(tmp_path, "echo 'a: failed:' >&2; echo '  ./config.cue:3:5' >&2; exit 1")

    with pytest.raises(CueError) as caught:
        evaluate("a: 'x'", file="f.cue", binary=binary)

    assert str(caught.value) == "f.cue:3:5: cue export: a: failed: [conflict]"


def test_the_named_program_runs_where_the_file_lies(tmp_path):
    binary = program(tmp_path, """echo "{\\"at\\": \\"$PWD\\", \\"what\\": \\"$4\\"}" """)
    folder = tmp_path / "bundle"
    folder.mkdir()
    path = folder / "config.cue"
    path.write_text("a: 'x'")

    found = evaluate("a: 'x'", file="config.cue", path=str(path), binary=binary)

    assert found.plain() == {"at": str(folder), "what": "./config.cue"}


PACKAGE = {
    "config.cue": 'package config\n\nimport "acme.example/shared"\n\na: names\nb: shared.port\n',
    "names.cue": 'package config\n\nnames: ["x"]\n',
    "cue.mod/module.cue": 'module: "acme.example@v0"\nlanguage: version: "v0.9.0"\n',
    "shared/shared.cue": "package shared\n\nport: 80\n",
}


@pytest.mark.slow
def test_a_package_of_several_files_in_its_module_is_read_by_the_real_program(tmp_path):
    if not cue_oracle.binaries():
        pytest.skip("needs go, to build cue")
    for name, text in PACKAGE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    path = str(tmp_path / "config.cue")

    for binary in cue_oracle.binaries().values():
        found = evaluate(PACKAGE["config.cue"], file="c", path=path, binary=str(binary))
        assert found.plain() == {"names": ["x"], "a": ["x"], "b": 80}


def test_names_of_another_file_of_the_package_are_outside_of_the_subset(tmp_path):
    (tmp_path / "names.cue").write_text("package config\nnames: [1]\n")
    path = tmp_path / "config.cue"
    path.write_text("package config\na: names\n")

    with pytest.raises(CueError, match=r"a package of several files .* CUE_BINARY") as caught:
        evaluate(path.read_text(), file="config.cue", path=str(path))

    assert [found.code for found in caught.value.diagnostics] == ["unsupported_cue"]


@pytest.mark.slow
def test_a_schema_is_checked_by_the_real_program_where_ours_cannot():
    if not cue_oracle.binaries():
        pytest.skip("needs go, to build cue")
    schema = 'import "strconv"\n#Config: {port: int, name: strconv.Quote("x")}\n'
    value = tree({"port": "many", "name": '"x"'})

    for binary in cue_oracle.binaries().values():
        found = vet_with_attributes(schema, value, file="app.yaml", binary=str(binary)).diagnostics
        assert [(each.path, each.line) for each in found] == [("port", 3)]


@pytest.mark.slow
def test_the_real_program_is_asked_about_syntax_that_ours_does_not_know():
    if not cue_oracle.binaries():
        pytest.skip("needs go, to build cue")
    newest = str(cue_oracle.binaries()["v0.14.2"])
    known_there = "a: {for: 2}\ny: a.for\n"

    assert evaluate(known_there, file="f.cue", binary=newest).plain() == {"a": {"for": 2}, "y": 2}
    schema = "#Config: {a: {for: 2}, y: a.for}\n"
    assert (
        vet_with_attributes(
            schema, tree({"a": {"for": 2}, "y": 2}), file="x", binary=newest
        ).diagnostics
        == []
    )
    for text in ("a: {for: 2}\ny: a.for\n", "a: ]\n"):
        with pytest.raises(CueError, match="unexpected"):
            evaluate(text, file="f.cue")
    with pytest.raises(CueError, match=r"f\.cue:1:4: unexpected '\]' \[syntax_error\]"):
        evaluate("a: ]\n", file="f.cue", binary=newest)
    with pytest.raises(CueError, match=r"schema:1:4: unexpected '\]'"):
        vet_with_attributes("a: ]\n", tree({}), file="x", binary=newest)


@pytest.mark.parametrize(
    ("constraint", "value", "message"),
    [
        ("strings.MinRunes(8)", '"short"', '"short" (does not satisfy strings.MinRunes(8))'),
        ("net.IPv4", '"a"', '"a" (does not satisfy net.IPv4)'),
        ("math.MultipleOf(3)", "10", "10 (does not satisfy math.MultipleOf(3))"),
        ("list.UniqueItems", "[1, 1]", "[1,1] (does not satisfy list.UniqueItems)"),
    ],
)
def test_a_constraint_that_does_not_hold_names_value_and_argument(constraint, value, message):
    package = constraint.partition(".")[0]
    text = f'import "{package}"\nx: {constraint}\nx: {value}\n'

    with pytest.raises(CueError) as caught:
        evaluate(text, file="f.cue")

    assert f"invalid value {message}" in str(caught.value)


def test_a_long_value_is_cut_in_a_message():
    text = f'import "strings"\nx: strings.MaxRunes(8)\nx: "{"ab" * 500}\\u001b"\n'

    with pytest.raises(CueError) as caught:
        evaluate(text, file="f.cue")

    assert "…" in str(caught.value)
    assert len(str(caught.value)) < 200


def test_a_schema_s_message_names_the_constraint_and_no_value_of_a_repository():
    schema = """
import "strings"
#Config: {
	password: strings.MinRunes(8)
	user: strings.HasPrefix(password)
}
"""
    value = tree({"password": "hunter2", "user": "root"})

    said = [str(each) for each in vet(schema, value, file="app.yaml")]

    assert any("does not satisfy strings.MinRunes(8)" in each for each in said)
    assert "hunter2" not in "".join(said)
    assert "root" not in "".join(said)


def test_a_program_that_cannot_run_is_a_complaint(tmp_path):
    with pytest.raises(CueError, match="CUE_BINARY cannot be run"):
        evaluate("a: 'x'", file="f.cue", binary=str(tmp_path / "absent"))


SCHEMA = """
#Config: {
	port: int & >0 & <65536
	host: *"localhost" | string
	password?: string @secret(ref="db#password")
}
"""


def test_a_value_that_fits_its_schema_has_no_complaints():
    assert vet(SCHEMA, tree({"port": 80, "host": "h"}), file="app.yaml") == []


def test_what_does_not_fit_is_told_at_the_place_of_the_value():
    found = vet(SCHEMA, tree({"port": 0, "hots": "h"}), file="app.yaml")

    assert {(diagnostic.path, diagnostic.code) for diagnostic in found} == {
        ("port", "out_of_range"),
        ("", "unknown_field"),
    }
    assert all(diagnostic.file == "app.yaml" for diagnostic in found)
    assert any((diagnostic.line, diagnostic.column) == (3, 7) for diagnostic in found)


def test_the_attributes_of_a_schema_reach_the_members_of_the_value():
    found = vet_with_attributes(SCHEMA, tree({"port": 1, "password": "x"}), file="app.yaml")

    assert found.attributes == {
        ("password",): (Attribute(name="secret", body='ref="db#password"'),)
    }


def test_a_schema_without_config_holds_for_the_whole_value():
    assert vet("a: int", tree({"a": 1, "b": 2}), file="f") == []
    assert [found.code for found in vet("a: int", tree({"a": "x"}), file="f")] == ["wrong_type"]


def test_a_schema_that_cannot_be_read_is_an_error_of_the_schema():
    with pytest.raises(CueError, match="schema:1:4"):
        vet("a: 'x'", tree({}), file="f")


def test_json_and_cue_agree_on_json():
    text = '{"a": [1, 2.50, null, true, "x\\u00e9\\n"], "b": {"c-d": {}}}'

    assert evaluate(text, file="f").plain() == read_json(text.encode())
