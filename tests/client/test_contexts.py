"""Where people are signed in, and which server a command means."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from partita_client import conf
from partita_client.command.halves import StoreCommand
from partita_client.command.program import run_words
from partita_client.contexts import (
    SavedContext,
    read_contexts,
    remove_context,
    save_context,
    token_of,
    use_context,
)
from partita_client.errors import BadConfiguration, NoServer
from partita_client.server_choice import GivenServer, choose_server


def save(name: str, url: str = "", token: str = "pat_x") -> None:
    save_context(SavedContext(name=name, url=url or f"https://{name}.example", token=token))


def test_the_file_is_for_its_owner_alone():
    save("team")

    assert conf.config_file().stat().st_mode & 0o777 == 0o600
    assert json.loads(conf.config_file().read_text())["contexts"]["team"]["token"] == "pat_x"


def test_many_processes_lose_no_context_of_each_other():
    threads = [threading.Thread(target=save, args=(f"c{number}",)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(read_contexts().contexts) == sorted(f"c{number}" for number in range(12))
    left = [each.name for each in conf.config_file().parent.iterdir()]
    assert sorted(left) == ["config.json", "config.lock"]


def test_a_context_is_used_and_forgotten():
    save("team")
    save("other")
    use_context("team")
    assert read_contexts().current == "team"

    remove_context("team")

    assert read_contexts().current == ""
    with pytest.raises(BadConfiguration, match="there is no context 'team'") as refused:
        use_context("team")
    assert refused.value.advice == "known: other"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"contexts": {"a": 1}}', '{"contexts": {"a": {}}}']
)
def test_a_damaged_file_is_named_and_not_overwritten(text: str):
    conf.config_file().parent.mkdir(parents=True)
    conf.config_file().write_text(text)

    with pytest.raises(BadConfiguration, match=r"config\.json is damaged"):
        read_contexts()
    with pytest.raises(BadConfiguration):
        save("team")
    assert conf.config_file().read_text() == text


class FakeKeyring:
    """The module `keyring`, as far as it is used."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}
        self.priority = 5
        self.errors = type("errors", (), {"KeyringError": KeyError})

    def get_keyring(self) -> FakeKeyring:
        return self

    def set_password(self, service: str, name: str, token: str) -> None:
        self.kept[service, name] = token

    def get_password(self, service: str, name: str) -> str | None:
        return self.kept.get((service, name))

    def delete_password(self, service: str, name: str) -> None:
        del self.kept[service, name]


def test_a_token_is_in_the_keyring_where_there_is_one(monkeypatch):
    keyring = FakeKeyring()
    monkeypatch.setattr("partita_client.contexts._keyring", lambda: keyring)
    save("team", token="pat_secret")

    assert "pat_secret" not in conf.config_file().read_text()
    assert token_of(read_contexts().contexts["team"]) == "pat_secret"
    remove_context("team")
    assert keyring.kept == {}


class LockedKeyring(FakeKeyring):
    """A keyring whose person does not unlock it."""

    def refuse(self, *_: str) -> None:
        raise KeyError("locked")

    set_password = get_password = delete_password = refuse  # type: ignore[assignment]


def test_a_keyring_that_is_locked_leaves_the_token_in_the_file(monkeypatch):
    monkeypatch.setattr("partita_client.contexts._keyring", LockedKeyring)
    told = list[str]()

    saved = save_context(
        SavedContext(name="team", url="https://a", token="pat_x"), on_no_keyring=told.append
    )

    assert (saved.is_in_keyring, told) == (False, ["'locked'"])
    assert token_of(read_contexts().contexts["team"]) == "pat_x"


def test_a_keyring_that_gets_locked_says_what_to_do(monkeypatch):
    monkeypatch.setattr("partita_client.contexts._keyring", FakeKeyring)
    save("team")
    monkeypatch.setattr("partita_client.contexts._keyring", LockedKeyring)

    with pytest.raises(BadConfiguration, match=r"the context team: 'locked'") as refused:
        token_of(read_contexts().contexts["team"])

    assert "PARTITA_TOKEN" in refused.value.advice
    remove_context("team")
    assert read_contexts().contexts == {}


@pytest.mark.parametrize(
    ("setting", "why"),
    [("off", "PARTITA_KEYRING is off"), ("", "the module keyring is not installed here")],
)
def test_without_a_keyring_it_is_said_why(monkeypatch, setting: str, why: str):
    monkeypatch.setattr("partita_client.contexts._keyring", FakeKeyring)
    save("team")
    monkeypatch.setattr("partita_client.contexts._keyring", lambda: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    monkeypatch.setenv("PARTITA_KEYRING", setting)

    with pytest.raises(BadConfiguration, match=why):
        token_of(read_contexts().contexts["team"])


@pytest.fixture
def running_up(tmp_path: Path) -> Iterator[Path]:
    """The data folder of an `up`, with its token, as long as the test lasts."""
    folder = tmp_path / "data"
    folder.mkdir()
    write_token(folder, "PARTITA_URL=http://127.0.0.1:8190\nPARTITA_TOKEN=pat_local\n")
    notes = conf.notes_of_ups()
    notes.mkdir(parents=True)
    (notes / "one").write_text(str(folder))
    with (folder / "up.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


STORE_VERBS = [["environment", "reap-all"], ["profile", "set", "shop", "x"]]


@pytest.mark.parametrize("words", STORE_VERBS, ids=" ".join)
def test_a_verb_of_the_store_never_works_on_that_of_another_folder(
    running_up: Path, monkeypatch, capsys, words: list[str]
):
    assert run_words(words) == 2
    assert f"DATA_DIR={running_up} partita {words[0]} {words[1]}" in capsys.readouterr().err

    monkeypatch.setenv("DATA_DIR", str(running_up))

    assert run_words(words) == StoreCommand(words=words, data_dir=str(running_up))


def test_the_up_of_another_repository_is_not_meant(running_up: Path, tmp_path: Path, monkeypatch):
    below = tmp_path / "other" / "suites"
    below.mkdir(parents=True)
    (tmp_path / "other" / "partita.toml").write_text("")
    monkeypatch.chdir(below)

    with pytest.raises(NoServer, match=f"no `up` runs with DATA_DIR={tmp_path}/other/var, but"):
        choose_server(GivenServer())
    assert run_words(STORE_VERBS[0]) == StoreCommand(words=STORE_VERBS[0])


def write_token(folder: Path, text: str, *, mode: int = 0o600) -> None:
    (folder / "up.token").write_text(text)
    (folder / "up.token").chmod(mode)


def test_an_up_of_this_machine_is_found_without_a_login(running_up: Path):
    choice = choose_server(GivenServer())

    assert (choice.url, choice.token) == ("http://127.0.0.1:8190", "pat_local")
    assert choice.data_dir == str(running_up)


def test_a_data_folder_without_an_up_names_those_that_run(running_up: Path, monkeypatch):
    monkeypatch.setenv("DATA_DIR", str(running_up.parent / "other"))

    with pytest.raises(NoServer, match=f"DATA_DIR={running_up}"):
        choose_server(GivenServer())


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        ("PARTITA_URL=http://10.0.0.7:8090\nPARTITA_TOKEN=pat_x\n", 0o600, "no address of this"),
        ("PARTITA_URL=https://evil.example\nPARTITA_TOKEN=pat_x\n", 0o600, "no address of this"),
        ("PARTITA_URL=http://127.0.0.1:1\nPARTITA_TOKEN=pat_x\n", 0o644, "by others"),
        ("", 0o600, "no address of this"),
    ],
)
def test_a_token_file_that_is_not_ours_is_not_used(
    running_up: Path, text: str, mode: int, said: str
):
    write_token(running_up, text, mode=mode)

    with pytest.raises(BadConfiguration, match=said):
        choose_server(GivenServer())


def test_an_up_that_ended_is_not_meant(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    write_token(tmp_path, "PARTITA_URL=http://127.0.0.1:8190\nPARTITA_TOKEN=pat_local\n")
    (tmp_path / "up.lock").touch()

    with pytest.raises(NoServer) as refused:
        choose_server(GivenServer())
    for command in ("partita login", "partita up"):
        assert command in refused.value.advice


FROM_OPTION = GivenServer(url="https://option.example")
FROM_NAME = GivenServer(context="other")


@pytest.mark.parametrize(
    ("given", "environment", "url"),
    [
        (FROM_OPTION, {"PARTITA_URL": "https://variable.example"}, "https://option.example"),
        (FROM_NAME, {"PARTITA_URL": "https://variable.example"}, "https://other.example"),
        (GivenServer(), {"PARTITA_URL": "https://variable.example"}, "https://variable.example"),
        (GivenServer(), {"PARTITA_CONTEXT": "other"}, "https://other.example"),
        (GivenServer(), {}, "https://team.example"),
        (GivenServer(context="local"), {}, "http://127.0.0.1:8190"),
        (GivenServer(), {"DATA_DIR": "{up}"}, "http://127.0.0.1:8190"),
    ],
)
def test_options_come_before_the_environment_before_the_context(
    running_up: Path, monkeypatch, given: GivenServer, environment: dict[str, str], url: str
):
    save("other")
    save("team")
    for name, value in environment.items():
        monkeypatch.setenv(name, value.format(up=running_up))

    assert choose_server(given).url == url


def test_a_server_that_is_named_has_the_token_of_its_context(monkeypatch):
    save("team", token="pat_team")
    named = GivenServer(url="https://team.example/")
    assert choose_server(named).token == "pat_team"
    assert choose_server(GivenServer(url="https://foreign.example")).token == ""

    monkeypatch.setenv("PARTITA_TOKEN", "pat_variable")

    assert choose_server(named).token == "pat_variable"


@pytest.mark.parametrize("name", ["PARTITA_TOKEN", "PARTITA_TOKEN_FILE"])
def test_the_token_of_the_environment_is_not_sent_to_the_current_context(
    tmp_path: Path, monkeypatch, name: str
):
    """It may be the token of another server; one that is silently left out would be as wrong."""
    save("team", token="pat_team")
    assert choose_server(GivenServer()).token == "pat_team"
    (tmp_path / "token").write_text("pat_given\n")
    given = {"PARTITA_TOKEN": "pat_given", "PARTITA_TOKEN_FILE": str(tmp_path / "token")}
    monkeypatch.setenv(name, given[name])

    with pytest.raises(BadConfiguration, match=r"the current context is that of https://team"):
        choose_server(GivenServer())
    with pytest.raises(BadConfiguration) as refused:
        choose_server(GivenServer())

    assert refused.value.advice.endswith(f"PARTITA_URL=https://team.example; else unset {name}")
    monkeypatch.setenv("PARTITA_URL", "https://team.example")
    assert choose_server(GivenServer()).token == "pat_given"


def test_a_token_comes_from_a_file(tmp_path: Path, monkeypatch):
    (tmp_path / "token").write_text("pat_file\n")
    monkeypatch.setenv("PARTITA_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("PARTITA_URL", "https://a.example")

    assert choose_server(GivenServer()).token == "pat_file"
    os.truncate(tmp_path / "token", 0)
    with pytest.raises(BadConfiguration, match="is empty"):
        choose_server(GivenServer())


@pytest.mark.parametrize(
    ("given", "environment", "token"),
    [
        (GivenServer(context="team"), {"PARTITA_URL": "https://other.example"}, "pat_team"),
        (GivenServer(context="team"), {}, "pat_team"),
        (GivenServer(url="https://team.example"), {"PARTITA_URL": "https://a.example"}, "pat_team"),
        (GivenServer(url="https://team.example"), {"PARTITA_CONTEXT": "other"}, "pat_team"),
        (GivenServer(url="https://b.example"), {"PARTITA_URL": "https://a.example"}, ""),
        (GivenServer(url="https://a.example"), {"PARTITA_URL": "https://a.example/"}, "pat_given"),
        (GivenServer(url="https://team.example"), {"PARTITA_CONTEXT": "team"}, "pat_given"),
        (GivenServer(url="https://b.example"), {}, "pat_given"),
        (GivenServer(), {"PARTITA_URL": "https://team.example"}, "pat_given"),
        (GivenServer(), {"PARTITA_CONTEXT": "team"}, "pat_given"),
    ],
)
def test_the_token_of_the_environment_goes_to_the_server_of_the_environment_alone(
    monkeypatch, given: GivenServer, environment: dict[str, str], token: str
):
    save("other", token="pat_other")
    save("team", token="pat_team")
    monkeypatch.setenv("PARTITA_TOKEN", "pat_given")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert choose_server(given).token == token
