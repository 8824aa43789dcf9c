"""Completion as a shell has it: commands, options, and ids of the server."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import stat
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from partita_client.command.program import run_words
from tests.support.fake_partita import RUN, TOKEN, FakePartita
from tests.support.parts import give_up
from tests.support.processes import ROOT

CASES = [
    (["ru"], ["run"]),
    (["log"], ["login", "logout"]),
    (["run", "la"], ["launch"]),
    (["run", "launch", "s"], ["shop"]),
    (["run", "launch", "shop", "--prof"], ["--profile"]),
    (["run", "launch", "shop", "--profile", ""], ["ci.yaml"]),
    (["run", "launch", "shop", "--profile=c"], ["--profile=ci.yaml"]),
    (["run", "launch", "--trigger=CI", "s"], ["shop"]),
    (["run", "launch", "--backend", ""], ["local"]),
    (["run", "why", "run-"], [RUN]),
    (["run", "why", RUN, ""], []),
    (["run", "cancel", ""], []),
    (["run", "logs", RUN, "--source", ""], ["api", "check"]),
    (["run", "list", "--status", "f"], ["failed"]),
    (["run", "list", "-o", "j"], ["json"]),
    (["suite", "show", ""], ["shop"]),
    (["completion", ""], ["bash", "fish", "zsh"]),
    (["wor"], ["worker"]),
    (["settings", ""], ["show", "diff", "apply", "registries"]),
    (["settings", "registries", ""], ["test", "sync"]),
    (["settings", "registries", "test", ""], ["zot"]),
    (["worker", "show", ""], ["edge", "near"]),
    (["worker", "drain", ""], ["near"]),
    (["worker", "resume", ""], ["edge"]),
    (["worker", "list", "--state", ""], ["online", "offline"]),
    (["mock", "s"], ["state", "serve", "schema"]),
    (["mock", "explain", ""], ["shop"]),
    (["mock", "explain", "shop", ""], ["api"]),
    (["mock", "verify", "shop", "--surface", ""], ["api"]),
    (["mock", "journal", "shop", "--outcome", "no"], ["no_match"]),
    (["mock", "state", "shop", "--run", ""], [RUN]),
    (["nonsense", ""], []),
]


@pytest.mark.parametrize(("words", "found"), CASES, ids=[" ".join(words) for words, _ in CASES])
def test_a_word_becomes_what_it_can_be(signed_in: FakePartita, capsys, words, found):
    assert run_words(["__complete", *words]) == 0

    assert capsys.readouterr().out.split() == found


def test_without_a_server_nothing_is_said(capsys):
    assert run_words(["__complete", "run", "why", ""]) == 0

    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")


@pytest.fixture
def shell_home(fake: FakePartita, home: Path) -> dict[str, str]:
    """The environment of a shell in which `partita` is this checkout's, and knows the server."""
    program = home / "bin" / "partita"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{ROOT}/partita_program.py" "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    return {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "PARTITA_URL": fake.url,
        "PARTITA_TOKEN": TOKEN,
    }


def ask(environment: dict[str, str], *command: str) -> list[str]:
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("partita run la", "partita run launch"),
        ("partita run why ", f"partita run why {RUN}"),
        ("partita suite show s", "partita suite show shop"),
        ("partita run launch shop --profile=c", "partita run launch shop --profile=ci.yaml"),
        ("partita run launch shop --server URL --pro", " --profile"),
        ("partita run launch shop --server URL --profile ", " --profile ci.yaml"),
        ("partita run launch shop --server=URL --profile c", " --profile ci.yaml"),
    ],
)
def test_a_real_bash_completes(
    shell_home: dict[str, str], fake: FakePartita, line: str, completed: str
):
    """On a terminal, where bash itself makes the words: at `:` and `=` too."""
    typed = line.replace("URL", fake.url)

    shown = press_tab(shell_home, typed)

    assert shown.startswith(typed)
    assert shown.endswith(completed)


def press_tab(environment: dict[str, str], line: str) -> str:
    """Return the line that a bash on a terminal has after Tab."""
    script = """
source <(partita completion bash)
bind 'set enable-bracketed-paste off'; bind -x '"\\C-g": printf "<%s>\\n" "$READLINE_LINE"'
"""
    (Path(environment["HOME"]) / "rc").write_text(script)
    side, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 400, 0, 0))
    bash = subprocess.Popen(
        ["bash", "--rcfile", f"{environment['HOME']}/rc", "-i"],
        env=environment | {"TERM": "dumb", "PS1": "$ "}, stdin=other, stdout=other, stderr=other,
        start_new_session=True,
    )  # fmt: skip
    try:
        os.write(side, f"{line}\t\x07".encode())
        said, deadline = b"", time.monotonic() + 30
        while not (found := re.search(rb"<(partita [^<>]*)>", said)):
            assert time.monotonic() < deadline, said
            if select.select([side], [], [], 0.2)[0]:
                said += os.read(side, 65536)
        return found[1].decode().rstrip()
    finally:
        bash.kill()
        bash.wait()
        os.close(side)
        os.close(other)


# Tab is pressed in a zsh that has a terminal; a word that never comes ends by the test's time.
ZSH = """
zmodload zsh/zpty
zpty typed zsh -f -i
zpty -w typed "PS1=; fpath=($HOME/fpath \\$fpath); autoload -Uz compinit; compinit -u -D"
zpty -w typed {prepare!r}
zpty -w typed 'print rea""dy'
zpty -r -m typed said '*ready*'
zpty -w -n typed {line!r}$'\\t'
zpty -r -m typed said '*{found}*' || exit 1
zpty -d typed
print -r -- {found}
"""
AS_FILE, AS_SOURCE = "in a file", "by source"


def need_shell(name: str) -> str:
    return shutil.which(name) or give_up(f"needs the shell {name}")


@pytest.mark.slow
@pytest.mark.parametrize("place", [AS_FILE, AS_SOURCE])
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("partita run la", "launch"),
        ("partita run why ", RUN),
        ("partita suite show s", "shop"),
    ],
)
def test_a_real_zsh_completes(
    shell_home: dict[str, str], home: Path, place: str, line: str, found: str
):
    zsh = need_shell("zsh")
    prepare = "source <(partita completion zsh)"
    if place == AS_FILE:
        (home / "fpath").mkdir()
        ask(shell_home, "sh", "-c", "partita completion zsh > fpath/_partita")
        prepare = ":"
    script = ZSH.format(prepare=prepare, line=line, found=found)

    assert ask(shell_home, zsh, "-fc", script) == [found]


@pytest.mark.parametrize("place", [AS_FILE, AS_SOURCE])
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("partita run la", ["launch"]),
        ("partita run why ", [RUN]),
        ("partita run list -o j", ["json"]),
        ("partita suite show s", ["shop"]),
    ],
)
def test_a_real_fish_completes(
    shell_home: dict[str, str], home: Path, place: str, line: str, found: list[str]
):
    fish = need_shell("fish")
    prepare = "partita completion fish | source; "
    if place == AS_FILE:
        (home / ".config" / "fish" / "completions").mkdir(parents=True)
        ask(
            shell_home,
            "sh",
            "-c",
            "partita completion fish > .config/fish/completions/partita.fish",
        )
        prepare = ""
    shell_home["XDG_CONFIG_HOME"] = str(home / ".config")

    assert ask(shell_home, fish, "-c", f"{prepare}complete -C {line!r}") == found


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_the_script_is_one_of_its_shell(capsys, shell: str):
    program = need_shell(shell)
    run_words(["completion", shell])

    script = capsys.readouterr().out
    done = subprocess.run(
        [program, "-n"], input=script, text=True, capture_output=True, check=False
    )
    assert done.stderr == ""
