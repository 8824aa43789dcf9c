"""`python -m bench resolve [--quick]`: reading suites, beside the goals for them.

200 suites in the workspace; one of them has 1,000 nodes in five levels of imports. Every call of
the API goes through the whole application in this process (no socket), and its CPU is this
process's.
A cold resolution starts evaluators, whose CPU is not ours: it is measured by the clock.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.report import is_quick, publish

SUITES: Final = 200
NODES: Final = 1_000
LEVELS: Final = 5
ROUNDS: Final = 20 if is_quick() else 200
COLD: Final = 2 if is_quick() else 9
DETAIL_GOAL_MS: Final = 5.0
LIST_GOAL_MS: Final = 30.0
COLD_GOAL_MS: Final = 500.0
COLUMNS: Final = ("what", "bytes", "CPU ms (median)", "CPU ms (p95)", "clock ms (median)", "goal")
LARGE: Final = "level5"


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="partita-bench-resolve-"))
    try:
        write_suites(folder / "suites")
        prepare(folder)
        rows, kept = measured()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    publish(
        "resolve",
        f"{SUITES} suites, one of {NODES:,} nodes in {LEVELS} levels of imports: what a read of "
        "them costs in a server that knows them, and the first resolution of the large one.",
        COLUMNS,
        rows,
        "All goals are kept." if kept else "**Missed**: see the column goal.",
    )
    return 0 if kept else 1


def write_suites(root: Path) -> None:
    """Write small suites, and `level5`, which imports `level4`, and so on; with 200 nodes each."""
    for number in range(SUITES - LEVELS):
        steps = "\n".join(f'task.run("t{n}", file="t.sh")' for n in range(8))
        write(root / f"small{number:03}", {"suite.star": steps + "\n"})
    per_level = NODES // LEVELS
    for level in range(1, LEVELS + 1):
        inner = [] if level == 1 else [f'inner = suite.run("inner", ref="level{level - 1}")']
        own = per_level
        after = "" if level == 1 else ", after=[inner]"
        own_steps = [
            f'task.run("t{n}", file="t.sh"{after if n % 10 == 0 else ""})' for n in range(own)
        ]
        files = {"suite.star": "\n".join([*inner, *own_steps]) + "\n"}
        if level > 1:
            name = f"level{level - 1}"
            files["dependencies.yaml"] = f"dependencies:\n  {name}: {name}\n"
        write(root / f"level{level}", files)


def write(folder: Path, files: dict[str, str]) -> None:
    more = {
        "README.md": f"# {folder.name}\n\nA suite of the benchmark.\n",
        "tasks/t.sh": "#!/bin/sh\necho hello\n",
        "profiles/default.yaml": "name: Default\ndefault: true\nenv: {A: b}\n",
        "profiles/ci.yaml": "name: CI\nextendsId: default\nenv: {A: c}\n",
    }
    for path, text in {**more, **files}.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


def prepare(folder: Path) -> None:
    os.environ.update(
        DJANGO_SETTINGS_MODULE="platform_site.settings.test",
        DB_DRIVER="sqlite",
        DATA_DIR=str(folder),
        SQLITE_PATH=str(folder / "bench.sqlite3"),
        SUITES_DIR=str(folder / "suites"),
        PLATFORM_SETTINGS_FILE=str(folder / "none.yaml"),
    )
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)


def measured() -> tuple[list[tuple[Any, ...]], bool]:
    from django.conf import settings
    from django.test import Client

    from apps.accounts.models import User
    from apps.accounts.services.administrators import ensure_seed_admin
    from apps.accounts.services.token_pairs import issue_tokens
    from apps.suites import selectors
    from apps.suites.evaluation.library import Library
    from apps.suites.lifespan import SERVER_PATIENCE_S

    settings.ALLOWED_HOSTS = ["*"]
    ensure_seed_admin("root@example.org", "Correct-Horse-1")
    token = issue_tokens(User.objects.get(email="root@example.org")).token
    client = Client(headers={"Authorization": f"Bearer {token}"})

    def get(path: str) -> bytes:
        answer = client.get(path)
        assert answer.status_code == 200, answer.content[:300]
        return bytes(answer.content)

    cold = cold_ms()
    library = Library()
    use(library)
    assert len(selectors.list_suites()) == SUITES
    library.patience_s = SERVER_PATIENCE_S
    rows: list[tuple[Any, ...]] = []
    kept = statistics.median(cold) < COLD_GOAL_MS
    for what, path, goal in (
        ("detail, 1,000 nodes", f"/api/v1/suites/{LARGE}", DETAIL_GOAL_MS),
        ("detail, 8 nodes", "/api/v1/suites/small000", DETAIL_GOAL_MS),
        ("list of 200", "/api/v1/suites?limit=200", LIST_GOAL_MS),
        ("list of 200, view=summary", "/api/v1/suites?limit=200&view=summary", LIST_GOAL_MS),
    ):
        size, cpu, clock = cost(partial(get, path))
        kept &= statistics.median(cpu) < goal
        rows.append(
            (what, f"{size:,}", statistics.median(cpu), percentile(cpu), statistics.median(clock),
             f"< {goal:g} ms CPU")
        )  # fmt: skip
    rows.append(
        ("cold resolution, 1,000 nodes", "–", "–", "–", statistics.median(cold),
         f"< {COLD_GOAL_MS:g} ms")
    )  # fmt: skip
    return rows, kept


def use(library: Any) -> None:
    """Let the reads of suites go to a library that knows nothing yet."""
    from apps.suites import selectors

    vars(selectors)["library"] = library


def cold_ms() -> list[float]:
    """Return the time of the first resolution of the large suite in a new library."""
    from apps.suites import selectors
    from apps.suites.evaluation.library import Library

    taken: list[float] = []
    for _ in range(COLD):
        library = Library()
        use(library)
        library.suites()
        began = time.perf_counter()
        found = selectors.resolve(LARGE)
        taken.append((time.perf_counter() - began) * 1000)
        assert len(found.topology) == NODES, len(found.topology)
        library.close()
    return taken


def cost(call: Callable[[], bytes]) -> tuple[int, list[float], list[float]]:
    """Return the size of an answer, and CPU and clock of each call in ms."""
    size = 0
    for _ in range(5):
        size = len(call())
    cpu, clock = [], []
    for _ in range(ROUNDS):
        began, used = time.perf_counter(), time.process_time()
        call()
        cpu.append((time.process_time() - used) * 1000)
        clock.append((time.perf_counter() - began) * 1000)
    return size, cpu, clock


def percentile(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


if __name__ == "__main__":
    sys.exit(main())
