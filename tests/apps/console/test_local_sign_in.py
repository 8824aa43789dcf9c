"""What `up` leaves for commands of its machine: an address on the loopback, and a token."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from apps.accounts.domain.tokens import hash_token
from apps.accounts.models import ApiToken
from apps.accounts.services.administrators import ensure_seed_admin, replace_administrator_token
from apps.console.embedded import local_sign_in
from apps.console.embedded.local_sign_in import FILE_NAME, loopback_of
from partita_client.local_up import TOKEN_FILE, read_up

EMAIL = "admin@partita.local"


def write_token_file(folder: Path, email: str, *, host: str = "127.0.0.1", port: int = 8190) -> str:
    pages = f"http://localhost:{port}"
    return local_sign_in.write_token_file(folder, email, host=host, port=port, pages=pages)


@pytest.fixture
def administrator(db: None) -> str:
    ensure_seed_admin(EMAIL, "Correct-Horse-1")
    return EMAIL


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("localhost", "localhost"),
        ("::1", "[::1]"),
        ("0.0.0.0", "127.0.0.1"),
        ("::", "[::1]"),
        ("192.0.2.7", ""),
        ("partita.example", ""),
    ],
)
def test_the_address_is_one_of_this_machine_or_none(host: str, address: str):
    assert loopback_of(host) == address


def test_the_client_reads_what_up_writes(administrator: str, tmp_path: Path):
    assert write_token_file(tmp_path, administrator, host="0.0.0.0") == ""

    found = read_up(tmp_path)

    assert FILE_NAME == TOKEN_FILE
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert found.url == "http://127.0.0.1:8190"
    assert found.pages_url == "http://localhost:8190"
    assert found.token.startswith("pat_")


def test_the_next_start_replaces_the_token(administrator: str, tmp_path: Path):
    tokens = set()
    for _ in range(3):
        write_token_file(tmp_path, administrator)
        tokens.add(read_up(tmp_path).token)

    assert len(tokens) == 3
    assert ApiToken.objects.count() == 1


def test_an_up_on_another_folder_keeps_its_own_token(administrator: str, tmp_path: Path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_token_file(tmp_path / name, administrator)

    assert ApiToken.objects.count() == 2


def test_a_start_in_another_container_on_the_folder_replaces_the_token(
    administrator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for hostname in ("3f2a9c", "b71e04"):
        monkeypatch.setattr(socket, "gethostname", lambda name=hostname: name)
        write_token_file(tmp_path, administrator)

    (left,) = ApiToken.objects.all()
    assert left.token_hash == hash_token(read_up(tmp_path).token)


@pytest.mark.parametrize(
    ("email", "host"), [(EMAIL, "192.0.2.7"), ("", "127.0.0.1"), ("", "192.0.2.7")]
)
def test_an_up_that_listens_elsewhere_or_has_no_administrator_leaves_no_token(
    administrator: str, tmp_path: Path, email: str, host: str
):
    write_token_file(tmp_path, administrator)

    assert write_token_file(tmp_path, email, host=host) == ""

    assert not (tmp_path / FILE_NAME).exists()
    assert not ApiToken.objects.exists()


def test_a_file_of_other_content_is_replaced(administrator: str, tmp_path: Path):
    (tmp_path / FILE_NAME).write_bytes(b"\xff\x00=" * 5000)

    write_token_file(tmp_path, administrator)

    assert read_up(tmp_path).token.startswith("pat_")


@pytest.mark.django_db
def test_nobody_gets_a_token_for_an_account_that_is_not_there(tmp_path: Path):
    assert "no such account" in write_token_file(tmp_path, "nobody@example.org")
    assert not (tmp_path / FILE_NAME).exists()


def test_one_token_too_many_is_a_warning(administrator: str, tmp_path: Path):
    for number in range(50):
        replace_administrator_token(administrator, name=f"token {number}")

    warning = write_token_file(tmp_path, administrator)

    assert warning.startswith("commands of this machine must sign in")
    assert "revoke some first" in warning
