"""partita.toml of a repository names a server for it, and never gets the token of another one."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from partita_client.command.halves import StoreCommand
from partita_client.command.program import run_words
from partita_client.contexts import SavedContext, read_contexts, save_context
from partita_client.errors import BadConfiguration
from partita_client.server_choice import GivenServer, choose_server
from tests.support.fake_partita import TOKEN, FakePartita

NAMED = "https://named.example"
SOMEBODY = 12345
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


def save(name: str, token: str = "pat_x", url: str = "") -> None:
    save_context(SavedContext(name=name, url=url or f"https://{name}.example", token=token))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose partita.toml names a server; commands are typed in a folder of it."""
    folder = tmp_path / "shop"
    (folder / "suites" / "first").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "partita.toml").write_text(f'name = "shop"\nserver = "{NAMED}/"\n')
    monkeypatch.chdir(folder / "suites" / "first")
    return folder


@pytest.fixture
def running_up(repository: Path) -> Iterator[Path]:
    """The data folder of an `up` of the repository, as long as the test lasts."""
    folder = repository / "var"
    folder.mkdir()
    token = folder / "up.token"
    token.write_text("PARTITA_URL=http://127.0.0.1:8190\nPARTITA_TOKEN=pat_local\n")
    token.chmod(0o600)
    with (folder / "up.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


@pytest.mark.usefixtures("repository")
def test_it_comes_before_the_current_context_with_the_token_of_its_own():
    save("named", token="pat_named")
    save("team", token="pat_team")

    choice = choose_server(GivenServer())

    assert (choice.url, choice.token, choice.context) == (NAMED, "pat_named", "named")
    assert choice.origin == "partita.toml"
    assert read_contexts().current == "team"


@pytest.mark.parametrize(
    ("given", "environment", "url"),
    [
        (GivenServer(url="https://option.example"), {}, "https://option.example"),
        (GivenServer(context="team"), {}, "https://team.example"),
        (GivenServer(), {"PARTITA_URL": "https://variable.example"}, "https://variable.example"),
        (GivenServer(), {"PARTITA_CONTEXT": "team"}, "https://team.example"),
        (GivenServer(), {"DATA_DIR": "{up}"}, "http://127.0.0.1:8190"),
        (GivenServer(context="local"), {}, "http://127.0.0.1:8190"),
        (GivenServer(), {}, NAMED),
    ],
)
def test_options_and_the_environment_come_before_it(
    running_up: Path, monkeypatch, given: GivenServer, environment: dict[str, str], url: str
):
    save("team")
    for name, value in environment.items():
        monkeypatch.setenv(name, value.format(up=running_up))

    assert choose_server(given).url == url


@pytest.mark.usefixtures("running_up")
@pytest.mark.parametrize(
    "url",
    [
        "https://team.example.evil.example",
        "https://team.example:8443",
        "http://team.example",
        "https://team.example/below",
    ],
)
def test_a_foreign_server_gets_no_token_of_another_one(repository: Path, url: str):
    (repository / "partita.toml").write_text(f'server = "{url}"\n')
    save("named", token="pat_named")
    save("team", token="pat_team")

    choice = choose_server(GivenServer())

    assert (choice.url, choice.token, choice.data_dir) == (url, "", "")


@pytest.mark.parametrize("name", ["PARTITA_TOKEN", "PARTITA_TOKEN_FILE"])
@pytest.mark.parametrize("is_known", [True, False])
def test_the_token_of_the_environment_is_not_sent_there(
    repository: Path, tmp_path: Path, monkeypatch, name: str, is_known: bool
):
    (tmp_path / "token").write_text("pat_variable\n")
    values = {"PARTITA_TOKEN": "pat_variable", "PARTITA_TOKEN_FILE": str(tmp_path / "token")}
    monkeypatch.setenv(name, values[name])
    if is_known:
        save("named", token="pat_named")

    with pytest.raises(BadConfiguration, match=rf"{repository}/partita\.toml:2 names") as refused:
        choose_server(GivenServer())

    assert f"PARTITA_URL={NAMED}" in refused.value.advice
    monkeypatch.setenv("PARTITA_URL", NAMED)
    assert choose_server(GivenServer()).token == "pat_variable"


def test_no_request_carries_a_token_to_it(repository: Path, fake: FakePartita, capsys):
    """What counts is what is on the wire: the server would take this token, and does not get it."""
    (repository / "partita.toml").write_text(f'server = "{fake.url}"\n')
    save("team", token=TOKEN)

    assert run_words(["run", "list"]) == 4
    assert f"partita login {fake.url}" in capsys.readouterr().err

    save("its-own", token=TOKEN, url=fake.url)
    assert run_words(["run", "list"]) == 0


@pytest.mark.usefixtures("repository")
def test_it_is_said_where_the_choice_comes_from(capsys):
    assert run_words(["context", "show"]) == 0

    said = capsys.readouterr()
    assert said.out == f"{NAMED}, by partita.toml\n"
    assert f"partita login {NAMED}" in said.err


@pytest.mark.usefixtures("repository")
def test_a_login_names_its_server_itself(capsys, monkeypatch):
    """A token that is typed or piped in goes where the person says, not where a file says."""
    assert run_words(["login", "--token-stdin"]) == 6
    assert "which server?" in capsys.readouterr().err


def test_a_mistake_in_the_file_is_named_with_its_line(repository: Path, capsys):
    (repository / "partita.toml").write_text(f'\nservre = "{NAMED}"\n')

    assert run_words(["run", "list"]) == 2

    said = capsys.readouterr().err
    assert f'{repository}/partita.toml:2: "servre" is not a key' in said
    assert "did you mean server?" in said
    assert "next: fix the file" in said


@needs_root
def test_a_file_that_somebody_else_put_above_is_refused(repository: Path):
    os.chown(repository / "partita.toml", SOMEBODY, SOMEBODY)

    with pytest.raises(BadConfiguration, match="belong to different users"):
        choose_server(GivenServer())


def test_the_up_of_the_repository_is_found_from_its_subfolders(running_up: Path, repository: Path):
    (repository / "partita.toml").write_text('name = "shop"\n')

    choice = choose_server(GivenServer())

    assert (choice.url, choice.data_dir) == ("http://127.0.0.1:8190", str(running_up))


def test_without_a_sign_in_it_is_said_which_server_was_asked_and_what_goes_without(
    repository: Path, fake: FakePartita, capsys
):
    """The files are there, and what they are is not what the server would list: nobody guesses."""
    (repository / "partita.toml").write_text(f'server = "{fake.url}"\n')

    assert run_words(["suite", "list"]) == 4

    said = capsys.readouterr()
    assert said.out == ""
    assert (
        f"partita login {fake.url}; partita.toml means this server; "
        "without it: partita suite list --local\n"
    ) in said.err
    assert run_words(["suite", "list", "--local", "-o", "json"]) == StoreCommand(
        words=["suite", "list", "-o", "json"]
    )
    assert run_words(["run", "list"]) == 4
    assert "--local" not in capsys.readouterr().err


def test_local_and_a_server_are_two_answers(repository: Path, capsys):
    assert run_words(["suite", "list", "--local", "--server", NAMED]) == 2
    assert "--local means no server" in capsys.readouterr().err


def test_a_verb_of_both_halves_asks_the_server_of_the_file(repository: Path, monkeypatch):
    (repository / "partita.toml").write_text('server = "http://127.0.0.1:1"\n')
    monkeypatch.setattr("partita_client.transport.pause_s", lambda _failures: 0.0)
    assert run_words(["suite", "list"]) == 6

    (repository / "partita.toml").write_text("")

    assert run_words(["suite", "list"]) == StoreCommand(words=["suite", "list"])
