"""Which module of an index a lock pins, without a registry (reference: control-plane 7.6, 8)."""

from __future__ import annotations

import pytest

from apps.oci import api as oci
from apps.suites import selectors
from apps.suites.authoring import locks
from apps.suites.selectors import PackageUnreachable
from kernel import clock

USE = 'load("@acme/things", "make")\nload("@partita/redis", "redis")\nmake("t")\n'
DIGEST = f"sha256:{'1' * 64}"


def row(path: str, **changes: object) -> oci.Repository:
    known = {
        "registry_id": "r",
        "host": "registry.example",
        "path": path,
        "tags": ("1.0.0",),
        "version": "1.0.0",
        "digest": DIGEST,
        "artifact_type": oci.MODULE_TYPE,
        "media_types": (),
        "pulled": False,
        "suite_id": "",
        "error_code": "",
        "error_detail": "",
        "seen_at": clock.now(),
    }
    return oci.Repository(**(known | changes))  # type: ignore[arg-type]


def package(artifact_type: str = oci.MODULE_TYPE, **files: bytes) -> oci.Package:
    named = {name.replace("_star", ".star"): text for name, text in files.items()}
    return oci.Package(
        repository="registry.example/acme/things",
        tag="",
        digest=DIGEST,
        content_digest=DIGEST,
        files=named or {"make.star": b"def make(name):\n    pass\n"},
        artifact_type=artifact_type,
        annotations={},
    )


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> list[oci.Repository]:
    """The rows of the index; every package of them is stored."""
    rows: list[oci.Repository] = []
    monkeypatch.setattr(oci, "list_repositories", lambda: tuple(rows))
    monkeypatch.setattr(oci, "stored_package", lambda digest: package())
    monkeypatch.setattr(oci, "pull", lambda reference: package())
    return rows


@pytest.mark.parametrize(
    "passed_over",
    [
        row("acme/thing"),
        row("xacme/things"),
        row("acme/things/more"),
        row("a/acme/things", artifact_type=oci.SUITE_TYPE, pulled=True),
        row("a/acme/things", artifact_type=""),
        row("a/acme/things", version=""),
        row("a/acme/things", version="latest"),
    ],
)
def test_the_first_module_that_fits_is_pinned(passed_over, index, workspace):
    index += [passed_over, row("b/acme/things"), row("a/acme/things", host="second.example")]
    workspace.add("s", USE)

    (found,) = locks.lock_suite("s", write=False).modules

    assert (found.alias, found.state, found.after) == ("@acme/things", "added", DIGEST)
    assert found.ref == "registry.example/b/acme/things"


def test_pulled_content_may_be_a_module_without_saying_so(index, workspace, monkeypatch):
    index.append(row("acme/things", artifact_type="", pulled=True))
    workspace.add("s", USE)
    assert len(locks.lock_suite("s", write=False).modules) == 1

    for other in (package("", suite_star=b"x = 1"), package("", README=b"x"), None):
        monkeypatch.setattr(oci, "stored_package", lambda digest, found=other: found)
        with pytest.raises(selectors.TopologyInvalid, match="no registry has one"):
            locks.lock_suite("s", write=False)


def test_a_registry_that_is_away_is_named(index, workspace, monkeypatch):
    def refused(reference: str) -> oci.Package:
        raise oci.RegistryUnreachable("timeout", "registry.example: too slow")

    index.append(row("acme/things"))
    monkeypatch.setattr(oci, "pull", refused)
    workspace.add("s", USE)

    with pytest.raises(PackageUnreachable, match=r"@acme/things: .* too slow"):
        locks.lock_suite("s", write=True)
    assert not (workspace.root / "s" / "dependencies.lock.yaml").exists()


def test_a_label_in_a_comment_is_not_loaded(index, workspace):
    workspace.add("s", '# load("@acme/things", "make")\ntask.run("t", image = "a:1")\n')

    lock = locks.lock_suite("s", write=False)
    assert (lock.modules, lock.is_current) == ((), True)
    assert locks.suites_to_lock() == []
