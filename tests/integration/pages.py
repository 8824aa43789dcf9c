"""Runs that tests of pages look at, and what they look for on every page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from apps.accounts.api import Principal
from apps.executions import api as executions
from kernel import clock
from kernel.agent_protocol import ArtifactUpload, LogChunk, LogLine, job_of
from tests.apps.executions.runs import Run, Worker, booted_run, node
from tests.support.browser import Reader
from tests.support.people import principal_of

AXE_VERSION = "4.14.1"
SERIOUS = ("serious", "critical")
DESK_AND_PHONE = [(1440, 900), (390, 844)]
SCREENS = [(1440, 900, "light"), (1440, 900, "dark"), (1024, 768, "light"), (390, 844, "dark")]
PICTURES = ""  # a folder, to look at them
EVIL = '<img src=x onerror=alert(1)><script>alert("x")</script>'
ERROR = "psycopg.OperationalError: connection to server at 10.0.0.7 failed: Connection refused"


def principal(who: Reader) -> Principal:
    return principal_of(who.user, is_admin=False)


def three_steps(who: Reader) -> Run:
    return booted_run(
        node("seed"),
        node("check", after=["seed"], kind="test"),
        node("tidy", on_failure=["check"]),
        principal=principal(who),
    )


def open_run(who: Reader, run: Run) -> Page:
    who.open(f"/executions/{run.id}")
    return who.page


def report() -> bytes:
    """Twelve tests, of which the fifth fails."""
    cases = "".join(
        f'<testcase name="case {n}" classname="shop">'
        + (
            '<failure message="expected 3 items, got 2">Traceback: line 7\n  assert</failure>'
            if n == 5
            else ""
        )
        + "</testcase>"
        for n in range(1, 13)
    )
    return f"<testsuite>{cases}</testsuite>".encode()


def failed_run(who: Reader, worker: Worker) -> Run:
    """Forty steps beside each other: the 23rd fails, and of the tests of the 31st the 5th."""
    exports = [{"path": "junit.xml", "on": "always", "format": "junit", "required": False}]
    nodes = [node(f"s{n:02}") for n in range(1, 41)]
    nodes[30] |= {"kind": "test", "artifactExports": exports}
    made = booted_run(*nodes, principal=principal(who))
    while claimed := worker.claim():
        for step in claimed:
            if step == "s31":
                continue
            if step == "s23":
                lines = [LogLine(clock.now(), "info", "output", f"step {n}") for n in range(60)]
                lines.append(LogLine(clock.now(), "warn", "output", f"\x1b[31m{ERROR}\x1b[0m"))
                chunk = LogChunk(
                    job=job_of(worker.jobs[step]), seq=0, position=len(lines), lines=lines
                )
                executions.record_reports(worker.supervisor, chunks=[chunk])
                worker.fail(step)
            else:
                worker.end(step)
    written = LogLine(clock.now(), "info", "output", "1 of 12 is red")
    chunk = LogChunk(job=job_of(worker.jobs["s31"]), seq=0, position=1, lines=[written])
    executions.record_reports(worker.supervisor, chunks=[chunk])
    upload = ArtifactUpload(
        path="junit.xml", name="", format="junit", on="always", media_type="application/xml",
        body=report(),
    )  # fmt: skip
    executions.store_artifact(worker.supervisor, job_of(worker.jobs["s31"]), upload)
    worker.fail("s31")
    return made


def kept_run(who: Reader, worker: Worker) -> Run:
    """A failed run whose service goes on for half an hour."""
    run = booted_run(
        node("db", kind="service"), node("seed", after=["db"]),
        principal=principal(who), keep_ms=1_800_000,
    )  # fmt: skip
    worker.claim()
    worker.report("db", "healthy")
    worker.claim()
    worker.fail("seed")
    worker.end("db")
    assert run.status == "Failed"
    return run


def picture(page: Page, name: str) -> None:
    if PICTURES:
        page.screenshot(path=str(Path(PICTURES) / f"{name}.png"))


def findings(page: Page, axe: str) -> list[str]:
    page.evaluate(axe)
    found: list[dict[str, Any]] = page.evaluate("axe.run().then((found) => found.violations)")
    return [
        f"{page.url}: {one['id']} ({one['help']}) {node['html'][:160]} {node['failureSummary']}"
        for one in found
        if one["impact"] in SERIOUS
        for node in one["nodes"]
    ]


def findings_everywhere(page: Page, axe: str, base: str, paths: list[str]) -> list[str]:
    found = []
    for scheme, (width, height) in zip(("light", "dark"), DESK_AND_PHONE, strict=True):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": height})
        for path in paths:
            page.goto(base + path)
            found += [f"{scheme} {width}: {one}" for one in findings(page, axe)]
    return found
