"""The bundle in use: loading, refusing, reloading."""

from __future__ import annotations

import json
import logging
import signal
import time
from pathlib import Path

import pytest

from kernel.redaction import SecretRegister
from sync_stack.configuration import bundle_file
from sync_stack.configuration.bundle_file import BundleFile, Reload
from sync_stack.configuration.conf import BundleSettings
from sync_stack.configuration.metrics import registry
from sync_stack.configuration.secrets import SecretResolver, bundle_hooks
from sync_stack.configuration.startup import StartRefused, refusing
from sync_stack.core.bundle.secret_use import Process
from tests.support.bundles import SMALL, changed, valid


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "bundle.json"
    write(file, SMALL)
    return file


def write(path, bundle):
    path.write_text(json.dumps({"bundle": bundle}, indent=1))


def renamed(name):
    return changed(lambda bundle: bundle["rules"][0].update(name=name))


def opened(path, **settings):
    return BundleFile.load(BundleSettings(path=path, **settings))


def counted(outcome):
    return registry.get_sample_value("sync_bundle_reloads_total", {"outcome": outcome}) or 0


def test_a_missing_file_stops_the_start(tmp_path, capsys):
    with pytest.raises(SystemExit) as exit_, refusing():
        opened(tmp_path / "none.cue")

    assert exit_.value.code == 78
    assert capsys.readouterr().err == (
        f"{tmp_path}/none.cue: cannot be read: No such file or directory [syntax_error]\n"
    )


def test_every_error_is_named_with_its_place(path):
    bad = changed(lambda bundle: bundle["rules"][0].update(datasource="redi", slef_heal=True))
    write(path, bad)

    with pytest.raises(StartRefused) as refused:
        opened(path)
    codes = [line.rpartition(" ")[2] for line in refused.value.lines]
    places = [int(line.split(":")[1]) for line in refused.value.lines]
    assert codes == ["[unknown_reference]", "[unknown_field]"]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("b.json", '{"bundle":\n {]}', ":2:3: "),
        ("b.yaml", "bundle:\n  a: [1\n", ":3:1: "),
        ("b.cue", "bundle: {\n  a: \n}", ":"),
    ],
)
def test_text_that_breaks_its_format_is_a_syntax_error_with_its_place(tmp_path, name, text, place):
    (tmp_path / name).write_text(text)

    with pytest.raises(StartRefused) as refused:
        opened(tmp_path / name)
    assert place in refused.value.lines[0]
    assert refused.value.lines[0].endswith("[syntax_error]")


def test_cue_json_and_yaml_give_one_bundle(path, tmp_path):
    whole = json.dumps({"bundle": SMALL})
    for name in ("b.cue", "b.yaml", "b.json"):
        (tmp_path / name).write_text(whole)
    bundles = [opened(tmp_path / name).bundle for name in ("b.cue", "b.yaml", "b.json")]

    assert bundles[0] == bundles[1] == bundles[2]


def test_a_file_over_four_mebibytes_is_refused(path):
    path.write_bytes(b" " * (bundle_file.MAX_BYTES + 1))

    with pytest.raises(StartRefused, match="larger than 4194304 bytes"):
        opened(path)


def test_the_root_example_is_valid_and_says_what_it_says():
    reading = bundle_file.bundle_of(bundle_file.read_text(Path("config.cue")), production=True)

    assert reading.complaints == ()
    assert valid(reading).rules[0].prune.enabled
    assert valid(reading).task_broker_datasource == "redis"


def test_strict_refuses_a_bundle_with_warnings(path):
    write(path, changed(lambda bundle: bundle.update(monitoring={})))

    assert [entry.code for entry in opened(path).warnings] == ["no_effect"]
    with pytest.raises(StartRefused, match="no_effect"):
        opened(path, strict=True)


def test_a_changed_valid_bundle_is_taken_whole(path):
    file, before = opened(path), counted("ok")
    seen: list[object] = []
    file.on_change(seen.append)
    write(path, renamed("other"))

    assert file.reload() is Reload.OK
    assert file.bundle.rules[0].name == "other"
    assert seen == [file.bundle]
    assert file.reload() is Reload.UNCHANGED
    assert counted("ok") == before + 1


def test_a_rejected_reload_changes_nothing_and_is_said_once(path, caplog):
    """Sync invariant 37: the bundle before stays in use, secrets and managers too."""
    prepared: list[object] = []
    file, before = opened(path), counted("rejected")
    old = file.bundle
    file.on_change(prepared.append)
    write(path, changed(lambda bundle: bundle.update(rules=[])))
    with caplog.at_level(logging.ERROR, logger="partita.sync.bundle"):
        assert [file.reload(), file.reload()] == [Reload.REJECTED] * 2

    assert file.bundle is old
    assert prepared == []
    assert counted("rejected") == before + 1
    assert [record.event for record in caplog.records] == ["bundle_rejected"]
    path.unlink()
    assert file.reload() is Reload.REJECTED
    write(path, SMALL)
    assert file.reload() is Reload.UNCHANGED


def test_secrets_of_a_rejected_bundle_do_not_reach_the_managers_in_use(path):
    """Sync invariant 37: a refused bundle cannot send a token to another server."""
    asked = []

    class Client:
        def __init__(self, manager, _resolver):
            self.endpoint = manager.endpoint

        def fetch(self, *_args):
            asked.append(self.endpoint)
            return "value"

        def close(self):
            pass

    def with_manager(endpoint, **platform):
        token = {"token_auth": {"token": "some-token"}}
        return changed(
            lambda bundle: (
                bundle.update(secret_managers=[{"vault": {"endpoint": endpoint, **token}}]),
                bundle["platforms"][0]["github"].update(token={"ref": "a#b"}, **platform),
            )
        )

    write(path, with_manager("https://good"))
    resolver = SecretResolver(Client, variables={}, register=SecretRegister())
    needs = bundle_hooks(Process.GATEWAY, resolver, file=str(path))
    file = BundleFile.load(BundleSettings(path=path), needs)
    write(path, with_manager("https://evil", secret={"env": "NOT_SET"}))

    assert file.reload() is Reload.REJECTED
    token = file.bundle.platforms[0].token
    assert token is not None
    resolver.resolve(token)
    assert asked == ["https://good"]
    resolver.close()


def test_the_file_is_watched(path):
    file = opened(path, reload_interval_s=0.02)
    file.watch()
    write(path, renamed("other"))
    wait_for(lambda: file.bundle.rules[0].name == "other")
    file.stop()


def test_a_hangup_wakes_a_watch_without_interval(path):
    file = opened(path, reload_interval_s=0)
    before = signal.signal(signal.SIGHUP, lambda _number, _frame: file.wake())
    try:
        file.watch()
        write(path, renamed("other"))
        signal.raise_signal(signal.SIGHUP)
        wait_for(lambda: file.bundle.rules[0].name == "other")
    finally:
        signal.signal(signal.SIGHUP, before)
        file.stop()


def wait_for(condition):
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_the_built_in_cue_cannot_read_is_left_to_the_named_program(tmp_path):
    path = tmp_path / "bundle.cue"
    path.write_text('import "strconv"\nbundle: {a: strconv.Quote("x")}\n')
    answer = tmp_path / "answer.json"
    write(answer, SMALL)
    program = tmp_path / "cue"
    program.write_text(f"#!/bin/sh\ncat {answer}\n")
    program.chmod(0o755)

    with pytest.raises(StartRefused, match="unsupported_cue"):
        opened(path)
    assert opened(path, cue_binary=str(program)).bundle.rules[0].name == "shop"
    with pytest.raises(StartRefused):
        opened(path, cue_binary=str(tmp_path / "none"))
