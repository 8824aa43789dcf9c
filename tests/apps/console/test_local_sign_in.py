"""What `up` leaves for commands of its machine: an address on the loopback, and a token."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.accounts.models import ApiToken
from apps.accounts.services.administrators import ensure_seed_admin
from apps.console.embedded import local_sign_in
from apps.console.embedded.local_sign_in import FILE_NAME, loopback_of
from kernel.errors import NotFound
from partita_client.local_up import TOKEN_FILE, read_up

EMAIL = "admin@partita.local"


def write_token_file(folder: Path, email: str, *, host: str, port: int) -> bool:
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
    assert write_token_file(tmp_path, administrator, host="0.0.0.0", port=8190)

    found = read_up(tmp_path)

    assert FILE_NAME == TOKEN_FILE
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert found.url == "http://127.0.0.1:8190"
    assert found.pages_url == "http://localhost:8190"
    assert found.token.startswith("pat_")


def test_the_next_start_replaces_the_token(administrator: str, tmp_path: Path):
    tokens = set()
    for _ in range(3):
        write_token_file(tmp_path, administrator, host="127.0.0.1", port=8190)
        tokens.add(read_up(tmp_path).token)

    assert len(tokens) == 3
    assert ApiToken.objects.count() == 1


def test_an_up_on_another_folder_keeps_its_own_token(administrator: str, tmp_path: Path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_token_file(tmp_path / name, administrator, host="127.0.0.1", port=8190)

    assert ApiToken.objects.count() == 2


def test_an_up_that_listens_elsewhere_leaves_none(administrator: str, tmp_path: Path):
    write_token_file(tmp_path, administrator, host="127.0.0.1", port=8190)

    assert not write_token_file(tmp_path, administrator, host="192.0.2.7", port=8190)
    assert not (tmp_path / FILE_NAME).exists()


@pytest.mark.django_db
def test_nobody_gets_a_token_for_an_account_that_is_not_there(tmp_path: Path):
    with pytest.raises(NotFound):
        write_token_file(tmp_path, "nobody@example.org", host="127.0.0.1", port=1)
    assert not (tmp_path / FILE_NAME).exists()
