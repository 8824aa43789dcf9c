"""`run artifacts`: list the files that the steps of a run exported, and download them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from apps.executions import api as executions
from apps.executions.management.verbs.arguments import Options, add_run
from apps.executions.selectors.artifact_files import run_artifact_files
from apps.executions.selectors.detail import NO_PARTS
from apps.operations.api import ExitCode, VerbCommand, print_json, print_table, printable
from kernel.errors import InvalidInput


def add_verbs(command: VerbCommand, verbs: Any) -> None:
    artifacts = command.add_verb(
        verbs, "artifacts", show_artifacts, "list the files that steps exported, or download them"
    )
    add_run(artifacts)
    artifacts.add_argument(
        "--download",
        type=Path,
        metavar="FOLDER",
        help="write all files into this folder, as <step>/<attempt>/<path>",
    )


def show_artifacts(options: Options) -> int:
    if options["download"]:
        return _download(options["run"], options["download"], output=options["output"])
    artifacts = executions.run_detail(options["run"], NO_PARTS - {"artifacts"})["artifacts"]
    if options["output"] == "json":
        print_json({"artifacts": artifacts})
        return ExitCode.OK
    rows = [
        (
            printable(each["stepId"]),
            str(each["attempt"]),
            each["format"],
            str(each["size"]),
            each["createdAt"][:19].replace("T", " "),
            "removed" if "expiredAt" in each else printable(each["path"]),
        )
        for each in artifacts
    ]
    print_table(("STEP", "ATTEMPT", "FORMAT", "BYTES", "TIME", "FILE"), rows)
    return ExitCode.OK


def _download(run_id: str, folder: Path, *, output: str) -> int:
    """Write the files; a file that is there is never replaced."""
    files, lost = [], []
    for name, body in run_artifact_files(run_id):
        if body is None:
            lost.append(name)
            continue
        _write_new(folder / name, body)
        files.append(str(folder / name))
    if output == "json":
        print_json({"files": files, "lost": lost})
    else:
        sys.stdout.writelines(f"{printable(name)}\n" for name in files)
    for name in lost:
        sys.stderr.write(f"{printable(name)}: gone from the storage of artifacts\n")
    return ExitCode.ERROR if lost else ExitCode.OK


def _write_new(path: Path, body: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(body)
    except FileExistsError:
        raise InvalidInput(f"{path} is there already: choose another folder") from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from None
