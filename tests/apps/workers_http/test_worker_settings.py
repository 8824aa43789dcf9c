"""What a worker reads of its environment, and how it says that something is wrong there."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command

from apps.workers import conf
from tests.apps.workers_http.conftest import SECRET
from tests.apps.workers_http.test_http_control_plane import line
from worker.process import WorkerInUse, WorkerState
from worker.supervisor.spool import CHUNK_BYTES, Spool, SpoolEntry, SpoolSpace


def test_a_worker_is_called_as_its_host_is(settings):
    settings.AGENT_ID = ""

    assert conf.worker_settings().agent_id


def test_labels_are_keys_or_keys_with_values(settings):
    settings.AGENT_LABELS = ("gpu", "zone=eu=1")

    assert conf.worker_settings().labels == {"gpu": "", "zone": "eu=1"}


def test_settings_do_not_show_the_secret(settings):
    """Invariant 19."""
    settings.AGENT_SHARED_SECRET = SECRET

    assert conf.worker_settings().secret == SECRET
    assert SECRET not in repr(conf.worker_settings())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AGENT_ID", "no spaces"),
        ("AGENT_ID", "-first"),
        ("AGENT_BACKENDS", ("edge", "a/b")),
        ("AGENT_CONTROL_PLANE_URL", "partita.example"),
        ("AGENT_CONTROL_PLANE_URL", "file:///etc"),
        ("AGENT_PUBLIC_URL", "ftp://worker"),
        ("AGENT_PUBLIC_URL", "http://user:word@worker"),
        ("AGENT_PUBLIC_URL", "http://169.254.169.254:8091"),
    ],
)
def test_a_wrong_setting_is_named(settings, name: str, value: object):
    setattr(settings, name, value)

    with pytest.raises(ImproperlyConfigured, match=name):
        conf.worker_settings()
    with pytest.raises(CommandError, match=name):
        call_command("run_worker")


def test_two_workers_do_not_share_a_folder(tmp_path):
    first, second = WorkerState(tmp_path), WorkerState(tmp_path)

    with (
        first.lock_folder(),
        pytest.raises(WorkerInUse, match="AGENT_ID or DATA_DIR"),
        second.lock_folder(),
    ):
        pytest.fail("both work")


def test_the_installation_is_remembered(tmp_path):
    assert WorkerState(tmp_path).installation_id == ""
    WorkerState(tmp_path).store_installation("one")
    assert WorkerState(tmp_path).installation_id == "one"


async def test_chunks_of_lines_beyond_ascii_are_not_too_large(tmp_path):
    """The protocol takes 1 MiB of UTF-8."""
    spool = Spool(SpoolSpace(tmp_path), memory_bytes=2**23)
    await spool.put([SpoolEntry(number, [line("語" * 5_000)]) for number in range(1, 200)])
    spool.end()

    sizes = []
    while not spool.is_over:
        taken = await spool.take()
        sizes.append(sum(len(each.text.encode()) for each in taken.lines))

    assert sum(sizes) == 199 * 15_000
    assert max(sizes) <= CHUNK_BYTES
