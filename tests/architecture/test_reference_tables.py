"""docs/tables is what the code declares: `make reference` writes it anew."""

from __future__ import annotations

import pytest

from apps.executions.domain.states import ExecutionStatus, RunReason, StepReason
from apps.executions.services.unit_states import _UNIT_STATES
from documentation import reference
from documentation.tables import environment, events, metrics, reasons, rest, settings_keys


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_page_is_what_the_code_declares(name: str) -> None:
    path = reference.FOLDER / name
    written = path.read_text() if path.exists() else ""

    assert written == reference.page_text(name), "stale: run `make reference`"


def test_no_other_page_is_among_them() -> None:
    assert {path.name for path in reference.FOLDER.iterdir()} == set(reference.PAGES)


def test_each_reason_has_words_and_advice_of_its_own() -> None:
    codes = {str(reason) for reason in (*StepReason, *RunReason)}

    assert set(map(str, reasons.ADVICE)) == codes
    assert all(text.endswith(".") for text in reasons.ADVICE.values())


def test_each_event_that_is_emitted_is_described() -> None:
    ends = {status.lower() for status in ExecutionStatus if status.lower() in events.RUN_EVENTS}
    emitted = events.emitted_names() | set(_UNIT_STATES) | ends

    assert emitted == set(events.STEP_EVENTS) | set(events.RUN_EVENTS)


def test_each_environment_variable_is_described_in_a_document() -> None:
    found = environment.variables()

    assert len(found) > 100
    assert [name for name in found if not environment.description_link(name)] == []


def test_defaults_and_values_of_variables_are_those_of_the_code() -> None:
    found = environment.variables()

    assert found["PORT"].default == "`8090`"
    assert found["DB_DRIVER"].kind == "one of `mongo`, `postgres`, `sqlite`"
    assert found["UP_DEMO"].default == "`true`"
    assert found["PUBLIC_API_URL"].default == ""  # computed


def test_a_reader_without_words_is_named(tmp_path) -> None:
    (tmp_path / "base.py").write_text('X = 1\nY = env.color("PAGE_COLOR")\n')

    with pytest.raises(environment.UnknownReader, match=r"base.py:2: env.color\('PAGE_COLOR'\)"):
        environment.variables(tmp_path)


def test_secrets_are_said_to_be_secrets() -> None:
    text = settings_keys.page()

    assert "| `tlsKey` | – | a secret, which nobody reads back |" in text


def test_counters_have_the_names_that_prometheus_shows() -> None:
    names = {row[0] for row in metrics.rows()}

    assert "`partita_executions_finished_total`" in names
    assert "`partita_executions_active`" in names


def test_each_operation_has_a_line() -> None:
    rows = [row for _tag, row in rest.operations()]

    assert ("POST", "`/api/v1/executions`", "Launch a run") in rows
    assert all(summary != "–" for _method, _path, summary in rows)
