"""`run keep`: extend or end the environment that is kept of a run."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from typing import Any, Final

from apps.accounts import api as accounts
from apps.executions.management.verbs.arguments import Options, add_run
from apps.executions.services.kept_environments import end as end_keeping
from apps.executions.services.kept_environments import extend as extend_keeping
from apps.operations.api import ExitCode, VerbCommand, print_json
from apps.profiles.api import KEEP_MAX_MS
from kernel import clock
from kernel.durations import parse_duration_ms

_NONE: Final = ("no", "0")


def add_verbs(command: VerbCommand, verbs: Any) -> None:
    keep = command.add_verb(verbs, "keep", keep_run, "extend or end the kept environment of a run")
    add_run(keep)
    what = keep.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--for", dest="keep_ms", type=keep_ms, metavar="TIME", help="from now on, such as 30m"
    )
    what.add_argument("--end", action="store_true", help="remove it now")


def add_keep(parser: Any) -> None:
    """Add the option of `run launch` and `run rerun`."""
    parser.add_argument(
        "--keep",
        dest="keep_ms",
        type=keep_ms_or_none,
        metavar="TIME",
        help="keep the environment after the verdict, such as 30m, at most 4h; no: whatever the "
        "profile says",
    )


def keep_ms(text: str) -> int:
    try:
        wanted = parse_duration_ms(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None
    if wanted > KEEP_MAX_MS:
        raise ArgumentTypeError(f"{text!r}: an environment is kept for at most 4h")
    return wanted


def keep_ms_or_none(text: str) -> int:
    return 0 if text in _NONE else keep_ms(text)


def keep_run(options: Options) -> int:
    run_id, principal = options["run"], accounts.operator()
    if options["end"]:
        end_keeping(principal, run_id)
        body: Any = {"id": run_id, "endedAt": clock.rfc3339(clock.now())}
        text = f"{run_id}: its environment is removed within seconds"
    else:
        body = extend_keeping(principal, run_id, options["keep_ms"])
        text = f"{run_id}: its environment is kept until {body['until']}"
    if options["output"] == "json":
        print_json(body)
    else:
        sys.stdout.write(f"{text}\n")
    return ExitCode.OK
