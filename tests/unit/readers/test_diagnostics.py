from __future__ import annotations

from readers.diagnostics import Diagnostic, dotted_path


def test_a_complaint_reads_as_place_path_message_and_code():
    complaint = Diagnostic(
        file="config.cue",
        line=14,
        column=16,
        path="bundle.rules[0].datasource",
        code="unknown_reference",
        message='unknown datasource "redi"',
    )

    assert str(complaint) == (
        "config.cue:14:16: bundle.rules[0].datasource:"
        ' unknown datasource "redi" [unknown_reference]'
    )


def test_what_is_not_known_of_the_place_is_left_out():
    assert str(Diagnostic(file="a.json", code="missing_field", message="no bundle")) == (
        "a.json: no bundle [missing_field]"
    )


def test_the_json_form_has_every_member():
    complaint = Diagnostic(file="a", line=1, column=2, code="c", severity="warning", message="m")

    assert complaint.as_dict() == {
        "file": "a",
        "line": 1,
        "column": 2,
        "path": "",
        "code": "c",
        "severity": "warning",
        "message": "m",
    }


def test_complaints_sort_by_position():
    first, second = (Diagnostic(file="a", line=line, code="c", message="m") for line in (2, 10))

    assert sorted([second, first], key=Diagnostic.order) == [first, second]


def test_a_path_writes_indexes_in_brackets_and_quotes_what_is_no_identifier():
    assert (
        dotted_path(("bundle", "rules", 0, "branch_map", "a-b"))
        == 'bundle.rules[0].branch_map."a-b"'
    )
    assert dotted_path((0, "a")) == "[0].a"
    assert dotted_path(("", "#D")) == '"".#D'
