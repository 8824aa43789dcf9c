"""The real `cue` programs, an older and a current one, as the judges of our reader.

They are built once from the Go module proxy, where `go` is there. Else what they answered for the
committed programs counts (`python -m tests.support.cue_oracle` records that anew).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "partita" / "cue"
DATA: Final = Path(__file__).resolve().parents[1] / "unit" / "cue"
RECORDED: Final = DATA / "answers.json"
SEPARATOR: Final = "// ---- "
BUILD_TIMEOUT_S: Final = 900
ANSWER_TIMEOUT_S: Final = 20
ASKED_ALL: Final = bool(os.environ.get("CUE_ALL"))
ASKED_OF: Final = 10
_draw = random.Random(os.environ.get("PARTITA_FAULT_SEED"))
# version -> what must be newer than it asks for, so that a current Go compiles it
VERSIONS: Final = {"v0.14.2": "", "v0.9.2": "golang.org/x/tools@v0.35.0"}


@dataclass(frozen=True)
class Answer:
    """What `cue export` says: a value, or a refusal. Numbers keep their spelling."""

    ok: bool
    value: Any = None


REFUSED: Final = Answer(ok=False)


class NoOracle(Exception):
    """Why no program can be asked, and no recorded answer is there either."""


@dataclass(frozen=True)
class Number:
    """As JSON spells it: `2` is no `2.0`."""

    text: str


def spelled_json(text: str) -> Any:
    return json.loads(text, parse_int=Number, parse_float=Number)


def programs() -> dict[str, str]:
    """What people write, by `topic/name`: the files under programs/, cut at their separators."""
    found: dict[str, str] = {}
    for path in sorted((DATA / "programs").glob("*.txt")):
        for part in path.read_text().split(SEPARATOR)[1:]:
            name, _, text = part.partition("\n")
            found[f"{path.stem}/{name.strip()}"] = text.strip() + "\n"
    return found


def cases() -> dict[str, str]:
    """One file a rule of the language, by `topic/name`."""
    folder = DATA / "cases"
    paths = sorted(folder.rglob("*.cue"))
    return {str(path.relative_to(folder))[:-4]: path.read_bytes().decode() for path in paths}


@cache
def binaries() -> Mapping[str, Path]:
    """The programs by version; empty, with the reason on standard error, without them."""
    if shutil.which("go") is None:
        print("go is not there: recorded answers of cue are used", file=sys.stderr)
        return {}
    try:
        return {version: _built(version, newer) for version, newer in VERSIONS.items()}
    except subprocess.SubprocessError as error:
        said = str(getattr(error, "stderr", "") or error)[-300:]
        print(f"cue was not built, recorded answers are used: {said}", file=sys.stderr)
        return {}


def _built(version: str, newer: str) -> Path:
    folder = FOLDER / version
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "cue"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            print(f"building cue {version} from the Go module proxy", file=sys.stderr)
            _build(folder, version, newer)
    return program


def _build(folder: Path, version: str, newer: str) -> None:
    (folder / "go.mod").write_text(
        f"module oracle\n\ngo 1.22\n\nrequire cuelang.org/go {version}\n"
    )
    (folder / "oracle.go").write_text(
        '//go:build tools\n\npackage oracle\n\nimport _ "cuelang.org/go/cmd/cue/cmd"\n'
    )
    environment = {**os.environ, "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    commands = [["go", "get", newer]] if newer else []
    commands.append(["go", "build", "-o", "cue.new", "cuelang.org/go/cmd/cue"])
    for command in commands:
        subprocess.run(
            command,
            cwd=folder,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=BUILD_TIMEOUT_S,
        )
    (folder / "cue.new").rename(folder / "cue")


def answers(text: str) -> tuple[Answer, ...]:
    """Return what each version says of a file, newest first. Raises NoOracle.

    Of a committed file the recorded answers count; one in ASKED_OF of them, drawn anew by each run,
    is asked again, and all are where CUE_ALL is set.
    """
    found, known = binaries(), _recorded().get(_digest(text))
    if known is None and not found:
        raise NoOracle("no recorded answers for this file")
    recorded = None if known is None else tuple(map(_answer, known))
    if recorded and not (found and (ASKED_ALL or _draw.randrange(ASKED_OF) == 0)):
        return recorded
    asked = tuple(_answer(export(program, text)) for program in found.values())
    assert recorded in (None, asked), f"record the answers anew: {text}"
    return asked


def all_answers(texts: Iterable[str]) -> list[tuple[Answer, ...]]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(answers, texts))


def _answer(out: str | None) -> Answer:
    return REFUSED if out is None else Answer(ok=True, value=spelled_json(out))


def export(program: Path, text: str) -> str | None:
    """The JSON of a file; None where the program refuses it or takes too long."""
    with tempfile.TemporaryDirectory(prefix="cue-oracle-") as folder:
        (Path(folder) / "file.cue").write_bytes(text.encode())
        try:
            done = subprocess.run(
                [str(program), "export", "--out", "json", "file.cue"],
                cwd=folder,
                env={"HOME": folder, "PATH": "/usr/bin:/bin", "CUE_REGISTRY": "none"},
                capture_output=True,
                timeout=ANSWER_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None
    return done.stdout.decode() if done.returncode == 0 else None


@cache
def _recorded() -> dict[str, list[str | None]]:
    found: dict[str, list[str | None]] = json.loads(RECORDED.read_text())
    return found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def record() -> int:
    """Write down what every version says of each committed file."""
    found = binaries()
    if not found:
        return 1
    texts = [*cases().values(), *programs().values()]

    def ask(text: str) -> list[str | None]:
        outs = [export(program, text) for program in found.values()]
        return [None if out is None else _compact(out) for out in outs]

    with ThreadPoolExecutor(2) as pool:
        told = dict(zip(map(_digest, texts), pool.map(ask, texts), strict=True))
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(told[key])}" for key in sorted(told))
    RECORDED.write_text(f"{{\n{lines}\n}}\n")
    print(f"{len(told)} files recorded")
    return 0


def _compact(out: str) -> str:
    """Without white space between values; numbers as they are spelled."""

    def written(value: Any) -> str:
        match value:
            case Number(text=text):
                return text
            case dict():
                members = (f"{json.dumps(key)}:{written(item)}" for key, item in value.items())
                return "{" + ",".join(members) + "}"
            case list():
                return f"[{','.join(map(written, value))}]"
            case _:
                return json.dumps(value)

    return written(spelled_json(out))


if __name__ == "__main__":
    sys.exit(record())
