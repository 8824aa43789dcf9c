"""A command in the process of the tests sets logging up again; later log lines still arrive."""

from __future__ import annotations

import contextlib
import io
import logging

import django
import pytest

LOGGERS = ("partita.audit", "partita.test", "other")


def test_lines_arrive_after_a_command_whose_stderr_was_closed(
    capfd: pytest.CaptureFixture[str],
) -> None:
    captured = io.StringIO()
    with contextlib.redirect_stderr(captured):
        django.setup()  # as a command does
    captured.close()

    for name in LOGGERS:
        logging.getLogger(name).warning("a line of %s", name)

    err = capfd.readouterr().err
    assert "Logging error" not in err
    assert [name for name in LOGGERS if f"a line of {name}" in err] == list(LOGGERS)
