"""Targets that an administrator syncs again, from the admin of the control plane."""

from __future__ import annotations

import pytest
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.test import Client

from apps.accounts.services.administrators import ensure_seed_admin
from sync_stack.orchestrator.models import LedgerTarget, RefRecord, Task
from tests.support.sync_world import World, rule

pytestmark = pytest.mark.store
PATH = "/admin/sync/ledgertarget/"


@pytest.fixture
def root() -> Client:
    ContentType.objects.clear_cache()
    ensure_seed_admin("root@example.org", "Correct-Horse-1")
    client = Client()
    client.post("/sign-in", {"email": "root@example.org", "password": "Correct-Horse-1"})
    return client


def act(client: Client, target: LedgerTarget, **more: str):
    form = {"action": "sync_again", ACTION_CHECKBOX_NAME: target.id}
    return client.post(PATH, form | more)


def test_a_target_is_synced_again_after_a_question(world: World, root: Client):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    target = LedgerTarget.objects.get()
    for place in world.sink.places.values():
        place.records.clear()
    before = Task.objects.count()

    asked = act(root, target)
    assert "Sync these targets again?" in asked.content.decode()
    assert Task.objects.count() == before

    act(root, target, confirmed="yes")

    task = Task.objects.latest("id")
    assert (task.kind, task.state, Task.objects.count()) == ("manual", "PENDING", before + 1)
    assert LogEntry.objects.get().get_change_message() == f"task {task.id} syncs it again"
    assert world.finish(task).message == "completed"
    assert world.values() == {"a": "1"}


def test_the_task_is_for_the_route_of_the_rule_and_not_for_its_datasource(tmp_path, root: Client):
    world = World(tmp_path, rules=(rule(segment="route"),))
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))

    act(root, LedgerTarget.objects.get(), confirmed="yes")

    assert world.finish(Task.objects.latest("id")).state == "SUCCEEDED"


def test_a_target_without_a_record_of_its_ref_is_refused(world: World, root: Client):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    RefRecord.objects.all().delete()
    before = Task.objects.count()

    answer = act(root, LedgerTarget.objects.get(), confirmed="yes")

    assert "nothing was applied to this target yet" in root.get(answer["Location"]).content.decode()
    assert Task.objects.count() == before
    assert not LogEntry.objects.exists()


def test_a_full_queue_is_said(world: World, root: Client, settings):
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    settings.SYNC_MAX_PENDING = 0

    answer = act(root, LedgerTarget.objects.get(), confirmed="yes")

    assert "too many tasks are already waiting" in root.get(answer["Location"]).content.decode()
