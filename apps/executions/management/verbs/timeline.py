"""`run timeline`: a line per step, with a bar over the time of the run."""

from __future__ import annotations

import shutil
import sys
from typing import Any

from apps.executions.management.verbs.arguments import Options, add_run
from apps.executions.selectors.timeline import run_timeline
from apps.operations.api import ExitCode, VerbCommand, print_json
from partita_client.command.run_timeline import timeline_lines


def add_verbs(command: VerbCommand, verbs: Any) -> None:
    text = "when each step waited, was pulled, got ready and ran, and what the run waited for"
    timeline = command.add_verb(verbs, "timeline", show_timeline, text)
    add_run(timeline)
    timeline.add_argument(
        "--critical", action="store_true", help="only the steps of the critical path"
    )


def show_timeline(options: Options) -> int:
    body = run_timeline(options["run"])
    if options["output"] == "json":
        print_json(body)
        return ExitCode.OK
    width = shutil.get_terminal_size().columns
    lines = timeline_lines(body, width=width, only_critical=options["critical"])
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return ExitCode.OK
