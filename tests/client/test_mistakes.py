"""Mistakes of newcomers, each answered by the next step and an exit code of the table."""

from __future__ import annotations

import pytest
from django.core.management import get_commands

from partita_client.command.halves import StoreCommand
from partita_client.command.program import nearest_noun, run_words
from tests.support.fake_partita import RUN, FakePartita, problem

TYPED = [
    # words, exit code, what is said
    (["launch", "shop"], 2, "next: partita run launch SUITE"),
    (["runs"], 2, "next: partita run list"),
    (["ls"], 2, "next: partita run list"),
    (["logs", RUN], 2, "next: partita run logs RUN"),
    (["auth"], 2, "next: partita login URL"),
    (["runn", "list"], 2, "did you mean `partita run`?"),
    (["Suite", "list"], 2, "did you mean `partita suite`?"),
    (["lgoin"], 2, "did you mean `partita login`?"),
    (["-v"], 2, "next: partita --version"),
    (["--verson"], 2, "did you mean `partita --version`?"),
    (["-x", "run"], 2, "there is no option '-x'"),
    (["config"], 2, "next: partita context list"),
    (["validate"], 2, "partita suite validate"),
    (["run"], 2, "name a verb: launch, rerun"),
    (["run", "ls"], 2, "did you mean `partita run list`?"),
    (["run", "start", "shop"], 2, "did you mean `partita run launch`?"),
    (["run", "get", RUN], 2, "did you mean `partita run show`?"),
    (["run", "stop", RUN], 2, "did you mean `partita run cancel`?"),
    (["run", "lanch", "shop"], 2, "did you mean `partita run launch`?"),
    (["run", "frobnicate"], 2, "known: launch"),
    (["run", "list", "--statsu", "failed"], 2, "did you mean --status?"),
    (["run", "list", "--status", "broken"], 2, "expected one of Queued, Booting, Healthy"),
    (["run", "list", "--status", "Faild"], 2, "Canceled; did you mean Failed?"),
    (["run", "list", "-o", "jsn"], 2, "json, yaml, ndjson; did you mean json?"),
    (["run", "list", "-o", "JSON"], 2, "did you mean json?"),
    (["run", "launch", "shop", "--trigger", "ci"], 2, "API; did you mean CI?"),
    (["get", "runs"], 2, "next: partita run show RUN, or partita run list"),
    (["switch", "prod"], 2, "next: partita context use NAME"),
    (["run", "list", "--limit", "0"], 2, "expected 1 to 1000"),
    (["run", "list", "-o", "xml"], 2, "choose from"),
    (["run", "launch"], 2, "the following arguments are required: SUITE"),
    (["run", "launch", " "], 2, "no suite is named\nnext: `partita suite list` shows the suites"),
    (["run", "launch", "nosuch"], 3, "there is no suite 'nosuch'; known: shop"),
    (["run", "launch", "shop", "--timeout", "5m"], 2, "it needs --watch or --wait"),
    (["run", "launch", "shop", "--watch", "--timeout", "5 minutes"], 2, "expected a duration"),
    (["run", "launch", "shop", "--keep", "9h"], 2, "kept for at most 4h"),
    (["run", "launch", "shop", "--cancel-in-progress"], 2, "needs --concurrency-group"),
    (["run", "why"], 2, "the following arguments are required: RUN"),
    (["run", "why", "shop"], 3, "`partita run list` shows the runs"),
    (["run", "logs", RUN, "--source", "nope"], 3, "known: execution, api, check"),
    (["run", "logs", RUN, "--failed", "--follow"], 2, "leave out --follow"),
    (["run", "logs", RUN, "--regex", "("], 2, "is not a valid pattern"),
    (["run", "keep", RUN], 2, "one of the arguments --for --end is required"),
    (["run", "download", RUN], 0, "the steps of this run exported no files"),
    (["run", "download", RUN, "nope"], 3, "no artifact 'nope'; known: none"),
    (["profile", "show", "shop", "prod.yaml"], 3, "has no profile 'prod.yaml'; known: ci.yaml"),
    (["context", "use", "prod"], 2, "next: known: none; partita login URL makes one"),
    (["context", "set", "prod"], 2, "did you mean `partita context use`?"),
    (["login", "ftp://x"], 2, "expected an address such as https://partita.example.com"),
    (["login", "https://ada:secret@x.example"], 2, "an address holds no password"),
    (["login", "https://x.example"], 2, "--token-stdin"),
    (["login", "https://x.example", "--token-file", "/nosuch"], 2, "cannot be read: No such file"),
    (["whoami", "--context", "prod"], 2, "there is no context 'prod'"),
    (["run", "list", "--server", "http://127.0.0.1:1"], 6, "is it running there?"),
    (["completion", "tcsh"], 2, "choose from"),
    (["workers"], 2, "next: partita worker list"),
    (["registries"], 2, "next: partita settings registries test"),
    (["worker"], 2, "name a verb: list, status, show, drain"),
    (["worker", "ls"], 2, "did you mean `partita worker list`?"),
    (["worker", "cordon", "edge"], 2, "did you mean `partita worker drain`?"),
    (["worker", "show", "egde"], 3, "there is no runner or worker 'egde'; known: edge, near"),
    (["worker", "list", "--state", "busy"], 2, "choose from"),
    (["mock", "logs", "shop"], 2, "did you mean `partita mock journal`?"),
    (["mock", "state"], 2, "the following arguments are required: SUITE"),
    (["mock", "state", "shop", "--set", "a=1"], 2, "name it with --key"),
    (["mock", "state", "shop", "--key", "k", "--set", "a"], 2, "expected FIELD=VALUE"),
    (["mock", "explain", "shop", "api", "GET", "/", "-H", "x"], 2, "expected 'NAME: VALUE'"),
    (["mock", "journal", "shop", "-f", "--jq", ".id"], 2, "leave out one of them"),
    (["mock", "verify", "shop", "--when", "x"], 2, "expected SOURCE:NAME=VALUE"),
    (["settings", "apply", "none.yaml"], 2, "partita settings show -o yaml > FILE"),
    (["settings", "registries", "ping"], 2, "choose from"),
    (["settings", "registries", "test", "nope"], 3, "`partita settings show` shows"),
]


@pytest.mark.parametrize(
    ("words", "code", "said"), TYPED, ids=[" ".join(words) for words, *_ in TYPED]
)
def test_a_mistake_is_answered_by_the_next_step(
    signed_in: FakePartita, capsys, monkeypatch, words: list[str], code: int, said: str
):
    monkeypatch.setattr("partita_client.transport.pause_s", lambda _failures: 0.0)
    signed_in.answers["GET /api/v1/executions/shop"] = lambda *_: problem(
        404, "execution_not_found", "there is no run shop"
    )
    signed_in.answers["POST /api/v1/platform-settings/registries/nope/test"] = lambda *_: problem(
        404, "registry_not_found", "there is no registry 'nope'"
    )
    try:
        ended = run_words(words)
    except SystemExit as exited:
        ended = int(str(exited.code))

    output = capsys.readouterr()
    assert not isinstance(ended, StoreCommand)
    assert (ended, output.out) == (code, "")
    assert said in output.err
    assert "Traceback" not in output.err


def test_no_command_beside_the_store_is_taken_for_a_misspelling():
    taken = [name for name in get_commands() if nearest_noun(name) not in ("", name)]

    assert taken == []


def test_blanks_around_a_run_are_not_part_of_its_id(signed_in: FakePartita, capsys):
    assert run_words(["run", "show", f" {RUN}\n", "-o", "name"]) == 0


def test_the_overview_fits_a_terminal_of_80_columns(capsys):
    run_words([])

    assert max(map(len, capsys.readouterr().out.splitlines())) < 80


@pytest.mark.parametrize("words", [["run", "list"], ["run", "launch", "shop"], ["whoami"]])
def test_without_a_server_both_ways_are_named(capsys, words: list[str]):
    assert run_words(words) == 6

    said = capsys.readouterr().err
    for way in ("partita login", "partita up"):
        assert way in said


def test_a_doctor_without_a_server_names_both_ways_as_well(capsys):
    assert run_words(["doctor"]) == 6

    said = capsys.readouterr().err
    assert said.endswith("partita login https://partita.example.com\n  this machine: partita up\n")


def test_without_a_token_the_sign_in_is_named(fake: FakePartita, capsys, monkeypatch):
    monkeypatch.setenv("PARTITA_URL", fake.url)

    assert run_words(["run", "list"]) == 4

    assert f"partita login {fake.url}" in capsys.readouterr().err


def test_an_option_that_is_only_as_short_is_not_named(capsys):
    with pytest.raises(SystemExit):
        run_words(["run", "logs", RUN, "--tail", "5"])

    assert "did you mean" not in capsys.readouterr().err
