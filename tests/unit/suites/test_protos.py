"""Protos of suites as protoc describes them: imports, problems, and what hostile ones cost."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from surfaces.protos import Protos, compile_protos, compiler
from tests.support.surfaces import hydrated

HEAD = 'syntax = "proto3";\npackage deep;\n'
SERVICE = "message A { string x = 1; }\nservice S { rpc Get(A) returns (A); }\n"


def compiled(texts: Mapping[str, str]) -> Protos:
    return compile_protos({f"api/{path}": text.encode() for path, text in texts.items()})


def problems(found: Protos) -> str:
    return "\n".join(map(str, found.problems))


def proto(package: str, *imports: str, uses: str = "") -> str:
    lines = "".join(f'import "{each}";\n' for each in imports)
    field = f"{uses} used = 2;" if uses else ""
    return f'syntax = "proto3";\npackage {package};\n{lines}message M {{ string x = 1; {field} }}\n'


def test_a_suite_without_protos_starts_no_process(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiler, "_run", None)
    found = compile_protos({"api/openapi.yaml": b"{}", "mock/a.proto": b""})
    assert (found.services, found.problems) == ((), ())


def test_the_same_files_are_compiled_once(monkeypatch: pytest.MonkeyPatch):
    text = HEAD.replace("deep", "once") + SERVICE
    found = compiled({"a.proto": text})
    monkeypatch.setattr(compiler, "_run", None)
    assert compiled({"a.proto": text}) is found
    assert hydrated({"api/a.proto": text}).ids("a") == ["Get"]


IMPORTS = {
    "beside it": ({"x/a.proto": "b.proto", "x/b.proto": ""}, "x/b.proto"),
    "from a folder outwards": ({"x/y/a.proto": "z/b.proto", "x/z/b.proto": ""}, "x/z/b.proto"),
    "from the top": ({"x/y/a.proto": "z/b.proto", "z/b.proto": ""}, "z/b.proto"),
    "the nearest": ({"x/a.proto": "b.proto", "b.proto": "", "x/b.proto": ""}, "x/b.proto"),
    "below a root of its own": (
        {"proto/x/a.proto": "v/b.proto", "third/v/b.proto": ""},
        "third/v/b.proto",
    ),
    "above it": ({"x/y/a.proto": "../b.proto", "x/b.proto": ""}, "x/b.proto"),
}


@pytest.mark.parametrize("case", IMPORTS)
def test_imports_are_found(case: str):
    files, wanted = IMPORTS[case]
    texts = {
        path: proto(f"p{n}", *filter(None, [wants]))
        for n, (path, wants) in enumerate(files.items())
    }
    found = compiled(texts)
    assert not found.problems
    file = found.pool.FindFileByName(next(iter(files)))
    assert [each.name for each in file.dependencies] == [wanted]


def test_an_import_that_fits_two_files_is_not_guessed():
    texts = {"x/a.proto": proto("a", "v/b.proto"), "y/v/b.proto": proto("b"),
             "z/v/b.proto": proto("c")}  # fmt: skip
    (problem,) = compiled(texts).problems
    said = 'x/a.proto:3:1: Import "v/b.proto" was not found or had errors; did you mean '
    assert str(problem) == f"{said}z/v/b.proto?"


def test_copies_of_files_of_google_are_no_second_definition():
    descriptor = 'syntax = "proto2";\npackage google.protobuf;\nmessage FileOptions {}\n'
    vendored = """
syntax = "proto3";
package google.api;
import "google/protobuf/descriptor.proto";
extend google.protobuf.MethodOptions { string http = 72295728; }
"""
    user = HEAD + 'import "google/api/annotations.proto";\n' + SERVICE.replace(
        "(A);", '(A) { option (google.api.http) = "/x"; };'
    )  # fmt: skip
    texts = {"shop/a.proto": user, "third_party/google/api/annotations.proto": vendored,
             "third_party/google/protobuf/descriptor.proto": descriptor}  # fmt: skip
    found = compiled(texts)
    assert not found.problems
    assert found.services == ("deep.S",)


def test_google_options_with_aggregates_are_read():
    text = (
        HEAD
        + """
import "google/api/field_behavior.proto";
import "google/api/resource.proto";
message A {
  string name = 1 [
    (google.api.field_behavior) = REQUIRED,
    (google.api.resource_reference) = { type: "storage.googleapis.com/Bucket" }
  ];
}
service S { rpc Get(A) returns (A); }
"""
    )
    found = hydrated({"api/storage.proto": text})
    assert found.warnings == []
    assert found.only["name"] == "deep.S/Get"


def test_options_of_google_need_no_import():
    """As in protos that protobuf.js reads."""
    text = 'syntax = "proto3";\npackage js;\n' + SERVICE.replace(
        "(A);", '(A) { option (google.api.http) = { get: "/x" }; } // import "gone.proto";\n'
    )
    found = compiled({"a.proto": text})
    assert (found.services, found.problems) == (("js.S",), ())


def test_each_broken_file_says_what_is_wrong_and_the_others_stay():
    texts = {
        "a.proto": proto("a", uses="Nope"),
        "b.proto": 'syntax = "proto3";\nmessage B {',
        "c.proto": proto("c", "a.proto"),
        "fine.proto": HEAD + SERVICE,
        "odd name.proto": proto("odd"),
    }
    found = compiled(texts)
    assert found.services == ("deep.S",)
    assert [(each.file, each.line, each.column) for each in found.problems] == [
        ("odd name.proto", 0, 0),
        ("a.proto", 3, 27),
        ("b.proto", 2, 12),
        ("c.proto", 3, 1),
    ]
    warned = hydrated({f"api/{path}": text for path, text in texts.items()})
    assert ("contract_invalid", "api/a.proto", 3, 27) in warned.warnings
    assert '"Nope" is not defined.' in warned.details
    assert warned.ids("fine") == ["Get"]


def nested(depth: int) -> str:
    return HEAD + SERVICE + "message N {" * depth + "}" * depth


def everything_imports_everything(count: int) -> dict[str, bytes]:
    imports = "".join(f'import "f{n}.proto";\n' for n in range(count))
    return {
        f"api/f{n}.proto": f'syntax = "proto3";\npackage p{n};\n{imports}{SERVICE}'.encode()
        for n in range(count)
    }


HOSTILE = {
    "no proto": b"\x00\xff\xfe" * 100,
    "no end": (HEAD + "message A {").encode(),
    "deep": nested(5_000).encode(),
    "a million messages deep": nested(500_000).encode(),
    "deep option": (HEAD + "option (x) = " + "{a:" * 100_000 + SERVICE).encode(),
    "imports itself": (HEAD + 'import "a.proto";' + SERVICE).encode(),
    "imports files of the host": (HEAD + 'import "/etc/passwd";' + SERVICE).encode(),
    "imports a folder above": (HEAD + 'import "../../../etc/passwd";' + SERVICE).encode(),
    "imports a device": (HEAD + 'import "/dev/zero";' + SERVICE).encode(),
    "unknown type": (HEAD + "service S { rpc Get(Nope) returns (Nope); }").encode(),
    "huge number": (HEAD + "message A { string x = 99999999999999999999; }" + SERVICE).encode(),
    "quoted import": (HEAD + 'import "a\\"b.proto";' + SERVICE).encode(),
    "a comment that never ends": (HEAD + "/*" * 1_000_000).encode(),
    "quotes that never end": (HEAD + 'import "' + '\\"' * 1_000_000).encode(),
    "imports that name nothing": (HEAD + "import " * 500_000).encode(),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_proto_has_no_services_and_a_problem(case: str):
    found = compile_protos({"api/a.proto": HOSTILE[case]})
    assert not found.methods
    assert found.problems
    assert "root:" not in problems(found)  # of /etc/passwd


@pytest.mark.slow
def test_a_cycle_of_imports_is_named_and_costs_only_its_files():
    texts = {"a.proto": proto("a", "b.proto"), "b.proto": proto("b", "a.proto"),
             "c.proto": HEAD + SERVICE}  # fmt: skip
    found = compiled(texts)
    assert found.services == ("deep.S",)
    assert "recursively imports itself: " in problems(found)


@pytest.mark.slow
def test_one_broken_proto_costs_its_own_services_alone():
    bad = 'syntax = "proto3";\nservice B { rpc G(No) returns (No); }'
    found = compiled({"good.proto": HEAD + SERVICE, "bad.proto": bad})
    assert list(found.methods) == ["/deep.S/Get"]
    assert "bad.proto:2:19" in problems(found)


@pytest.mark.slow
def test_two_files_with_the_same_names_do_not_fail():
    found = compiled({"v1/a.proto": HEAD + SERVICE, "v2/a.proto": HEAD + SERVICE})
    assert list(found.methods) == ["/deep.S/Get"]
    assert '"deep.S" is already defined in file "v1/a.proto"' in problems(found)


@pytest.mark.slow
def test_import_bombs_end_within_the_limits(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiler, "CPU_S", 1)
    monkeypatch.setattr(compiler, "WALL_S", 10.0)
    begun = time.process_time()
    found = compile_protos(everything_imports_everything(300))
    assert time.process_time() - begun < 2  # of this process
    assert found.problems


def test_too_many_or_too_large_protos_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiler, "_run", None)
    many = {f"api/f{n}.proto": b"" for n in range(compiler.MAX_FILES + 1)}
    assert "too many" in problems(compile_protos(many))
    large = compile_protos({"api/a.proto": b" " * 10 * 2**20})
    assert "too large" in problems(large)


@pytest.mark.slow
def test_a_set_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiler, "MAX_SET", 1_000)
    fields = "".join(f"string field_{n} = {n};" for n in range(1, 200))
    found = compiled({"a.proto": HEAD + SERVICE + f"message B {{ {fields} }}"})
    assert not found.methods
    assert found.problems


def test_paths_that_could_be_options_or_leave_the_folder_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(compiler, "_run", None)
    named = ("-I.proto", "@a.proto", "../a.proto", "a/../../b.proto", "/etc/a.proto", "a b.proto",
             "~all.proto")  # fmt: skip
    found = compiled(dict.fromkeys(named, HEAD + SERVICE))
    assert [each.file for each in found.problems] == sorted(named)
    assert not found.methods


def children() -> list[psutil.Process]:
    return [
        each
        for each in psutil.Process().children()
        if any("protos/child.py" in part for part in each.cmdline())
    ]


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
def test_a_child_that_is_killed_is_started_once_more(times: int):
    many = "".join(f"message M{n} {{ string x = 1; }}\n" for n in range(20_000))
    slow = f'syntax = "proto3";\npackage killed{times};\n{many}'
    texts = {"a.proto": HEAD + SERVICE, "slow.proto": slow}
    found: list[Protos] = []
    thread = threading.Thread(target=lambda: found.append(compiled(texts)))
    thread.start()
    killed: set[int] = set()
    while thread.is_alive() and len(killed) < times:
        for each in children():
            if each.pid not in killed:
                os.kill(each.pid, signal.SIGKILL)
                killed.add(each.pid)
        time.sleep(0.005)
    thread.join()
    assert len(killed) == times
    if times == 1:
        assert found[0].services == ("deep.S",)
    else:
        assert "was killed" in problems(found[0])
        assert compiled(texts).services == ("deep.S",)  # it is not kept


def test_a_child_that_cannot_be_started_is_said(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_arguments: Any, **_options: Any) -> Any:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "run", refuse)
    text = HEAD.replace("deep", "away") + SERVICE
    found = hydrated({"api/a.proto": text})
    assert found.warnings == [("limit_exceeded", None, None, None)]
    assert found.details == ["the compiler of .proto files was killed or could not be started"]
    monkeypatch.undo()
    assert hydrated({"api/a.proto": text}).ids("a") == ["Get"]


def test_a_full_disk_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    text = HEAD.replace("deep", "full") + SERVICE
    assert "could not be started" in problems(compiled({"a.proto": text}))
    monkeypatch.undo()
    assert compiled({"a.proto": text}).services == ("full.S",)


@pytest.mark.slow
def test_nothing_is_left_in_the_folder_of_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    compiled({"a.proto": HEAD.replace("deep", "left") + SERVICE})
    assert not list(tmp_path.iterdir())
