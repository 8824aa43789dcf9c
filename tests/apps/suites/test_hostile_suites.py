"""Suites that mean harm, or are merely mistaken at scale: a clear error, within the limits.

Invariants 27 and 33.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from apps.oci import api as oci
from apps.oci.models import IndexedRepository, StoredPackage
from apps.suites import api, conf
from apps.suites.evaluator import process
from apps.suites.evaluator.child import NICENESS
from apps.suites.lifespan import SERVER_PATIENCE_S

pytestmark = pytest.mark.slow

GOOD = 'task.run("t", image="busybox:1.36")\n'


@pytest.mark.parametrize(
    ("text", "code", "says", "line"),
    [
        (
            "def f():\n    for i in range(1000000000):\n        pass\nf()\n",
            "limit_exceeded",
            "instructions",
            2,
        ),
        ("def f(n):\n    return f(n + 1)\nf(1)\n", "limit_exceeded", "64 deep", 2),
        ("l = []\nl.append(l)\ntask.run(after=l)\n", "limit_exceeded", "64 deep", 3),
        (
            '[task.run(f"t{n}") for n in range(100000)]\n',
            "too_many_nodes",
            "more than 2000 nodes",
            1,
        ),
        (
            'task.run("a", after="c")\ntask.run("b", after="a")\ntask.run("c", after="b")\n',
            "dependency_cycle",
            "a -> c -> b -> a",
            1,
        ),
        ('task.run("a", imge="x")\n', "unknown_keyword", 'unknown keyword "imge"', 1),
    ],
)
def test_a_broken_limit_is_named_with_its_place(workspace, text, code, says, line):
    error = workspace.error(text)

    assert (error["code"], error["line"]) == (code, line)
    assert says in error["message"]


@pytest.mark.timed
@pytest.mark.parametrize(
    "text",
    [
        'x = "a" * 2000000000\n',
        "x = [1] * 1000000000\n",
        "x = list(range(100000000))\n",
        'x = "a" * 100000000\ny = [x + str(n) for n in range(100)]\n',
        "x = 1 << 100000000\ny = str(x)\n",
        "[" * 200_000 + "]" * 200_000 + "\n",
        'e = {"A": "x" * 100000}\n[task.run(f"t{n}", env=e) for n in range(2000)]\n',
        's = "x" * 1000000\nx = [s.replace("x", s) for n in range(10)]\n',
    ],
    ids=[
        "2 GB string",
        "huge list",
        "huge range",
        "many large strings",
        "huge number",
        "deep brackets",
        "huge answer",
        "exploding replace",
    ],
)
def test_an_evaluation_that_had_to_be_killed_says_so(workspace, text):
    began = time.monotonic()

    error = workspace.error(text)

    assert time.monotonic() - began < process.WALL_S + 3
    assert error["code"] in ("limit_exceeded", "eval_error", "syntax_error")
    assert error["message"].startswith("invalid suite topology: ")


def test_a_suite_over_one_mebibyte_is_not_evaluated(workspace):
    error = workspace.error("#" * (2**20 + 1))

    assert (error["code"], "1 MiB" in error["message"]) == ("limit_exceeded", True)


def test_what_computes_too_long_is_ended_by_its_processor_time(workspace, monkeypatch):
    monkeypatch.setattr(process, "CPU_S", 1)
    monkeypatch.setattr(process, "INSTRUCTIONS", 10**12)

    error = workspace.error(
        "def f():\n for i in range(100000):\n  for j in range(100000):\n   pass\nf()\n"
    )

    assert error["code"] == "limit_exceeded"
    assert "1 s of processor time" in error["message"]


def test_a_wall_clock_ends_what_the_other_limits_let_through(workspace, monkeypatch):
    monkeypatch.setattr(process, "WALL_S", 0.001)

    error = workspace.error(GOOD)

    assert error["code"] == "limit_exceeded"
    assert "line" not in error


def test_a_killed_evaluation_is_tried_again_later(workspace, library, monkeypatch):
    monkeypatch.setattr(process, "WALL_S", 0.001)
    assert workspace.error(GOOD)["code"] == "limit_exceeded"
    monkeypatch.undo()
    monkeypatch.setattr("apps.suites.selectors.library", library)

    later = time.monotonic() + 61
    monkeypatch.setattr("apps.suites.evaluation.library.time.monotonic", lambda: later)

    assert api.get_definition("s")["topology"][0]["id"] == "t"


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"suite.star": b"\xff\xfe"}, "suite.star is not UTF-8"),
        ({"suite.star": GOOD, "README.md": b"a\xffb"}, "README.md is not UTF-8 at byte 1"),
        ({"suite.star": GOOD, "tests/a.sh": b"a\0b"}, "tests/a.sh contains a NUL byte"),
        ({"suite.star": GOOD, "big.txt": b"x" * (2 * 2**20 + 1)}, "big.txt is larger than 2 MiB"),
        (
            {"suite.star": GOOD, "api/big.json": b" " * (16 * 2**20 + 1)},
            "api/big.json is larger than 16 MiB",
        ),
        ({"suite.star": GOOD} | {f"f{n}": "" for n in range(512)}, "at most 512"),
        ({"suite.star": GOOD, "metadata.yaml": "id: other"}, "not the suite's id"),
        ({"suite.star": GOOD, "metadata.yaml": "a: ["}, "did not find expected"),
    ],
)
def test_a_package_that_breaks_a_rule_is_listed_with_it(workspace, files, says):
    """Invariant 25."""
    workspace.add("bad", files)
    workspace.add("good", GOOD)

    listed = {suite["id"]: suite for suite in api.list_suites()}

    assert listed["bad"]["topologyError"]["code"] == "package_invalid"
    assert says in listed["bad"]["topologyError"]["message"]
    assert (listed["bad"]["status"], listed["bad"]["launchable"]) == ("Invalid", False)
    assert listed["good"]["launchable"]


@pytest.fixture
def offers(settings: Any, tmp_path: Path) -> Callable[..., None]:
    """Puts a repository with a suite into the index of a registry that is never asked."""
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "configuration.yaml"
    settings.PLATFORM_SETTINGS_FILE.write_text(
        "registries: [{registryId: main, name: Main, provider: Zot, registryUrl: 'https://r.test'}]"
    )

    def offer(name: str, **facts: Any) -> None:
        IndexedRepository.objects.create(
            registry_id="main",
            host="r.test",
            path=f"core/{name}",
            repository=f"r.test/core/{name}",
            tags=["1"],
            version="1",
            artifact_type=oci.SUITE_TYPE,
            **facts,
        )

    return offer


def test_a_package_of_a_registry_that_was_refused_is_listed_with_the_reason(workspace, offers):
    """Invariant 25."""
    offers("odd", error_code="package_invalid", error_detail="tasks/x is a link")
    workspace.add("good", GOOD)

    listed = {suite["id"]: suite for suite in api.list_suites()}

    assert listed.keys() == {"core-odd", "good"}
    assert listed["core-odd"]["topologyError"]["message"].endswith("tasks/x is a link")
    assert listed["core-odd"]["status"] == "Invalid"


def test_a_stored_package_whose_bytes_have_changed_is_listed_with_the_reason(workspace, offers):
    """Invariant 25."""
    digest = f"sha256:{'1' * 64}"
    StoredPackage.objects.create(
        digest=digest, manifest=b"other bytes", content_digest=digest, size=1
    )
    offers("odd", digest=digest, pulled=True)
    workspace.add("good", GOOD)

    listed = {suite["id"]: suite for suite in api.list_suites()}

    assert listed.keys() == {"core-odd", "good"}
    assert "digest" in listed["core-odd"]["topologyError"]["message"]
    assert listed["core-odd"]["status"] == "Invalid"


def test_512_files_are_allowed_and_hidden_ones_do_not_count(workspace):
    hidden = {f".git/{n}": b"\0\xff" for n in range(20)} | {"tests/.hidden": b"\0"}

    definition = workspace.definition(
        {"suite.star": GOOD} | {f"f{n}": "" for n in range(511)} | hidden
    )

    assert len(definition["sourceFiles"]) == 512
    assert "topology" in definition


@pytest.mark.parametrize(
    ("link", "target", "says"),
    [
        ("notes.txt", "/etc/passwd", "notes.txt is a link to a place outside the suite's folder"),
        ("tests", "/etc", "tests is a link to a place outside the suite's folder"),
        ("up", "..", "up is a link to a place outside the suite's folder"),
        ("other.star", "../other/suite.star", "other.star is a link to a place outside"),
        ("near.star", "../s-too/suite.star", "near.star is a link to a place outside"),
        ("me", ".", "me is a link to a folder that contains it"),
        ("broken.txt", "nowhere", "broken.txt cannot be read"),
    ],
)
def test_a_link_out_of_the_folder_breaks_the_package(workspace, link, target, says):
    """Invariant 24."""
    folder = workspace.add("s", GOOD)
    workspace.add("other", GOOD)
    workspace.add("s-too", GOOD)
    (folder / link).symlink_to(target)

    error = api.get_definition("s")["topologyError"]

    assert error["code"] == "package_invalid"
    assert says in error["message"]


def test_a_suite_whose_topology_is_a_link_to_nowhere_is_listed_with_it(workspace):
    """Invariant 25."""
    (workspace.add("s", {"README.md": "# S"}) / "suite.star").symlink_to("nowhere")

    (listed,) = api.list_suites()

    assert listed["id"] == "s"
    assert "suite.star cannot be read" in listed["topologyError"]["message"]


def test_links_inside_the_folder_are_followed(workspace):
    folder = workspace.add("s", {"suite.star": GOOD, "shared/a.sh": "echo"})
    (folder / "tests").symlink_to("shared")

    paths = [file["path"] for file in api.get_definition("s")["sourceFiles"]]

    assert paths == ["shared/a.sh", "suite.star", "tests/a.sh"]


def test_a_pipe_in_the_folder_is_never_opened(workspace):
    folder = workspace.add("s", GOOD)
    os.mkfifo(folder / "pipe")

    assert "neither a file nor a folder" in api.get_definition("s")["topologyError"]["message"]


def test_a_folder_whose_name_is_no_id_is_listed_with_its_error(workspace):
    workspace.add("my suite!", GOOD)

    assert api.list_suites()[0]["topologyError"]["code"] == "package_invalid"


@pytest.mark.timed
def test_others_are_answered_while_hostile_suites_are_evaluated(workspace, library):
    """Within 100 ms, of which a list waits 30. What else it takes is counted in CPU time, so that a
    busy machine fails nothing; one that waited for a hostile suite would take a second.
    """
    workspace.add("good", GOOD)
    api.get_definition("good")
    library.patience_s = SERVER_PATIENCE_S
    for n in range(6):
        loop = f"def f():\n    for i in range(400):\n        x = 'a' * {10**7 + n}\n"
        workspace.add(f"bad{n}", loop + "f()\n")
    threads = [
        threading.Thread(target=api.get_definition, args=(f"bad{n}",), daemon=True)
        for n in range(6)
    ]
    for thread in threads:
        thread.start()

    took, waited = [], []
    for _ in range(10):
        began, began_at = time.thread_time(), time.monotonic()
        listed = {suite["id"]: suite for suite in api.list_suites()}
        assert api.get_definition("good")["launchable"]
        took.append(SERVER_PATIENCE_S + time.thread_time() - began)
        waited.append(time.monotonic() - began_at)
        assert len(listed) == 7

    for thread in threads:
        thread.join()
    assert sorted(took)[5] < 0.1
    assert sorted(waited)[5] < 1


def test_evaluators_are_two_children_at_most_and_let_requests_go_first(workspace, library):
    """Whatever the number of suites; the kernel gives them what this process leaves."""
    library.patience_s = SERVER_PATIENCE_S
    for n in range(6):
        loop = f"def f():\n    for i in range(400):\n        x = 'a' * {10**7 + n}\n"
        workspace.add(f"bad{n}", loop + "f()\n")
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    seen: list[dict[int, int]] = []
    deadline = time.monotonic() + 60

    while sum(map(bool, seen)) < 20 and time.monotonic() < deadline:
        api.list_suites()
        seen.append(evaluators())

    assert max(map(len, seen)) in (1, 2)
    assert {nice for each in seen for nice in each.values()} == {min(usual + NICENESS, 19)}


def evaluators() -> dict[int, int]:
    """Niceness of each child that evaluates, once it has set its own limits."""
    found = {}
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            ready = child.rlimit(psutil.RLIMIT_AS)[0] == process.MEMORY
            if ready and "child.py" in " ".join(child.cmdline()):
                found[child.pid] = child.nice()
    return found


def test_at_most_two_evaluators_run_at_once(workspace, monkeypatch):
    running, most = [0], [0]
    lock = threading.Lock()
    real = process._answer

    def counted(request):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        answer = real(request)
        with lock:
            running[0] -= 1
        return answer

    monkeypatch.setattr(process, "_answer", counted)
    for n in range(8):
        workspace.add(f"s{n}", f'task.run("t{n}")')

    assert len(api.list_suites()) == 8
    assert most[0] <= 2


def test_the_child_sees_no_environment_and_leaves_no_core_file(monkeypatch, tmp_path):
    """Invariant 21."""
    seen: dict[str, Any] = {}

    def spy(command, **options):
        seen.update(options, command=command)
        raise subprocess.TimeoutExpired(command, 5)

    monkeypatch.setattr(subprocess, "run", spy)
    process._answer(
        process._request("", env={}, rules=conf.evaluation_rules(()), modules={}, lints=False)
    )

    assert (seen["env"], seen["cwd"]) == ({}, "/")
    assert seen["command"][1] == "-I"
    assert "RLIMIT_CORE, (0, 0)" in Path(process._CHILD).read_text()
