"""A run in words, for the log of a job, its summary, and a comment on the change."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

from partita_client.ci.outcome import CheckState
from partita_client.ci.plain_text import cut_text, plain_line, plain_text

_COMMENT_CHARACTERS: Final = 10_000  # which become 50,000 of HTML; GitHub takes 65,536
_SUMMARY_CHARACTERS: Final = 200_000  # which become 1,000,000 of HTML; GitHub takes 1 MiB
_LINE_CHARACTERS: Final = 300
_DEFAULT_PROFILE: Final = "default"  # files of profiles end in .yaml: none has this name
_MARKS: Final = {"Healthy": "✅", "Failed": "❌"}
_STATES: Final = {
    CheckState.PENDING: "⏳ running",
    CheckState.SUCCESS: "✅ healthy",
    CheckState.FAILURE: "❌ failed",
    CheckState.ERROR: "⚪ could not be found out",
}
Run = Mapping[str, Any]


def failed_steps(run: Run) -> list[Any]:
    verdict = run.get("verdict")
    return list(verdict.get("steps", ())) if isinstance(verdict, dict) else []


def failure_text(run: Run) -> Iterator[str]:
    """Yield each failed step with its causes, failed cases and last lines."""
    for step in failed_steps(run):
        yield from ("", step["sentence"])
        yield from (f"  {cause}" for cause in step["causes"])
        yield from (f"  {case['name']}: {case['message']}" for case in step["cases"])
        yield from (f"  | {line['text']}" for line in step["lines"])


def marked_lines(run: Run) -> Iterator[tuple[int, str, str]]:
    """Yield the line of suite.star, the step and the first cause of what failed the run."""
    lines = str(run.get("suite", {}).get("suiteStar", "")).split("\n")
    for step in failed_steps(run):
        if step["mayFail"]:
            continue
        name = step["stepId"]
        quoted = (f'"{name}"', f"'{name}'")
        numbers = (n for n, text in enumerate(lines, 1) if any(each in text for each in quoted))
        first_case = [f"{case['name']}: {case['message']}" for case in step["cases"][:1]]
        words = [step["sentence"], *step["causes"][:1], *first_case]
        yield next(numbers, 1), name, "\n".join(filter(None, words))


def summary_text(run: Run, page: str) -> str:
    """Return the run as Markdown for the page of a job."""
    mark = _MARKS.get(run["status"], "⚪")
    head = f"### {mark} {_escape(run['suiteTitle'])}: {_escape(run['status'])}"
    text = _quote(run["sentence"], run, _SUMMARY_CHARACTERS)
    profile = _escape(run.get("profile") or "none")
    foot = f"[Run {_escape(run['id'])}]({page}), {_escape(run['duration'])}, profile {profile}"
    return f"{head}\n\n{text}\n\n{foot}\n"


def _escape(text: object) -> str:
    """Return one line in which Markdown reads no link, image or tag."""
    line = cut_text(plain_line(text), _LINE_CHARACTERS)
    return re.sub(r"([!-,./:-@\[-`{-~])", r"\\\1", line)


def _quote(sentence: str, run: Run, characters: int) -> str:
    """Return what failed in <pre>, where no Markdown and no name of a person is read.

    A slash at the start of a line is written otherwise, since GitLab obeys it.
    """
    text = plain_text("\n".join([sentence, *failure_text(run)]))
    if len(text) > characters:
        text = f"{text[:characters]}\n… the rest is on the page of the run"
    quoted = re.sub(r"(?m)^(\s*)/", r"\1&#47;", escape(text, quote=False))
    return f"<pre>\n{quoted}\n</pre>"


def comment_text(*, check: str, state: CheckState, sentence: str, run: Run, links: str) -> str:
    """Return the comment on a change; it begins with the mark by which it is found again."""
    head = f"{comment_mark(check)}\n### `{check}`: {_STATES[state]}"
    return f"{head}\n\n{_quote(sentence, run, _COMMENT_CHARACTERS)}\n\n{links}"


def comment_links(commit: str, *, page: str, job_page: str) -> str:
    """Return the last line of a comment; `page` of the run is empty before there is one."""
    return f"Commit {commit} · [run]({page or job_page}) · [job]({job_page})"


def comment_mark(check: str) -> str:
    return f"<!-- {check} -->"


def check_name(suite: str, profile: str, backend: str) -> str:
    """Return the name of the check: jobs with another profile or backend have their own."""
    leg = [profile or _DEFAULT_PROFILE, backend] if backend else [profile] if profile else []
    name = "/".join(["partita", suite, *leg])
    return re.sub(r"[^A-Za-z0-9._/-]", "-", name)[:200]
