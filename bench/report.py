"""How a benchmark tells its result: a table on the terminal, JSON, and a section of RESULTS.md."""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def publish(
    name: str,
    question: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    verdict: str,
    *,
    command: str = "",
) -> None:
    """Print the table, write `bench/results/<name>.json`, replace the section in RESULTS.md.

    A quick run is only printed.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    table = _markdown(columns, cells)
    print(f"\n## {name}\n{question}\n\n{table}\n\n{verdict}\n", flush=True)
    if is_quick():
        return
    record = {
        "name": name,
        "question": question,
        "measuredAt": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}",
        "columns": list(columns),
        "rows": [list(row) for row in rows],
        "verdict": verdict,
        "command": command or f".venv/bin/python -m bench {name}",
    }
    (FOLDER / "results").mkdir(exist_ok=True)
    (FOLDER / "results" / f"{name}.json").write_text(json.dumps(record, indent=2) + "\n")
    _replace_section(name, _section(record, table))


def end_in_order() -> None:
    """SIGTERM ends the benchmark as Ctrl-C does: what it has started is stopped."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def is_quick() -> bool:
    """Whether the benchmark was started with `--quick`: fewer and shorter rounds, nothing kept."""
    return "--quick" in sys.argv[1:]


def _cell(value: Any) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else str(value)


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _section(record: dict[str, Any], table: str) -> str:
    return (
        f"## {record['name']}\n\n{record['question']}\n\n"
        f"Command: `{record['command']}` · {record['measuredAt']} · "
        f"{record['machine']}\n\n{table}\n\n{record['verdict']}\n"
    )


def _replace_section(name: str, section: str) -> None:
    path = FOLDER / "RESULTS.md"
    text = path.read_text() if path.exists() else "# Results\n\nThe last run of each benchmark.\n"
    pattern = re.compile(rf"^## {re.escape(name)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    replaced, found = pattern.subn(lambda _: section + "\n", text)
    path.write_text((replaced if found else f"{text.rstrip()}\n\n{section}").rstrip() + "\n")
