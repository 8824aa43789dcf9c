"""Log lines and the readers of environment variables."""

from __future__ import annotations

import io
import json
import logging
import logging.config

import pytest

from kernel.redaction import SecretRegister, known_secrets
from sync_stack.configuration.conf import Environment
from sync_stack.configuration.logs import JsonLines, log_context, logging_settings


@pytest.fixture
def logged():
    stream, register = io.StringIO(), SecretRegister()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines(register=register))
    logger = logging.getLogger("partita.test.lines")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    yield logger, register, lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    logger.removeHandler(handler)


def test_a_line_has_the_usual_fields_and_those_of_its_event(logged):
    logger, _register, lines = logged
    with log_context(correlation_id="c-1"), log_context(task_id="t-1"):
        logger.warning("two %s", "words", extra={"event": "drift_detected", "counts": {"a": 1}})
    (line,) = lines()

    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "WARNING",
        "logger": "partita.test.lines",
        "event": "drift_detected",
        "message": "two words",
        "correlation_id": "c-1",
        "task_id": "t-1",
        "counts": {"a": 1},
    }


def test_no_secret_gets_into_a_line_and_a_line_stays_json(logged):
    """Sync invariant 24."""
    logger, register, lines = logged
    register.add('", "', "hunter2", "12345678", "level")
    try:
        int("with hunter2")
    except ValueError:
        logger.exception(
            "%s\nhunter2",
            {"a": "b", "c": "d"},
            extra={"list": ["hunter2"], "number": 12345678, "keys": {"of hunter2": 1}},
        )
    (line,) = lines()

    assert "hunter2" not in json.dumps(line)
    assert (line["list"], line["number"]) == (["***"], "***")
    assert line["keys"] == {"of ***": 1}


def test_a_user_that_is_called_like_the_product_blanks_no_name_of_a_logger(logged):
    logger, register, lines = logged
    register.add("partita", "WARNING")
    logger.warning("by partita")
    logger.warning("again", extra={"level": "partita"})
    told, again = lines()
    assert (told["logger"], told["level"]) == ("partita.test.lines", "WARNING")
    assert told["message"] == "by ***"
    assert again["level"] == "***"


def test_fields_are_bounded(logged):
    logger, _register, lines = logged
    deep: dict[str, object] = {}
    deep["again"] = deep
    logger.info("x" * 100_000, extra={"many": list(range(1000)), "deep": deep})
    (line,) = lines()

    assert len(line["message"]) < 17_000
    assert len(line["many"]) == 200


def test_logging_settings_write_to_stdout(capsys):
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    logging.config.dictConfig(logging_settings("INFO"))
    known_secrets.add("a-value-only-of-this-test")
    try:
        logging.getLogger("partita.sync").info("a-value-only-of-this-test")
    finally:
        root.handlers, root.level = before, level
        logging.getLogger("partita.sync").setLevel(logging.NOTSET)

    assert json.loads(capsys.readouterr().out)["message"] == "***"


def test_variables_are_read_with_defaults_and_an_empty_one_is_unset():
    environment = Environment({"A": "", "B": "On", "C": "1h30m", "D": "PROD", "E": "a, b,"})

    assert environment.text("A", "default") == "default"
    assert environment.flag("B", default=False) is True
    assert environment.duration_s("C", "1s") == 5400
    assert environment.words("E") == ("a", "b")
    assert Environment({"APP_ENV": "PROD"}).app_env() == "production"
    assert Environment({"LOG_LEVEL": "warn"}).log_level() == "WARNING"
    assert environment.problems == []


def test_every_wrong_variable_is_named():
    environment = Environment({"A": "maybe", "B": "x", "C": "-5s", "D": "9", "APP_ENV": "live"})
    environment.flag("A", default=False)
    environment.integer("B", 1)
    environment.duration_s("C", "1s")
    environment.integer("D", 1, high=5)
    environment.app_env()

    assert environment.problems == [
        "A='maybe': expected true or false",
        "B='x': expected a whole number, 0 to 9007199254740992",
        "C='-5s': expected a duration such as 500ms, 30s, 1h30m or 7d",
        "D='9': expected a whole number, 0 to 5",
        "APP_ENV='live': expected one of production, staging, demo, development, test",
    ]
