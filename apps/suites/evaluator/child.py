"""The evaluator process: it reads JSON with a suite.star from stdin and writes JSON to stdout.

It is run by path with `python -I` and imports only starlark and light modules of this project, so
that it starts in about 40 ms. It sets its limits before it reads the suite's text. Its input is an
EvaluationRequest, its output an EvaluationAnswer or the lints. A suite that exceeds memory or time
ends the process, and the parent reports it.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # found only after the change of sys.path below
    from apps.suites.domain.calls import EvaluationAnswer, TextLint

ROOT = Path(__file__).resolve().parents[3]
NICENESS = 10  # requests come first


def limit_this_process(*, memory: int, seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def main() -> None:
    os.nice(NICENESS)
    request = json.load(sys.stdin.buffer)
    from apps.suites.evaluator.request_handler import answer

    limit_this_process(memory=request["memory"], seconds=request["seconds"])
    write_bounded(answer(request), limit=request["answer"])


def write_bounded(answer: EvaluationAnswer | list[TextLint], *, limit: int) -> None:
    """Write the answer; exit when it is too long, as with a text that many nodes share."""
    parts, size = [], 0
    for part in json.JSONEncoder().iterencode(answer):
        size += len(part)
        if size > limit:
            sys.exit("the answer is too large")
        parts.append(part)
    sys.stdout.write("".join(parts))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
