"""The terminal view of a run: its log lines as they are stored, its steps below them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from apps.executions.domain.events import LineRecord, logs_topic
from apps.executions.domain.phrases import cause_sentences, failure_phrase
from apps.executions.domain.states import FINAL_EXECUTION
from apps.executions.domain.verdict import RunVerdict, VerdictCase
from apps.executions.log_reader import LogReader
from apps.executions.selectors.detail import STEPS_ONLY, RunDetail, StepDocument, run_detail
from apps.operations.api import printable

_NAMES: Final = 5  # of steps that are folded into one line
_COLOURS: Final = ("cyan", "magenta", "blue", "green", "yellow", "bright_cyan", "bright_magenta")
_MARKS: Final = {
    "pending": ("·", "dim"),
    "queued": ("◌", "dim"),
    "running": ("●", "blue"),
    "healthy": ("✓", "green"),
    "failed": ("✗", "red"),
    "skipped": ("–", "yellow"),
    "canceled": ("■", "yellow"),
}
_VERDICTS: Final = {"Healthy": ("✓", "green"), "Failed": ("✗", "red"), "Canceled": ("■", "yellow")}
# the order in which steps get a row if there are too few
_URGENCY: Final = ("running", "failed", "queued", "canceled", "pending", "skipped", "healthy")


def watch(run_id: str, console: Console, *, stop: threading.Event | None = None) -> str:
    """Print the lines of a run until it is over or `stop` is set; return its last status.

    A terminal shows the steps below the lines, in up to half of its rows.
    """
    reader = LogReader(logs_topic(run_id))
    colours: dict[str, str] = {}
    try:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            while True:
                detail = run_detail(run_id, STEPS_ONLY)
                width = _source_width(detail["steps"], console)
                for lines in reader.batches():
                    texts = [_render_line(line, colours, width) for line in lines]
                    console.print(Text("\n").join(texts), soft_wrap=True)
                if console.is_terminal:
                    live.update(_step_table(detail, rows=max(4, console.height // 2)), refresh=True)
                if detail["status"] in FINAL_EXECUTION or (stop is not None and stop.is_set()):
                    return str(detail["status"])
                reader.wait()
    finally:
        reader.close()


def _source_width(steps: Sequence[StepDocument], console: Console) -> int:
    """Return the width of the longest source, at most a quarter of the terminal."""
    longest = max(len(source) for source in ["execution", *(step["id"] for step in steps)])
    return min(longest, max(9, console.width // 4))


def _render_line(line: LineRecord, colours: dict[str, str], width: int = 14) -> Text:
    """Return `MM:SS source  text`; events are dim, warnings and errors colored."""
    source = line.source
    colour = colours.setdefault(source, _COLOURS[len(colours) % len(_COLOURS)])
    style = {"error": "red", "warn": "yellow"}.get(line.level, "")
    if line.kind in ("", "system"):
        style = f"{style} dim".strip()
    text = Text(f"{line.timestamp} ", style="dim")
    text.append(f"{_shorten(source, width):<{width}} ", style=colour)
    text.append(printable(line.text), style=style)
    return text


def _shorten(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _step_table(detail: RunDetail, *, rows: int) -> Group:
    steps = detail["steps"]
    shown = sorted(steps, key=lambda step: _URGENCY.index(step["status"]))[:rows]
    kept = {step["id"] for step in shown}
    lines = [_step_row(step) for step in steps if step["id"] in kept]
    if rest := len(steps) - len(shown):
        lines.append(Text(f"   … and {rest} more: {_counts(steps)}", style="dim"))
    head = Text(f"{detail['suiteTitle']} ", style="bold")
    head.append(f"{detail['status']}  {detail['duration']}")
    if position := detail.get("queuePosition"):
        head.append(f"  number {position} in the queue", style="dim")
    if queue := detail.get("queue"):
        head.append(f"; {queue['waitsFor']}" if queue["waitsFor"] else "", style="dim")
        expected = queue.get("expectedStart")
        head.append(f"; starts {expected['text']}" if expected else "", style="dim")
    return Group(Text(), *(_one_line(line) for line in [head, *lines]))


def _step_row(step: StepDocument) -> Text:
    mark, style = _MARKS[step["status"]]
    row = Text(f" {mark} ", style=style)
    row.append(f"{step['id']:<20} ", style="bold")
    row.append(step["status"], style=style)
    if step["attempt"] > 1:
        row.append(f"  attempt {step['attempt']}", style="yellow")
    if step["status"] == "pending" and step["waitingOn"]:
        row.append(f"  waits for {', '.join(step['waitingOn'])}", style="dim")
    if waits_for := step.get("waitsFor"):
        row.append(f"  {printable(waits_for)}", style="yellow")
    return row


def _one_line(text: Text) -> Text:
    """Let a narrow terminal cut the row instead of wrapping it."""
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _counts(steps: Sequence[StepDocument]) -> str:
    counted = Counter(step["status"] for step in steps)
    return ", ".join(f"{counted[status]} {status}" for status in _URGENCY if counted[status])


def print_run(detail: RunDetail, console: Console) -> None:
    """Print what failed and why, then what else there is, and last the verdict in one line.

    Healthy, skipped, pending and canceled steps are one line each.
    """
    width = _source_width(detail["steps"], console)
    for step in detail["steps"]:
        if step["status"] in ("running", "queued"):
            console.print(_verdict_row(step, width), soft_wrap=True)
    _print_failures(detail["verdict"], console)
    for status in ("pending", "skipped", "canceled", "healthy"):
        ids = [step["id"] for step in detail["steps"] if step["status"] == status]
        if ids and not (status == "healthy" and detail["status"] == "Healthy"):
            console.print(_folded_row(status, ids), soft_wrap=True)
    for step in detail["steps"]:
        for missing in step.get("missingArtifacts", ()):
            console.print(_missing_row(step["id"], missing), soft_wrap=True)
    _print_sentence(detail, console)


def _print_failures(verdict: RunVerdict, console: Console) -> None:
    """Print each failed step with its causes, its failed test cases and its last lines."""
    for step in verdict["steps"]:
        sentence = f"{step['sentence']} (allowed to fail)" if step["mayFail"] else step["sentence"]
        console.print(Text(f" ✗ {printable(sentence)}", style="red"), soft_wrap=True)
        for text in step["causes"]:
            console.print(Text(f"     {printable(text)}"), soft_wrap=True)
        for case in step["cases"]:
            console.print(_case_row(case), soft_wrap=True)
        if more := step["moreCases"]:
            console.print(Text(f"     and {more} more failed tests"), soft_wrap=True)
        for line in step["lines"]:
            console.print(Text(f"     │ {printable(line['text'])}", style="dim"), soft_wrap=True)
        if step["wroteNothing"]:
            console.print(Text("     the step wrote nothing", style="dim"), soft_wrap=True)
    if more := verdict["moreSteps"]:
        console.print(Text(f" ✗ and {more} more failed steps", style="red"), soft_wrap=True)


def _print_sentence(detail: RunDetail, console: Console) -> None:
    """Print the verdict in one line, and the next command where there is one."""
    verdict = detail["verdict"]
    mark, style = _VERDICTS.get(detail["status"], ("●", "yellow"))
    line = Text(f"{mark} {detail['suiteTitle']}: {detail['status']}", style=f"bold {style}")
    line.append(f" after {detail['duration']}", style="dim")
    line.append(f"  {printable(verdict['sentence'])}")
    console.print(line, soft_wrap=True)
    if "next" in verdict:
        console.print(Text(f"next: {verdict['next']}"), soft_wrap=True)
    if "queue" in detail and "expectedStart" in detail["queue"]:
        expected = detail["queue"]["expectedStart"]["text"]
        console.print(Text(f"expected to start {expected}"), soft_wrap=True)
    keep = detail.get("keep", {})
    if "until" in keep and "endedAt" not in keep:
        until = f"kept until {keep['until'][11:16]} UTC"
        commands = f"partita run keep {detail['id']} --for 30m, or --end"
        console.print(Text(f"its environment is {until}: {commands}"), soft_wrap=True)


def _case_row(case: VerdictCase) -> Text:
    where = f" ({printable(case['classname'])})" if case["classname"] else ""
    row = Text(f"     {printable(case['name'])}", style="bold")
    row.append(where, style="dim")
    row.append(f": {printable(case['message'])}" if case["message"] else "", style="not bold")
    return row


def _folded_row(status: str, ids: Sequence[str]) -> Text:
    mark, style = _MARKS[status]
    row = Text(f" {mark} {len(ids)} step{'' if len(ids) == 1 else 's'} {status}", style=style)
    if status in ("skipped", "canceled"):
        names = ", ".join(ids[:_NAMES])
        rest = f" and {len(ids) - _NAMES} more" if len(ids) > _NAMES else ""
        row.append(f": {names}{rest}", style="dim")
    return row


def _missing_row(step_id: str, missing: Mapping[str, str]) -> Text:
    """Return the warning about a declared artifact that a step left out."""
    text = f"{step_id} left no file {missing['path']}"
    if hint := missing.get("hint"):
        text = f"{text}: {hint}"
    return Text(f" ⚠ {printable(text)}", style="yellow")


def _verdict_row(step: StepDocument, width: int) -> Text:
    mark, style = _MARKS[step["status"]]
    row = Text(f" {mark} ", style=style)
    row.append(f"{_shorten(step['id'], width):<{width}} ", style="bold")
    row.append(f"{step['status']:<9}", style=style)
    row.append(f"{step.get('duration', ''):>5}")
    if step["attempt"] > 1:
        row.append(f"  attempt {step['attempt']}", style="yellow")
    if waits_for := step.get("waitsFor"):
        row.append(f"  {printable(waits_for)}", style="yellow")
    if reason := step.get("reason"):
        phrase = failure_phrase(reason, step.get("detail", ""), step.get("exitCode"))
        because = [phrase.alone, *cause_sentences(step.get("cause", ()))[-1:]]
        row.append(f"  {printable(': '.join(because))}", style="dim")
    return row
