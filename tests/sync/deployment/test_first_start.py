"""What a first start makes below TLS_AUTO_DIR, keeps, and renews (reference: sync-stack 7.3)."""

from __future__ import annotations

import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from sync_stack.configuration.startup import StateFolderUnusable, read_secret
from sync_stack.rpc.authority import Authority, CertificateUsage, self_signed
from sync_stack.rpc.first_start import prepare
from sync_stack.rpc.tls import AUTO_CLIENT, AUTO_INBOUND, AUTO_SERVER, TlsFiles, auto_files
from tests.support.processes import ROOT

NOW = datetime(2026, 11, 21, tzinfo=UTC)
SECRETS = (
    "secret-key",
    "task-api-key",
    "gateway/webhook-secret",
    "watcher/secret-key",
    "orchestrator-worker/secret-key",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


def texts(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def roots(path: Path) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(path.read_bytes())


def names(path: Path) -> list[str]:
    found = certificate(path).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return [str(name.value) for name in found.value]


def pairs(folder: Path) -> list[TlsFiles]:
    found = [
        auto_files(folder, AUTO_SERVER),
        auto_files(folder / "gateway", AUTO_CLIENT),
        auto_files(folder / "gateway", AUTO_INBOUND, ca=False),
        auto_files(folder / "watcher", AUTO_CLIENT),
    ]
    return [each for each in found if each is not None]


def signed_by(path: Path, root: Path) -> bool:
    return certificate(path).issuer == roots(root)[0].subject


def test_everything_is_made_for_its_users_only_and_readable_by_its_owner_only(folder):
    """Sync invariant 24."""
    made = prepare(folder, NOW).made
    assert {str(path.relative_to(folder)) for path in made} == set(texts(folder)) - {".lock"}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in made)
    assert [names(pair.cert) for pair in pairs(folder)] == [
        ["orchestrator-api", "localhost"],
        ["gateway"],
        ["gateway", "localhost"],
        ["watcher"],
    ]
    for pair in pairs(folder):
        pair.read()
    keys = {name for name in texts(folder) if name.endswith(".key")}
    assert keys == {
        "authority.key",
        "server.key",
        "gateway/client.key",
        "gateway/inbound.key",
        "watcher/client.key",
    }
    values = {name: texts(folder)[name] for name in SECRETS}
    assert len(set(values.values())) == 3
    assert min(map(len, values.values())) > 60
    assert values["secret-key"] == values["watcher/secret-key"]


def test_a_later_start_writes_nothing(folder):
    prepare(folder, NOW)
    before = texts(folder)
    again = prepare(folder, NOW + timedelta(days=300))
    assert again.lines() == ()
    assert texts(folder) == before


def test_many_at_once_make_one_set(folder):
    with ThreadPoolExecutor(12) as threads:
        results = list(threads.map(lambda _number: prepare(folder, NOW).made, range(24)))
    assert sorted(map(len, results))[-2:] == [0, len(texts(folder)) - 1]
    for pair in pairs(folder):
        pair.read()


def test_processes_started_at_the_same_time_make_one_set(folder):
    program = (
        "import sys; from pathlib import Path; from kernel import clock;"
        "from sync_stack.rpc.first_start import prepare;"
        "print(len(prepare(Path(sys.argv[1]), clock.now()).made))"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(folder)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    counts = sorted(int(each.communicate(timeout=120)[0]) for each in started)
    assert counts == [0, len(texts(folder)) - 1]


def test_certificates_are_renewed_with_30_days_left_and_trusted_before_they_are_shown(folder):
    prepare(folder, NOW)
    before = texts(folder)
    first = roots(folder / "ca.crt")[0]

    prepare(folder, NOW + timedelta(days=334, hours=1))  # 31 days left: the authority alone
    for each in ("ca.crt", "gateway/ca.crt", "watcher/ca.crt"):
        known = roots(folder / each)
        assert len(known) == 2
        assert known[1] == first
    assert {name for name, text in texts(folder).items() if text != before[name]} == {
        "authority.crt", "authority.key", "ca.crt", "gateway/ca.crt", "watcher/ca.crt",
    }  # fmt: skip

    later = NOW + timedelta(days=335, hours=1)
    prepare(folder, later)
    for pair in pairs(folder):
        end = certificate(pair.cert).not_valid_after_utc
        assert end >= NOW + timedelta(days=334 + 365)
        pair.read()
    assert signed_by(folder / "server.crt", folder / "ca.crt")
    assert {name: texts(folder)[name] for name in SECRETS} == {
        name: before[name] for name in SECRETS
    }


def test_after_a_year_of_rest_everything_is_new_and_the_old_root_is_gone(folder):
    prepare(folder, NOW)
    prepare(folder, NOW + timedelta(days=400))
    assert len(roots(folder / "ca.crt")) == 1
    for pair in pairs(folder):
        assert certificate(pair.cert).not_valid_after_utc > NOW + timedelta(days=700)


@pytest.mark.parametrize("name", ["server.key", "gateway/client.key", "authority.key"])
def test_a_crash_between_certificate_and_key_is_made_good(name, folder):
    prepare(folder, NOW)
    kept = (folder / "secret-key").read_bytes()
    (folder / name).unlink()
    prepare(folder, NOW)
    for pair in pairs(folder):
        pair.read()
    (folder / name).write_bytes(self_signed(["other"], NOW).key)  # a key of before a renewal
    prepare(folder, NOW)
    for pair in pairs(folder):
        pair.read()
    assert (folder / "secret-key").read_bytes() == kept


def test_a_volume_that_lost_its_secret_gets_the_same_one_back(folder):
    prepare(folder, NOW)
    value = read_secret(folder, "secret-key")
    (folder / "secret-key").unlink()
    (folder / "orchestrator-worker" / "secret-key").unlink()
    prepare(folder, NOW)
    assert read_secret(folder, "secret-key") == value
    assert read_secret(folder / "orchestrator-worker", "secret-key") == value


def test_secrets_that_differ_are_named_and_not_chosen_between(folder):
    prepare(folder, NOW)
    (folder / "watcher" / "secret-key").write_text("another-secret-of-an-older-volume")
    with pytest.raises(StateFolderUnusable, match=r"secret-key, .*watcher/secret-key.*: differ"):
        prepare(folder, NOW)


def operators(folder: Path, end: datetime) -> None:
    """An inbound pair of somebody else, until `end`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "hooks.example")])
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), 7)
        .not_valid_before(end - timedelta(days=365))
        .not_valid_after(end)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / "gateway").mkdir(parents=True)
    (folder / "gateway" / "inbound.crt").write_bytes(signed.public_bytes(pem))
    (folder / "gateway" / "inbound.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    )


def test_a_certificate_put_there_by_somebody_is_used_and_its_end_is_told(folder):
    operators(folder, NOW + timedelta(days=10))
    before = texts(folder)
    prepared = prepare(folder, NOW)
    assert before.items() <= texts(folder).items()
    assert len(prepared.notes) == 1
    assert "inbound.crt: ends on 2026-12-01; replace it" in prepared.notes[0]


def test_such_a_certificate_that_expired_stops_the_start_and_says_what_to_do(folder):
    operators(folder, NOW - timedelta(days=1))
    before = texts(folder)
    with pytest.raises(
        StateFolderUnusable, match=r"inbound\.crt: expired on 2026-11-20, and was not"
    ):
        prepare(folder, NOW)
    assert before.items() <= texts(folder).items()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "server.key",
            b"a key of somebody",
            "server.key: is there without .*server.crt; remove it",
        ),
        ("server.crt", b"rubbish", "server.crt: no certificate: .*; remove it and .*server.key"),
        ("secret-key", b"\xff\xfe", "secret-key: holds no secret; remove it, and one is made"),
    ],
)
def test_what_cannot_be_used_is_named(name, content, words, folder):
    folder.mkdir()
    (folder / name).write_bytes(content)
    with pytest.raises(StateFolderUnusable, match=words):
        prepare(folder, NOW)
    assert (folder / name).read_bytes() == content


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StateFolderUnusable, match=r"TLS_AUTO_DIR=.*file.*: Not a directory"):
        prepare(tmp_path / "file" / "state", NOW)


def test_a_link_in_the_place_of_a_new_file_is_not_followed(folder, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    folder.mkdir()
    (folder / ".secret-key.new").symlink_to(victim)
    with pytest.raises(StateFolderUnusable, match=r"secret-key\.new"):
        prepare(folder, NOW)
    assert victim.read_text() == "untouched"


def test_a_pair_does_not_outlive_its_authority():
    authority = Authority.read(Authority.create(NOW))
    pair = authority.pair(["watcher"], CertificateUsage.CLIENT, NOW + timedelta(days=100))
    end = x509.load_pem_x509_certificate(pair.cert).not_valid_after_utc
    assert end == authority.certificate.not_valid_after_utc
