"""A run in words: the texts that the page, the terminal of `up` and the client share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from partita_client.command.output import (
    age_of,
    align_columns,
    join_some,
    paint,
    printable,
    terminal_columns,
)
from partita_client.exit_codes import ExitCode, is_of_infrastructure

if TYPE_CHECKING:  # dictionaries by another name: a command does without
    from partita_client.documents import (
        ExplainedStep,
        GreenDifference,
        GreenDifferences,
        OutputLine,
        RunExplanation,
        RunReport,
        RunStep,
    )

_NAMES: Final = 5  # of steps that are folded into one line
_SOURCE_COLORS: Final = ("cyan", "magenta", "blue", "green", "yellow")
STEP_MARKS: Final = {
    "pending": ("·", "dim"),
    "queued": ("◌", "dim"),
    "running": ("●", "blue"),
    "healthy": ("✓", "green"),
    "failed": ("✗", "red"),
    "skipped": ("–", "yellow"),
    "canceled": ("■", "yellow"),
}
UNKNOWN_MARK: Final = ("?", "dim")  # a status that only a newer server has
_VERDICTS: Final = {"Healthy": ("✓", "green"), "Failed": ("✗", "red"), "Canceled": ("■", "yellow")}
_DIGEST_CHARACTERS: Final = 19  # of a digest, `sha256:` included
_DIFFERENT_THINGS: Final = {
    "content": "files of the suite",
    "import": "import {name}",
    "env": "env {name} ({where})",
    "image": "image of {name}",
    "duration": "duration of {name}",
    "step": "step {name}",
}


def exit_code_of(run: RunReport) -> ExitCode:
    """Return the exit code for a watched run."""
    if run["status"] == "Failed":
        return ExitCode.RUN_ERROR if is_of_infrastructure(run) else ExitCode.RUN_FAILED
    ends = {"Healthy": ExitCode.OK, "Canceled": ExitCode.RUN_CANCELED}
    return ends.get(run["status"], ExitCode.STILL_RUNNING)


def run_lines(run: RunReport, *, every_step: bool = False) -> Iterator[str]:
    """Yield what failed and why, then what else there is, and last the verdict in one line."""
    steps = run.get("steps", [])
    for step in steps:
        if step["status"] != "failed" and (every_step or step["status"] in ("running", "queued")):
            yield _step_row(step)
    yield from failure_lines(run["verdict"])
    for status in () if every_step else ("pending", "skipped", "canceled", "healthy"):
        ids = [step["id"] for step in steps if step["status"] == status]
        if ids and not (status == "healthy" and run["status"] == "Healthy"):
            yield _folded_row(status, ids)
    for step in steps:
        for missing in step.get("missingArtifacts", ()):
            text = f"{step['id']} left no file {missing['path']}"
            hint = f": {missing['hint']}" if missing.get("hint") else ""
            yield paint(f" ⚠ {printable(text + hint)}", "yellow")
    yield from verdict_lines(run)


def head_line(run: RunReport) -> str:
    profile = printable(run["profile"]) or "no profile"
    return (
        f"{paint(printable(run['id']), 'bold')}  {printable(run['suiteTitle'])} with {profile} "
        + printable(
            f"on {run['backend']}, started {age_of(run['startedAt'])} ago by {run['author']}"
        )
    )


def failure_lines(verdict: RunExplanation) -> Iterator[str]:
    """Yield each failed step with its causes, its failed test cases and its last lines."""
    for step in verdict["steps"]:
        yield from _failed_step_lines(step)
    if more := verdict["moreSteps"]:
        yield paint(f" ✗ and {more} more failed steps", "red")


def _failed_step_lines(step: ExplainedStep) -> Iterator[str]:
    allowed = " (allowed to fail)" if step["mayFail"] else ""
    yield paint(f" ✗ {printable(step['sentence'])}{allowed}", "red")
    for text in step["causes"]:
        yield f"     {printable(text)}"
    for case in step["cases"]:
        where = f" ({printable(case['classname'])})" if case["classname"] else ""
        why = f": {printable(case['message'])}" if case["message"] else ""
        yield f"     {paint(printable(case['name']), 'bold')}{paint(where, 'dim')}{why}"
    if more := step["moreCases"]:
        yield f"     and {more} more failed tests"
    for line in step["lines"]:
        yield paint(f"     │ {printable(line['text'])}", "dim")
    if step["wroteNothing"]:
        yield paint("     the step wrote nothing", "dim")


def verdict_lines(run: RunReport) -> Iterator[str]:
    """Yield the verdict in one line, and the next command where there is one."""
    verdict = run["verdict"]
    mark, style = _VERDICTS.get(run["status"], ("●", "yellow"))
    head = paint(printable(f"{mark} {run['suiteTitle']}: {run['status']}"), f"bold {style}")
    yield head + printable(f" after {run['duration']}  {verdict['sentence']}")
    if "next" in verdict:
        yield printable(f"next: {verdict['next']}")
    queue: Any = run.get("queue", {})
    if expected := queue.get("expectedStart"):
        yield printable(f"expected to start {expected['text']}")
    keep = run.get("keep", {})
    if "until" in keep and "endedAt" not in keep:
        until = f"kept until {keep['until'][11:16]} UTC"
        command = f"partita run keep {run['id']} --for 30m, or --end"
        yield printable(f"its environment is {until}: {command}")


def green_lines(found: GreenDifferences) -> list[str]:
    """Return what differs from the last healthy run, a line each, below the sentence."""
    rows = [
        (f"  {_difference_name(each)}", " → ".join(_difference_sides(each)))
        for each in found["differences"]
    ]
    more = found["moreDifferences"]
    lines = align_columns(rows) if rows else []
    return [printable(found["sentence"]), *lines, *([f"  and {more} more"] if more else [])]


def attempt_lines(run: RunReport) -> list[str]:
    """Return the attempts of a run that was run again as one row and each with its id."""
    attempts = run.get("attempts", [])
    if len(attempts) <= 1:
        return []
    rows = []
    for each in attempts:
        through = each.get("through", 0)
        number = f"{each['number']}–{through}" if through > each["number"] else str(each["number"])
        state = each.get("gap", "").replace("_", " ") or each["status"].lower()
        this = "this run" if each.get("id") == run["id"] else each.get("profile", "")
        started = each.get("startedAt", "")[:19].replace("T", " ")
        rows.append((f"  {number}", state, each.get("id", ""), started, this))
    all_in_one = " → ".join(f"{number.strip()} {state}" for number, state, *_ in rows)
    return [printable(f"attempts: {all_in_one}"), *align_columns(rows)]


def plan_lines(plan: Any) -> list[str]:
    """Return which steps a rerun runs and why, and which it does not."""
    profile = printable(plan["profile"]) or "no profile"
    head = (
        f"{printable(plan['rerunOf'])} again: {printable(plan['suiteId'])} with {profile} "
        f"on {printable(plan['backend'])}"
    )
    rows = [(f"  {each['id']}", each["text"]) for each in plan["steps"]]
    left_out: dict[str, list[str]] = {}
    for each in plan["notSelected"]:
        left_out.setdefault(each["text"], []).append(each["id"])
    others = [
        f"  not run: {printable(join_some(ids, 10))} ({printable(text)})"
        for text, ids in left_out.items()
    ]
    return [head, *(align_columns(rows) if rows else []), *others, printable(plan["sentence"])]


def output_line(line: OutputLine, colors: dict[str, str], width: int) -> str:
    """Return `MM:SS source  text`; events are dim, warnings and errors colored."""
    source = line["source"]
    color = colors.setdefault(source, _SOURCE_COLORS[len(colors) % len(_SOURCE_COLORS)])
    style = {"error": "red", "warn": "yellow"}.get(line["level"], "")
    if line["kind"] in ("", "system"):
        style = f"{style} dim".strip()
    padded = f"{shorten(printable(source), width):<{width}}"
    time = paint(printable(line["timestamp"]), "dim")
    return f"{time} {paint(padded, color)} {paint(printable(line['text']), style)}"


def source_width(steps: Sequence[RunStep]) -> int:
    """Return the width of the longest source, at most a quarter of the terminal."""
    longest = max(len(source) for source in ["execution", *(step["id"] for step in steps)])
    return min(longest, max(9, terminal_columns() // 4))


def shorten(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _step_row(step: RunStep) -> str:
    mark, style = STEP_MARKS.get(step["status"], UNKNOWN_MARK)
    status = f"{printable(step['status']):<9}"
    text = f" {paint(mark, style)} {printable(step['id']):<20} {paint(status, style)}"
    text += f"{printable(step.get('duration', '')):>5}"
    if step["attempt"] > 1:
        text += paint(f"  attempt {step['attempt']}", "yellow")
    why = step.get("waitsFor") or step.get("reason", "").replace("_", " ")
    return f"{text}  {paint(printable(why), 'dim')}".rstrip()


def _folded_row(status: str, ids: Sequence[str]) -> str:
    mark, style = STEP_MARKS.get(status, UNKNOWN_MARK)
    row = paint(f" {mark} {len(ids)} step{'' if len(ids) == 1 else 's'} {status}", style)
    if status in ("skipped", "canceled"):
        row += paint(printable(f": {join_some(ids, _NAMES)}"), "dim")
    return row


def _difference_name(difference: GreenDifference) -> str:
    text = _DIFFERENT_THINGS.get(difference["kind"], difference["kind"])
    return text.format(name=difference["name"], where=difference.get("where", ""))


def _difference_sides(difference: GreenDifference) -> tuple[str, str]:
    change, kind = difference["change"], difference["kind"]
    if "beforeMs" in difference and "afterMs" in difference:
        return f"{difference['beforeMs'] / 1000:.1f} s", f"{difference['afterMs'] / 1000:.1f} s"
    there = {"env": "set", "step": "there"}.get(kind, "")
    before = _clip(difference.get("before", there)) if change != "added" else ""
    after = _clip(difference.get("after", there)) if change != "removed" else ""
    if kind == "env" and change == "changed":
        after = "another value"
    absent = {"env": "not set", "step": "not there"}.get(kind, "none")
    return before or absent, after or absent


def _clip(text: str) -> str:
    return text[:_DIGEST_CHARACTERS] if text.startswith("sha256:") else text
