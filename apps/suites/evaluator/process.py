"""Evaluator processes, limited in number, memory, processor time and wall time."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from apps.suites import conf
from apps.suites.domain.calls import (
    EvaluationAnswer,
    EvaluationRequest,
    ModulePackage,
    Rules,
    TextLint,
)
from apps.suites.evaluator.kept_answers import KeptAnswers

logger = logging.getLogger("partita.suites")

CPU_S: Final = 5
WALL_S: Final = 20.0  # on a machine whose processors are taken
MEMORY: Final = 256 * 2**20
INSTRUCTIONS: Final = 1_000_000
MAX_SOURCE: Final = 2**20
MAX_ANSWER: Final = 8 * 2**20
CHILDREN: Final = 2
_CHILD: Final = Path(__file__).with_name("child.py")
_slots = threading.BoundedSemaphore(CHILDREN)
_kept: Final[list[KeptAnswers]] = []  # at most one: where a command keeps what it evaluates


def run_evaluator(
    source: str,
    *,
    env: Mapping[str, str],
    rules: Rules,
    modules: Mapping[str, ModulePackage] | None = None,
) -> EvaluationAnswer:
    """Evaluate a suite.star; `modules` are those that it may load besides ours, by label.

    The call takes up to 5 s of processor time, at most 20 s, and longer while other evaluations
    run. An answer with `killed` may be another on a quieter machine.
    """
    if len(source.encode()) > MAX_SOURCE:
        return _refuse("suite.star is larger than 1 MiB")
    request = _request(source, env=env, rules=rules, modules=modules or {}, lints=False)
    if _kept and (known := _kept[0].find(request)):
        return known
    with _slots:
        answer: EvaluationAnswer | str = _answer(request)
    if isinstance(answer, str):
        return _refuse(answer, killed=True)
    for kept in _kept:
        kept.keep(request, answer)
    return answer


@contextmanager
def keep_evaluations() -> Iterator[None]:
    """Take the evaluations that are kept in DATA_DIR within this block, and keep new ones."""
    _kept.append(KeptAnswers(conf.data_dir()))
    try:
        yield
    finally:
        _kept.pop().write()


def lint_text(source: str, *, rules: Rules) -> list[TextLint]:
    """Return what the text of a suite.star says without effect; nothing beyond the limits."""
    if len(source.encode()) > MAX_SOURCE:
        return []
    with _slots:
        answer: list[TextLint] | str = _answer(
            _request(source, env={}, rules=rules, modules={}, lints=True)
        )
    return [] if isinstance(answer, str) else answer


def _request(
    source: str,
    *,
    env: Mapping[str, str],
    rules: Rules,
    modules: Mapping[str, ModulePackage],
    lints: bool,
) -> EvaluationRequest:
    return {
        "source": source,
        "env": dict(env),
        "rules": rules,
        "modules": dict(modules),
        "lints": lints,
        "instructions": INSTRUCTIONS,
        "seconds": CPU_S,
        "memory": MEMORY,
        "answer": MAX_ANSWER,
    }


def _answer(request: EvaluationRequest) -> Any:
    """Return what the process writes, or a sentence when a limit ended it."""
    # S603: the program is this Python and a file of ours; the suite's text goes to its stdin.
    # -I: the child sees neither the environment nor the current folder.
    try:
        ended = subprocess.run(  # noqa: S603
            [sys.executable, "-I", str(_CHILD)],
            input=json.dumps(request).encode(),
            capture_output=True,
            env={},
            cwd="/",
            timeout=WALL_S,
            check=False,
            start_new_session=True,  # without Ctrl-C from the terminal
        )
    except subprocess.TimeoutExpired:
        return f"the evaluation did not end within {WALL_S:g} s; the machine may be too busy"
    if ended.returncode == -signal.SIGXCPU:
        return f"the evaluation took longer than {CPU_S} s of processor time"
    if ended.returncode:
        logger.warning(
            "The evaluator exited with %s: %s",
            ended.returncode,
            ended.stderr[-400:].decode(errors="replace"),
        )
        return "the evaluation used too much memory"
    return json.loads(ended.stdout)


def _refuse(message: str, *, killed: bool = False) -> EvaluationAnswer:
    return {
        "nodes": [],
        "bound": {},
        "printed": [],
        "loads": [],
        "problem": {"code": "limit_exceeded", "message": message, "file": "suite.star"},
        "killed": killed,
    }
