"""Codes of errors of the API: docs/tables/problems.md."""

from __future__ import annotations

from http import HTTPStatus
from itertools import groupby

from documentation.markdown import codes, table
from kernel.problems import PROBLEMS, RETRY_AFTER_S


def page() -> str:
    by_status = groupby(sorted(PROBLEMS, key=lambda code: PROBLEMS[code]), key=PROBLEMS.__getitem__)
    rows = [
        (f"{status} {HTTPStatus(status).phrase}", codes(sorted(names)))
        for status, names in by_status
    ]
    waits = ", ".join(f"{status}: {seconds} s" for status, seconds in RETRY_AFTER_S.items())
    return (
        "# Problem codes of the API\n\n"
        "An error is `application/problem+json` (RFC 9457). `code` says which one it is and stays the same from "
        "release to release; `detail` says what happened here and what to do; `errors` lists each fault of an "
        f"input with its pointer. Without a `Retry-After` of its own, an error has the one of its status ({waits}).\n\n"
        f"{table(('Status', 'Codes'), rows)}"
    )
