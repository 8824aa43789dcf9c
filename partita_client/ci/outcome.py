"""What the end of a run says about the code: red is apart from what could not be found out."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from partita_client.ci.plain_text import plain_line
from partita_client.errors import BadConfiguration, ClientError, NoServer
from partita_client.exit_codes import CiExitCode, is_of_infrastructure


class CheckState(enum.StrEnum):
    """The states of a commit at GitHub."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILURE = "failure"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class CiOutcome:
    code: CiExitCode
    state: CheckState
    sentence: str


def outcome_of(run: Mapping[str, Any], details: Mapping[str, Any] | None) -> CiOutcome:
    """Return what an ended run says; `details` are its steps, None where they are not known."""
    status, reason, sentence = run["status"], run.get("reason"), plain_line(run["sentence"])
    if status == "Healthy":
        return CiOutcome(code=CiExitCode.HEALTHY, state=CheckState.SUCCESS, sentence=sentence)
    why_unknown = ""
    if status == "Canceled":
        why_unknown = "the run was canceled"
    elif status != "Failed" or reason not in (None, "", "step_failed"):
        why_unknown = f"the run ended without an answer about your code: {sentence}"
    elif details is None:
        why_unknown = "the run failed, and why could not be fetched"
    elif is_of_infrastructure(details):
        why_unknown = f"a step failed by what it ran on: {sentence}"
    if why_unknown:
        return unknown(why_unknown)
    return CiOutcome(code=CiExitCode.YOUR_CODE, state=CheckState.FAILURE, sentence=sentence)


def unknown(sentence: str) -> CiOutcome:
    return CiOutcome(code=CiExitCode.UNKNOWN, state=CheckState.ERROR, sentence=sentence)


def outcome_of_error(error: ClientError) -> CiOutcome:
    """Return what an error says: wrong usage, or nothing about the code."""
    advice = f"; next: {error.advice}" if error.advice else ""
    sentence = plain_line(f"{error.detail}{advice}")
    if isinstance(error, BadConfiguration | NoServer):
        return CiOutcome(code=CiExitCode.USAGE, state=CheckState.ERROR, sentence=sentence)
    return unknown(sentence)
