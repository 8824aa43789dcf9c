"""Chains of steps on a real runtime, and what each step took: for start_ahead and kubernetes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from bench import stand

IMAGE = "busybox:1.36"
SUITE = """load("@partita/runtime", "task")

before = []
for n in range({steps}):
    before = [task.run("step-%d" % n, image = "{image}", {program}, after = before)]
"""
Way = Callable[[int], list[float]]  # the steps' own time → what each took, but for the first


@contextmanager
def partita(
    folder: Path, ahead: int, chains: Mapping[int, int], program: str, **settings: str
) -> Iterator[Way]:
    """Provide a runner with START_AHEAD=`ahead`, on the store of TEST_POSTGRES_DSN if that is set.

    `chains`: the steps' own time in seconds → how many; `program`: the argument of `task.run` that
    takes `{own}` seconds; `settings`: of the runtime.
    """
    folder.mkdir()
    for own_s, steps in chains.items():
        source = SUITE.format(steps=steps, image=IMAGE, program=program.format(own=own_s))
        stand.suite(folder / "suites", f"chain-{own_s}", source)
    dsn = os.environ.get("TEST_POSTGRES_DSN", "")
    environment = stand.environment(folder, dsn=dsn, START_AHEAD=str(ahead), **settings)
    with stand.runner(environment, folder) as child:
        yield _chain_of(child, chains)
    if dsn:
        stand.drop_database(environment, dsn)


def _chain_of(child: stand.Child, chains: Mapping[int, int]) -> Way:
    def measure(own_s: int) -> list[float]:
        ended = child.ask(suite=f"chain-{own_s}")
        assert ended["status"] == "Healthy", ended
        ends = child.ask(steps=ended["runId"])["ended"]
        assert len(ends) == chains[own_s]
        return [after - before for before, after in pairwise(ends)]

    return measure
