"""`run list`, `run show`, `run why`, `run artifacts` and `run download`."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any, Final

from partita_client.command.output import (
    ListColumn,
    age_of,
    note,
    printable,
    say,
    show_document,
    show_list,
)
from partita_client.command.parser import CommandSession, CommandVerb, add_run, hint_at, limit
from partita_client.command.run_views import (
    attempt_lines,
    exit_code_of,
    failure_lines,
    green_lines,
    head_line,
    run_lines,
    verdict_lines,
)
from partita_client.downloads import new_file
from partita_client.errors import ApiProblem
from partita_client.exit_codes import ExitCode

STATUSES: Final = ("Queued", "Booting", "Healthy", "Failed", "Canceling", "Canceled")
_NO_FILES: Final = "the steps of this run exported no files"
_OTHER_WORDS: Final = {
    **dict.fromkeys(("running", "active", "live"), "Booting"),
    **dict.fromkeys(("green", "passed", "success", "succeeded"), "Healthy"),
    **dict.fromkeys(("red", "failure"), "Failed"),
    **dict.fromkeys(("waiting", "pending"), "Queued"),
    "cancelled": "Canceled",
}
RUN_COLUMNS: Final = (
    ListColumn(heading="ID", cell=lambda run: run["id"]),
    ListColumn(heading="SUITE", cell=lambda run: run["suiteId"]),
    ListColumn(heading="PROFILE", cell=lambda run: run["profile"]),
    ListColumn(heading="STATUS", cell=lambda run: run["status"], is_status=True),
    ListColumn(heading="TOOK", cell=lambda run: run["duration"]),
    ListColumn(heading="AGE", cell=lambda run: age_of(run["startedAt"])),
    ListColumn(heading="STARTED", cell=lambda run: run["startedAt"], is_wide=True),
    ListColumn(heading="AUTHOR", cell=lambda run: run["author"], is_wide=True),
    ListColumn(heading="TRIGGER", cell=lambda run: run["trigger"], is_wide=True),
    ListColumn(heading="BACKEND", cell=lambda run: run["backendId"], is_wide=True),
    ListColumn(
        heading="REASON", cell=lambda run: run["sentence"] if run["status"] != "Healthy" else ""
    ),
)
FILE_COLUMNS: Final = (
    ListColumn(heading="STEP", cell=lambda each: each["stepId"]),
    ListColumn(heading="ATTEMPT", cell=lambda each: str(each["attempt"])),
    ListColumn(heading="FORMAT", cell=lambda each: each["format"]),
    ListColumn(heading="BYTES", cell=lambda each: str(each["size"])),
    ListColumn(heading="TIME", cell=lambda each: each["createdAt"][:19].replace("T", " ")),
    ListColumn(heading="ID", cell=lambda each: each["id"], is_wide=True),
    ListColumn(heading="SHA256", cell=lambda each: each["sha256"], is_wide=True),
    ListColumn(
        heading="FILE", cell=lambda each: "removed" if "expiredAt" in each else each["path"]
    ),
)


def statuses(text: str) -> list[str]:
    """Return the comma list as the server knows it, in any case and some other words."""
    known = {status.lower(): status for status in STATUSES} | _OTHER_WORDS
    names = [name.strip() for name in text.split(",") if name.strip()]
    if unknown := [name for name in names if name.lower() not in known]:
        hint = hint_at(unknown[0], [*_OTHER_WORDS, *STATUSES])
        raise ArgumentTypeError(f"{unknown[0]!r}: expected one of {', '.join(STATUSES)}{hint}")
    return [known[name.lower()] for name in names]


def _add_list(parser: Any) -> None:
    parser.add_argument("--status", type=statuses, default=[], help="such as failed,canceled")
    parser.add_argument("--suite", default="", help="only runs of this suite")
    parser.add_argument("--search", default="", metavar="TEXT", help="text in id, suite, author, …")
    parser.add_argument("--limit", type=limit, default=20, help="1 to 1000, default 20")


def list_runs(session: CommandSession) -> int:
    options = session.options
    runs = session.client.runs(
        status=options.status, suite=options.suite, limit=options.limit, q=options.search
    )
    show_list("executions", runs, RUN_COLUMNS, session.form, key="id")
    if not runs and session.is_for_people:
        is_filtered = options.status or options.suite or options.search
        note(
            "no run matches these filters; next: partita run list"
            if is_filtered
            else "no runs yet; next: partita suite list, then partita run launch SUITE --watch"
        )
    return ExitCode.OK


def _add_show(parser: Any) -> None:
    add_run(parser)
    parser.add_argument("--all", action="store_true", help="a row for every healthy step, too")
    parser.add_argument(
        "--since-green",
        action="store_true",
        help="what differs from the last healthy run of the suite before it",
    )
    _add_exit_status(parser)


def _add_exit_status(parser: Any) -> None:
    parser.add_argument(
        "--exit-status", action="store_true", help="end with the exit code of the run: 10, 11, 12"
    )


def show_run(session: CommandSession) -> int:
    options, client = session.options, session.client
    run = client.run(options.run)
    found = client.since_green(options.run) if options.since_green else None
    if not session.is_for_people:
        document = {**run, "sinceGreen": found} if found else run
        show_document(document, session.form, name=run["id"])
    else:
        say(head_line(run))
        lines = [*run_lines(run, every_step=options.all)]
        for artifact in run["artifacts"]:
            name, path = printable(artifact["id"]), printable(artifact["path"])
            lines.append(f"artifact {name}  {artifact['size']} bytes  {path}")
        for line in [*lines, *attempt_lines(run), *(green_lines(found) if found else [])]:
            say(line)
    return exit_code_of(run) if options.exit_status else ExitCode.OK


def _add_why(parser: Any) -> None:
    add_run(parser)
    _add_exit_status(parser)


def explain_run(session: CommandSession) -> int:
    """Print the verdict, and of a failed run what differs from the last healthy one."""
    run_id = session.options.run
    run = session.client.run(run_id, parts=("verdict", "steps"))
    if not session.is_for_people:
        show_document(run["verdict"], session.form, name=run["id"])
    else:
        for line in failure_lines(run["verdict"]):
            say(line)
        for line in _green_lines_of(session, run_id) if run["status"] == "Failed" else []:
            say(line)
        for line in verdict_lines(run):
            say(line)
    return exit_code_of(run) if session.options.exit_status else ExitCode.OK


def _green_lines_of(session: CommandSession, run_id: str) -> list[str]:
    found = session.client.since_green(run_id)
    return green_lines(found) if found["differences"] else []


def _add_artifacts(parser: Any) -> None:
    add_run(parser)
    parser.add_argument(
        "--download",
        type=Path,
        metavar="FOLDER",
        help="write all files into this folder, as <step>/<attempt>/<path>",
    )


def show_artifacts(session: CommandSession) -> int:
    if session.options.download:
        return _download_all(session, session.options.run, session.options.download)
    found = session.client.artifacts(session.options.run)
    show_list("artifacts", found, FILE_COLUMNS, session.form, key="id")
    if not found and session.is_for_people:
        note(_NO_FILES)
    return ExitCode.OK


def _add_download(parser: Any) -> None:
    add_run(parser)
    parser.add_argument("artifact", nargs="?", default="", metavar="ARTIFACT", help="one id alone")
    parser.add_argument("--to", type=Path, default=Path(), metavar="FOLDER", help="default: here")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="the JUnit report alone")


def download(session: CommandSession) -> int:
    """Write all artifacts of a run, one of them, or its JUnit report."""
    options = session.options
    if options.junit:
        with new_file(options.junit) as part:
            part.write_bytes(session.client.junit(options.run))
        say(printable(str(options.junit)))
        return ExitCode.OK
    return _download_all(session, options.run, options.to, only=options.artifact)


def _download_all(session: CommandSession, run_id: str, folder: Path, *, only: str = "") -> int:
    """Write the files as <step>/<attempt>/<path>; a file that is there is never replaced."""
    found = session.client.artifacts(run_id)
    wanted = [each for each in found if only in ("", each["id"]) and "expiredAt" not in each]
    if only and not wanted:
        names = ", ".join(each["id"] for each in found) or "none"
        raise ApiProblem(
            status=404, code="artifact_not_found", detail=f"no artifact {only!r}; known: {names}"
        )
    files, lost = list[str](), list[str]()
    for each in wanted:
        target = folder / file_name_of(each["stepId"], each["attempt"], each["path"])
        is_there = _download_one(session, run_id, each["id"], target)
        (files if is_there else lost).append(str(target))
    if not session.is_for_people and session.form != "name":
        show_document({"files": files, "lost": lost}, session.form)
    if not wanted and session.is_for_people:
        note(_NO_FILES)
    for name in lost:
        note(f"{printable(name)}: gone from the storage of artifacts")
    return ExitCode.ERROR if lost else ExitCode.OK


def _download_one(session: CommandSession, run_id: str, artifact_id: str, target: Path) -> bool:
    """Write a file and print its name; return False where the server has its bytes no more."""
    try:
        session.client.download_artifact(run_id, artifact_id, target)
    except ApiProblem as error:
        if error.code not in ("artifact_lost", "artifact_expired"):
            raise
        return False
    if session.is_for_people or session.form == "name":
        say(printable(str(target)))
    return True


def file_name_of(step_id: str, attempt: int, path: str) -> Path:
    """Return where to write an artifact; nothing that the server says leads out of the folder."""
    parts = [step_id, str(attempt), *path.replace("\\", "/").split("/")]
    safe = [_safe_part(part) for part in parts if part not in ("", ".", "..")]
    return Path(*safe)


def _safe_part(part: str) -> str:
    letters = (
        each if each.isprintable() and each not in '<>:"|?*/' else "_" for each in part[:200]
    )
    return "".join(letters)


VERBS = (
    CommandVerb(
        name="list", text="list runs, newest first", run=list_runs, add_arguments=_add_list
    ),
    CommandVerb(
        name="show",
        text="show one run: steps, reasons, artifacts",
        run=show_run,
        add_arguments=_add_show,
    ),
    CommandVerb(
        name="why",
        text="print why a run failed or was canceled, and what changed since it was healthy",
        run=explain_run,
        add_arguments=_add_why,
    ),
    CommandVerb(
        name="artifacts",
        text="list the files that steps exported, or download them",
        run=show_artifacts,
        add_arguments=_add_artifacts,
    ),
    CommandVerb(
        name="download",
        text="download the files of a run, one of them, or its JUnit report",
        run=download,
        add_arguments=_add_download,
    ),
)
