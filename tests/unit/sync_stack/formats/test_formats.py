# ruff: noqa: SIM905, E501 - samples read best as lines of words
"""What each format reads, and what it refuses, with the place."""

from __future__ import annotations

import pytest

from readers.tree import Kind, Tree
from sync_stack.core.file_errors import ShapingError
from sync_stack.core.formats import detect, formats
from sync_stack.core.shaping.leaves import flat_values


def tree(text: str | bytes, file: str) -> Tree:
    return detect(file).parse(text if isinstance(text, bytes) else text.encode(), file=file)


def flat(text: str | bytes, file: str) -> dict[str, str]:
    return dict(flat_values(tree(text, file)))


def refused(text: str | bytes, file: str) -> ShapingError:
    with pytest.raises(ShapingError) as raised:
        tree(text, file)
    return raised.value


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("a/b.yaml", "yaml"), ("b.YML", "yaml"), ("b.json", "json"), ("b.jsonc", "jsonc"),
        ("b.json5", "jsonc"), ("b.toml", "toml"), ("b.ini", "ini"), ("b.cfg", "ini"),
        ("b.conf", "ini"), ("b.config", "ini"), ("x/app.config", "xml"), ("Web.config", "xml"),
        (".env", "env"), ("d/.env.production", "env"), (".envrc", "env"), ("prod.env", "env"),
        (".env.json", "env"), ("a.properties", "properties"), ("a.xml", "xml"), ("m.tf", "hcl"),
        ("m.hcl", "hcl"), ("m.tfvars", "hcl"),
    ],
)  # fmt: skip
def test_names_win_over_extensions(file: str, name: str) -> None:
    assert detect(file).name == name


def test_the_rule_may_name_the_format() -> None:
    assert detect("settings", file_format="toml").name == "toml"
    assert detect("a.json", file_format="yaml").name == "yaml"


@pytest.mark.parametrize("file", ["Dockerfile", "a.txt", "yaml", "a.", ""])
def test_other_files_have_no_format(file: str) -> None:
    with pytest.raises(ShapingError) as raised:
        detect(file)

    assert raised.value.code == "unknown_format"


def test_there_are_nine_formats() -> None:
    assert [*formats] == sorted("yaml json jsonc toml ini env properties xml hcl".split())


SPELLINGS = "1.10 0123 1e3 20000000000000000001 1.0 -0.0 1E+05".split()


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("file", ["x.yaml", "x.json", "x.jsonc", "x.toml", "x.hcl", "x.ini"])
def test_numbers_keep_their_spelling(file: str, spelling: str) -> None:
    """Sync invariant 21."""
    if spelling == "0123" and file.startswith(("x.j", "x.toml")):
        assert refused(member(file, spelling), file).code == "parse_error"
    else:
        assert flat(member(file, spelling), file) == {"v": spelling}


def member(file: str, value: str) -> str:
    if file.endswith(("json", "jsonc")):
        return f'{{"v": {value}}}'
    return f"v: {value}" if file.endswith("yaml") else f"v = {value}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("+5", "5"), ("1_000", "1000"), ("0xff", "255"), ("0o17", "15"), ("0b11", "3"), ("-0", "0")],
)
def test_integers_of_toml_become_decimal(text: str, expected: str) -> None:
    assert flat(f"v = {text}", "x.toml") == {"v": expected}


@pytest.mark.parametrize("text", ["1979-05-27T07:32:00.10Z", "1979-05-27 07:32:00", "07:32:00"])
def test_dates_of_toml_keep_their_spelling(text: str) -> None:
    """Sync invariant 21."""
    assert flat(f"v = {text}", "x.toml") == {"v": text}


@pytest.mark.parametrize("word", "yes no on off y n Yes NO 1:20 0x1F 0o17 2001-01-01 =".split())
def test_words_of_yaml_1_1_are_texts_or_keep_their_spelling(word: str) -> None:
    """Sync invariant 21."""
    assert flat(f"v: {word}", "x.yaml") == {"v": word}


def test_merge_keys_of_yaml() -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc:\n  <<: [*a, *b]\n  x: 3\nd: {<<: *a}\n"

    found = flat(text, "x.yaml")
    assert {key: value for key, value in found.items() if key[0] in "cd"} == {
        "c.x": "3", "c.y": "1", "c.z": "2", "d.x": "1", "d.y": "1",
    }  # fmt: skip
    assert flat('"<<": {a: 1}', "x.yaml") == {"<<.a": "1"}


def test_every_value_has_its_place() -> None:
    """Lines and columns are 1-based."""
    for text, file in [
        ("# c\na:\n  b: 1", "x.yaml"),
        ('{\n"a":\n {"b":1}}', "x.json"),
        ("\n[a]\nb =1", "x.toml"),
        ("\n[a]\nb = 1", "x.ini"),
        ("\n\na.b=1", "x.properties"),
        ("\n\nA=1", ".env"),
        ("<a>\n\n<b>1</b></a>", "x.xml"),
        ("\na {\n b=1\n}", "x.hcl"),
    ]:
        leaves = [value for _path, value in tree(text, file).walk() if value.kind != Kind.MAP]
        assert [(leaf.text, leaf.line) for leaf in leaves] == [("1", 3)], file
        assert leaves[0].column >= 1


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [
        ("x.yaml", "a: 1\na: 2", 2),
        ("x.yaml", "a: 1\n'a': 2", 2),
        ("x.json", '{"a": 1,\n"a": 2}', 2),
        ("x.json", '{"a": 1,\n"\\u0061": 2}', 2),
        ("x.jsonc", '{"a": 1,\n"a": 2}', 2),
        ("x.json5", "{a: 1,\n'a': 2}", 2),
        ("x.toml", "a = 1\na = 2", 2),
        ("x.toml", "[a]\n[a]", 2),
        ("x.ini", "[s]\na = 1\n[t]\n[s]\na = 2", 5),
        ("x.ini", "s = 1\n[s]", 2),
        (".env", "A=1\nexport A=2", 2),
        ("x.properties", "a=1\n\\u0061: 2", 2),
        ("x.hcl", "a = 1\na = 2", 2),
        ("x.hcl", "b {}\nb {}", 2),
        ("x.hcl", 'b "x" {}\nb = 1', 2),
        ("x.hcl", "b = {\na = 1, a = 2 }", 2),
    ],
)
def test_duplicate_keys_are_refused(file: str, text: str, line: int) -> None:
    """Sync invariant 20."""
    error = refused(text, file)

    assert (error.code, error.file, error.line) == ("parse_error", file, line)


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [
        ("x.yaml", "a: 1\nb: [", 3), ("x.yaml", "a: 1\n---\nb: 2", 2), ("x.yaml", "a: .inf", 1),
        ("x.yaml", "a: -.INF", 1), ("x.yaml", "a: .nan", 1), ("x.yaml", "a: !!python/name:os x", 1),
        ("x.yaml", "a: *nope", 1), ("x.yaml", "a: {<<: 1}", 1), ("x.yaml", "a:\n\t- b", 2),
        ("x.yaml", "[a]: 1", 1), ("x.yaml", "a: &a [*a]", 1),
        ("x.json", '{"a": 1,\n}', 2), ("x.json", "{a: 1}", 1), ("x.json", "{'a': 1}", 1),
        ("x.json", '{"a": NaN}', 1), ("x.json", '{"a": Infinity}', 1), ("x.json", '{"a": 01}', 1),
        ("x.json", '{"a": 1} x', 1), ("x.json", '{"a": "\n"}', 1), ("x.json", '["a" "b"]', 1),
        ("x.json", '{"a" 1}', 1), ("x.json", "[1 2]", 1), ("x.json", "", 1), ("x.json", "[", 1),
        ("x.json", '{"a": // c\n1}', 1), ("x.json", '{"a": .5}', 1), ("x.json", '{"a": +1}', 1),
        ("x.json", '{"a": "\\x41"}', 1), ("x.json", '["a', 1), ("x.json", "[,]", 1),
        ("x.jsonc", "{'a': 1}", 1), ("x.jsonc", "{a: 1}", 1), ("x.jsonc", '{"a": 1 /* x', 1),
        ("x.jsonc", "[1,,]", 1), ("x.json5", "{'a: 1}", 1), ("x.json5", "{1a: 1}", 1),
        ("x.toml", "a = inf", 1), ("x.toml", "a", 1), ("x.toml", "a = 1 b = 2", 1),
        ("x.ini", "a = 1\nword", 2), ("x.ini", "= 1", 1), ("x.ini", "[]", 1),
        (".env", "A", 1), (".env", "A='x", 1), (".env", 'A="x" y', 1), (".env", "1A=x", 1),
        (".env", "A=1\nB C=1", 2), (".env", 'A="x"#y', 1),
        ("x.properties", "a = \\u12", 1), ("x.properties", "a = b\\", 1),
        ("x.xml", "<a>\n<b></a>", 2), ("x.xml", "", 1), ("x.xml", "<a/><b/>", 1),
        ("x.xml", "<a>&nope;</a>", 1), ("x.xml", "text", 1), ("x.xml", '<a b="1" b="2"/>', 1),
        ("x.hcl", "a = ", 1), ("x.hcl", 'a = "x', 1), ("x.hcl", "a {", 1), ("x.hcl", "}", 1),
        ("x.hcl", "a = [1", 1), ("x.hcl", "a = <<E\nx", 1), ("x.hcl", 'a = "\\q"', 1),
    ],
)  # fmt: skip
def test_broken_files_are_refused_with_the_line(file: str, text: str, line: int) -> None:
    error = refused(text, file)

    assert error.code in ("parse_error", "unsupported_expression")
    assert (error.file, error.line) == (file, line)
    assert str(error).startswith(f"{file}:{line}:")


def test_comments_and_trailing_commas_of_jsonc() -> None:
    text = '// c\n{"a": "// no /* comment */", /* c ** \n */ "b": [1, 2,], }\n// end'

    assert flat(text, "x.jsonc") == {"a": "// no /* comment */", "b.0": "1", "b.1": "2"}


def test_quotes_and_bare_keys_of_json5() -> None:
    text = r"""{bare: 'it\'s "x" \n \\', $k_1: "y", 'q': 'é', "é": '\u00e9'}"""

    assert flat(text, "x.json5") == {
        "bare": 'it\'s "x" \n \\', "$k_1": "y", "q": "é", "é": "é",
    }  # fmt: skip


def test_sections_and_long_values_of_ini() -> None:
    text = (
        "; c\nTop = 1\n[Sec tion]  ; c\nKey: a = b ; no comment\nlong = one\n  two\n  # c\n  three\n"
        '\n\tin = %(x)s ${y}\n[git]\n\ta = 1\n\tb =\n[Sec tion]\nmore = "q"\r\n'
    )

    assert flat(text, "x.ini") == {
        "Top": "1",
        "Sec tion.Key": "a = b ; no comment",
        "Sec tion.long": "one\ntwo\nthree",
        "Sec tion.in": "%(x)s ${y}",
        "Sec tion.more": '"q"',
        "git.a": "1",
        "git.b": "",
    }


def test_quotes_comments_and_line_breaks_of_env() -> None:
    text = (
        '# c\nexport A="x\\n\\t\\"\\\\\\$ \\q ${B}\nsecond # line"  # c\nB=\'raw \\n $x\' # c\n'
        "C= plain value  # c\nD=a#b\nE=\nF=#x\nG = spaced\nH=$(id)`ls`$A\r\n  I=1"
    )

    assert flat(text, ".env") == {
        "A": 'x\n\t"\\$ \\q ${B}\nsecond # line',
        "B": "raw \\n $x",
        "C": "plain value",
        "D": "a#b",
        "E": "",
        "F": "#x",
        "G": "spaced",
        "H": "$(id)`ls`$A",
        "I": "1",
    }


def test_separators_continuation_and_escapes_of_properties() -> None:
    text = (
        "! c\n# c\na=1\nb : 2\nc 3\nd\\ e\\=\\: = x \\\n    y\\tz\nf\\u00e9=\\ud83d\\ude00\n"
        "g=\nh\ni == \\q\\\\\r\nj=#no"
    )

    assert flat(text, "x.properties") == {
        "a": "1", "b": "2", "c": "3", "d e=:": "x y\tz", "fé": "😀", "g": "", "h": "",
        "i": "= q\\", "j": "#no",
    }  # fmt: skip


def test_attributes_texts_and_lists_of_xml() -> None:
    text = (
        '<?xml version="1.0" encoding="ISO-8859-1"?><r><!-- c --><i>1</i><i k="v">2</i><e/>'
        "<t>a<b>x</b>c</t><c><![CDATA[<&>]]></c><s> é </s>\n</r>"
    )

    assert flat(text, "x.xml") == {
        "r.i.0": "1", "r.i.1.@attrs.k": "v", "r.i.1.#text": "2", "r.e": "", "r.t.#text": "ac",
        "r.t.b": "x", "r.c": "<&>", "r.s": " é ",
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "<!DOCTYPE a><a/>",
        '<!DOCTYPE a [<!ENTITY b "x">]><a>&b;</a>',
        '<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>',
        '<!DOCTYPE a [<!ENTITY b SYSTEM "http://127.0.0.1/">]><a>&b;</a>',
    ],
)
def test_document_types_and_entities_of_xml_are_refused(text: str) -> None:
    error = refused(text, "x.xml")

    assert (error.code, error.line) == ("parse_error", 1)


def test_blocks_and_literals_of_hcl() -> None:
    text = (
        'a = -1.50 # c\nb = "x$${y} \\u00e9\\n" // c\n/* c */ c = null\nserver "web" eu {\n  d = true\n'
        '  list = [\n    1, # c\n    "two",\n  ]\n  obj = { e = 1, "f" : 2\n g = {} }\n}\n'
        'server "web" us { d = false }\nempty {}\nh = <<-END\n    x\n      y\n  END\ni = <<E\n z\nE\n'
    )

    assert flat(text, "x.tf") == {
        "a": "-1.50", "b": "x${y} é\n", "c": "", "server.web.eu.d": "true",
        "server.web.eu.list.0": "1", "server.web.eu.list.1": "two", "server.web.eu.obj.e": "1",
        "server.web.eu.obj.f": "2", "server.web.us.d": "false", "h": "x\n  y\n", "i": " z\n",
    }  # fmt: skip


@pytest.mark.parametrize(
    "value",
    [
        "var.x", "f(1)", "1 + 2", '"a${b}"', '"%{if x}a%{endif}"', "[for x in y : x]", "!true",
        "a ? b : c", "-x", "(1)", "<<E\n${x}\nE", "{ (k) = 1 }", "[var.x]", "true && false", "1.x",
    ],
)  # fmt: skip
def test_expressions_of_hcl_are_refused_as_such(value: str) -> None:
    error = refused(f"ok = 1\nv = {value}\n", "x.tf")

    assert error.code == "unsupported_expression"
    assert error.line >= 2


@pytest.mark.parametrize(
    "encoding", ["utf-8-sig", "utf-16", "utf-32", "utf-16-le", "utf-16-be", "utf-32-be"]
)
@pytest.mark.parametrize(
    ("file", "text"),
    [("x.yaml", "a: é"), ("x.json", '{"a": "é"}'), ("x.toml", 'a = "é"'), ("x.xml", "<a>é</a>"),
     (".env", "a=é"), ("x.ini", "a=é"), ("x.properties", "a=é"), ("x.hcl", 'a = "é"')],
)  # fmt: skip
def test_byte_order_marks_are_honored(file: str, text: str, encoding: str) -> None:
    mark = "\ufeff" if encoding.endswith("e") else ""

    assert flat((mark + text).encode(encoding), file) == {"a": "é"}


@pytest.mark.parametrize("file", ["x.yaml", "x.json", ".env", "x.xml", "x.properties"])
def test_other_bytes_must_be_utf_8(file: str) -> None:
    error = refused(b"\n a=\xe9", file)

    assert (error.code, error.line, error.column) == ("parse_error", 2, 4)
    assert "UTF-8" in error.detail


def test_errors_never_show_a_value() -> None:
    """Sync invariant 24."""
    for file, text in [
        ("x.json", '{"a": hunter2}'),
        (".env", "A='hunter2"),
        ("x.toml", "a = hunter2"),
    ]:
        assert "hunter2" not in str(refused(text, file))
