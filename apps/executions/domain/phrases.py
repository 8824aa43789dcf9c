"""Words for why a step failed, from its reason, its detail and its exit code.

Codes are for programs. Wherever people read, a step that failed is one phrase that names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from apps.executions.domain.events import CauseLink

MAX_SENTENCE: Final = 500  # characters
# CSI, OSC (to BEL or ST), and other two-character sequences (ECMA-48)
_ESCAPES: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])"
)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Phrase(NamedTuple):
    """What happened to a step; `words` are those of a registry or an engine, "" without any.

    `text` continues the id of the step if it `is_predicate` ("exited with code 3"); otherwise it
    is a clause of its own ("1 of 12 tests failed").
    """

    text: str
    is_predicate: bool = False
    words: str = ""

    @property
    def alone(self) -> str:
        """Return the words where the step and its status stand beside them."""
        return self.text.removeprefix("was skipped because ")

    def about(self, step_id: str) -> str:
        """Return the sentence about this step, without a period."""
        return f"{step_id} {self.text}" if self.is_predicate else f"{step_id}: {self.text}"


_PREDICATES: Final[dict[str, str]] = {
    "dependency_failed": "was skipped because a step that it needs failed",
    "dependency_skipped": "was skipped because a step that it needs was skipped",
    "run_failed": "was skipped because the run had already failed",
    "trigger_not_failed": "was not needed: no step that triggers it failed",
    "not_selected": "was not part of this rerun",
    "exit_nonzero": "exited with an error code",
    "exit_unexpected": "exited with an unexpected code",
    "timeout": "took longer than its timeout",
    "not_ready": "did not become ready in time",
    "service_exited": "exited",
    "oom_killed": "exceeded its memory limit",
    "threshold_failed": "missed a threshold",
    "mock_not_ready": "did not get an answer from its mock surface",
    "agent_unavailable": "was not claimed by any worker",
    "canceled": "was canceled",
}
_CLAUSES: Final[dict[str, str]] = {
    "image_missing": "the image could not be pulled",
    "expect_logs_missing": "an expected text is missing from its log",
    "fail_on_logs_matched": "its log contains a forbidden text",
    "test_failures": "tests failed",
    "artifact_missing": "a required artifact is missing",
    "target_unreachable": "the target did not answer",
    "mock_surface_missing": "the mock surface does not exist",
    "runtime_unavailable": "the container runtime is unavailable",
    "agent_lost": "the worker was lost",
    "unschedulable": "no node of the cluster took the step",
    "quota_exceeded": "the quota of the namespace was used up",
    "admission_refused": "the cluster refused the pod",
    "container_config": "the container could not be set up",
    "init_failed": "the directories of the step could not be filled",
    "evicted": "the pod was evicted or deleted",
    "preempted": "a pod of higher priority took its place",
    "node_lost": "the node of the pod was lost",
    "internal_error": "the control plane had an internal error",
    # of a run as a whole
    "secret_unresolved": "a secret could not be resolved",
    "backend_unavailable": "the backend was removed or disabled",
    "run_timeout": "the run took longer than allowed",
    "dependency_replaced": "a service started again after steps had run against it",
    "step_failed": "a step failed",
}
# Details that continue the id of the step; what workers and the sweep report → the predicate.
_REWRITES: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(pattern), predicate)
    for pattern, predicate in (
        (r"exit code (-?\d+)(, expected -?\d+)?", r"exited with code \1\2"),
        (r"ended with exit code 0", "exited with code 0, but a service must keep running"),
        (r"ended with exit code (-?\d+)", r"exited with code \1"),
        (r"the service exited(.*)", r"exited\1"),
        (r"still running after (.+)", r"was still running after \1"),
        (r"the step did not end in time", "did not end in time"),
        (r"killed: out of its memory limit", "was killed because it exceeded its memory limit"),
        (r"its readiness probe did not pass (within .+)", r"did not become ready \1"),
    )
)
_EXITS: Final = ("exit_nonzero", "exit_unexpected")
_OTHERS_WORDS: Final = (
    "image_missing",
    "agent_lost",
    "runtime_unavailable",
    "unschedulable",
    "quota_exceeded",
    "admission_refused",
    "container_config",
    "init_failed",
    "evicted",
    "preempted",
    "node_lost",
)
_LISTS_FAILURES: Final = (*_EXITS, "timeout", "oom_killed", "service_exited")
_EXIT_CODE: Final = re.compile(r"exit code -?\d+(?:, expected -?\d+)?")
_TESTS: Final = re.compile(r"\d+ of \d+ tests? failed")
_STORED_LINK: Final = re.compile(r"(\S+): ([a-z_]+)(?: \(exit code (-?\d+)\))?")


def plain_text(text: str) -> str:
    """Return a line without the escape sequences of terminals and other control characters."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


def clip(text: str, limit: int = MAX_SENTENCE) -> str:
    """Return at most `limit` characters; a text that was cut ends in an ellipsis."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def reason_phrase(reason: str) -> Phrase:
    """Return the words for a reason code alone; an unknown code with spaces."""
    if predicate := _PREDICATES.get(reason):
        return Phrase(predicate, is_predicate=True)
    return Phrase(_CLAUSES.get(reason, reason.replace("_", " ")))


def failure_phrase(reason: str, detail: str = "", exit_code: int | None = None) -> Phrase:
    """Return the words for a step that ended with this reason; everything is said once."""
    detail = clip(" ".join(plain_text(detail).split()))
    if not detail:
        return _phrase_without_detail(reason, exit_code)
    if reason in _OTHERS_WORDS:
        fact, _, words = detail.partition(": ")
        return Phrase(fact.replace("is not present and cannot", "could not"), words=words)
    first, *more = detail.split("; ") if reason in _LISTS_FAILURES else [detail]
    tests = next(filter(_TESTS.fullmatch, more), "")
    if tests:
        code = "" if exit_code is None else f" (exit code {exit_code})"
        return Phrase("; ".join([f"{tests}{code}", *(each for each in more if each != tests)]))
    more = [each for each in more if not _EXIT_CODE.fullmatch(each)]
    return _listed_phrase(first, more, reason, exit_code)


def _listed_phrase(first: str, more: list[str], reason: str, exit_code: int | None) -> Phrase:
    for pattern, predicate in _REWRITES:
        if match := pattern.fullmatch(first):
            return Phrase("; ".join([match.expand(predicate), *more]), is_predicate=True)
    text = "; ".join([first, *more])
    if reason in _EXITS and exit_code is not None:
        return Phrase(f"exited with code {exit_code}", is_predicate=True, words=text)
    return Phrase(text)


def _phrase_without_detail(reason: str, exit_code: int | None) -> Phrase:
    if exit_code is not None and reason in (*_EXITS, "service_exited"):
        return Phrase(f"exited with code {exit_code}", is_predicate=True)
    return reason_phrase(reason)


def link_phrase(link: CauseLink) -> Phrase:
    """Return the words for a link of a cause chain."""
    return failure_phrase(link["reason"], exit_code=link.get("exitCode"))


def cause_sentences(chain: Iterable[CauseLink]) -> list[str]:
    """Return a sentence for each link of a cause chain, nearest first."""
    return [link_phrase(link).about(link["stepId"]) for link in chain]


def run_phrase(reason: str, detail: str) -> str:
    """Return the sentence about a run that failed as a whole.

    A run that a release without stored sentences ended has a chain of codes as the detail of
    `step_failed`; its first link is put into words.
    """
    if reason == "step_failed" and (match := _STORED_LINK.match(detail)):
        code = None if match[3] is None else int(match[3])
        return clip(failure_phrase(match[2], exit_code=code).about(match[1]))
    text = " ".join(plain_text(detail).split()) or reason_phrase(reason).text
    return clip(text[:1].upper() + text[1:])
