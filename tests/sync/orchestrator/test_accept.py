"""Deliveries and triggers: what becomes a task, what is refused."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from django.db import OperationalError

from sync_stack.core.sink import Destination
from sync_stack.orchestrator.models import LedgerTarget, Task
from sync_stack.orchestrator.services import task_transitions
from sync_stack.orchestrator.services.deliveries import (
    DeliveryRefused,
    WebhookDelivery,
    accept_delivery,
)
from sync_stack.orchestrator.services.task_creation import TooManyTasks
from sync_stack.orchestrator.services.triggers import Heal, trigger_heal

pytestmark = pytest.mark.store
PLACE = Destination(kind="fake", name="production-shop", address="fake://memory/production-shop")
BODY = (
    b'{"ref":"refs/heads/main","after":"' + b"a" * 40 + b'","repository":{"full_name":"acme/shop"}}'
)


def delivery(**fields) -> WebhookDelivery:
    known: dict[str, Any] = {
        "platform": "github",
        "datasource": "sink",
        "raw_payload": BODY,
        "event": "push",
        "idempotency_key": uuid.uuid4().hex,
        "signature_verified": True,
    }
    return WebhookDelivery(**known | fields)


def refused(world, **fields) -> str:
    with pytest.raises(DeliveryRefused) as caught:
        accept_delivery(delivery(**fields), world.bundle, world.published.extend)
    assert not Task.objects.exists()
    return caught.value.status


def test_what_no_rule_wants_is_not_found(world):
    assert refused(world, datasource="none") == "NOT_FOUND"
    assert refused(world, platform="gitlab") == "NOT_FOUND"


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b"{}", BODY.replace(b"acme/shop", b"../x")])
def test_a_payload_that_cannot_be_read_is_an_invalid_argument(world, raw):
    """Sync invariants 28, 29."""
    assert refused(world, raw_payload=raw) == "INVALID_ARGUMENT"


def test_the_wishes_of_a_payload_decide_nothing(world):
    """Sync invariant 28: tenant, clone URL and destination are the bundle's."""
    world.with_rules(tenant="ours", destination_template="{tenant}-{env}-{repo}")
    commit = world.repository.commit({"app.yaml": "a: 1\n"})
    wishes = {
        "tenant": "theirs",
        "tenant_id": "theirs",
        "env": "theirs",
        "destination": "theirs",
        "clone_url": "https://theirs.example.org/acme/shop.git",
    }
    repository = {"full_name": "acme/shop", **wishes, "url": wishes["clone_url"]}
    task = world.finish(world.push(commit, repository=repository, **wishes))
    assert (task.tenant, task.state) == ("ours", "SUCCEEDED")
    assert "theirs" not in json.dumps([task.request, task.result])
    assert world.values("ours-production-shop") == {"a": "1"}


def test_a_key_is_required(world):
    assert refused(world, idempotency_key="") == "INVALID_ARGUMENT"


def test_production_takes_verified_deliveries_only(world, settings):
    """Sync invariant 27."""
    settings.SYNC_APP_ENV = "production"
    assert refused(world, signature_verified=False) == "PERMISSION_DENIED"


def test_no_more_tasks_wait_than_the_limit(world, settings):
    settings.SYNC_MAX_PENDING = 1
    accept_delivery(delivery(), world.bundle, world.published.extend)
    with pytest.raises(TooManyTasks):
        accept_delivery(delivery(), world.bundle, world.published.extend)


def test_nothing_is_told_of_a_task_that_is_not_stored(world, monkeypatch):
    """Sync invariant 2."""

    def fails(_row):
        raise OperationalError("the store is away")

    monkeypatch.setattr(task_transitions, "add", fails)
    with pytest.raises(OperationalError):
        accept_delivery(delivery(), world.bundle, world.published.extend)
    assert not world.published


def test_a_heal_brings_back_the_ledgers_commit_and_no_newer_one(world):
    """Sync invariant 41."""
    world.with_rules(self_heal=True)
    world.finish(world.commit_and_push({"app.yaml": "a: 1\nb: 2\n"}))
    world.repository.commit({"app.yaml": "a: 2\n"})
    unit = LedgerTarget.objects.get()
    world.sink.put_by_hand(PLACE, "a", {"a": "tampered"})
    task = world.finish(trigger(world, unit, unit.generation))
    assert (task.state, task.message, task.result["written"]) == ("SUCCEEDED", "completed", 1)
    assert world.values() == {"a": "1", "b": "2"}


def test_a_heal_for_an_older_generation_is_superseded(world):
    """Sync invariant 41."""
    world.with_rules(self_heal=True)
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    unit = LedgerTarget.objects.get()
    world.finish(world.commit_and_push({"app.yaml": "a: 2\n"}))
    task = world.finish(trigger(world, unit, unit.generation))
    assert (task.state, task.message) == ("SUCCEEDED", "superseded")
    assert world.values() == {"a": "2"}


def test_a_heal_without_self_heal_or_unit_fails_its_precondition(world):
    """Sync invariant 40."""
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    unit = LedgerTarget.objects.get()
    with pytest.raises(DeliveryRefused) as caught:
        trigger(world, unit, 0)
    assert caught.value.status == "FAILED_PRECONDITION"
    world.with_rules(self_heal=True)
    unit.env = "elsewhere"
    with pytest.raises(DeliveryRefused) as caught:
        trigger(world, unit, 0)
    assert caught.value.status == "FAILED_PRECONDITION"


@pytest.mark.parametrize("fields", [{"commit": "9" * 40}, {"ref": "refs/heads/develop"}])
def test_a_heal_of_another_commit_or_ref_than_the_units_is_superseded(world, fields):
    world.with_rules(self_heal=True)
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    world.sink.put_by_hand(PLACE, "a", {"a": "9"})

    task = world.finish(trigger(world, LedgerTarget.objects.get(), 0, **fields))

    assert (task.state, task.message) == ("SUCCEEDED", "superseded")
    assert world.values() == {"a": "9"}


def test_a_trigger_without_a_commit_brings_the_head_of_the_ref(world):
    world.with_rules(self_heal=True)
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    unit = LedgerTarget.objects.get()
    world.repository.commit({"app.yaml": "a: 2\n"})  # no webhook tells of it

    task = world.finish(trigger(world, unit, unit.generation, commit=""))

    assert (task.kind, task.message) == ("manual", "completed")
    assert world.values() == {"a": "2"}
    with pytest.raises(DeliveryRefused) as caught:
        trigger(world, unit, unit.generation, commit="")
    assert (caught.value.status, "generation 2" in caught.value.detail) == (
        "FAILED_PRECONDITION",
        True,
    )
    with pytest.raises(DeliveryRefused) as caught:
        trigger(world, unit, 0, commit="", ref="--upload-pack=x")
    assert caught.value.status == "INVALID_ARGUMENT"


def test_a_trigger_with_a_ref_and_no_commit_brings_that_ref(world):
    world.with_rules(self_heal=True)
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    unit = LedgerTarget.objects.get()
    world.repository.commit({"app.yaml": "b: 1\n"}, branch="develop")

    world.finish(trigger(world, unit, 0, commit="", ref="refs/heads/develop"))

    assert world.values("staging-shop") == {"b": "1"}
    assert world.values() == {"a": "1"}


def test_the_rule_of_a_trigger_must_be_one_of_its_datasource(world):
    world.with_rules(self_heal=True)
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    unit = LedgerTarget.objects.get()

    refused = []
    for fields in ({"datasource": ""}, {"datasource": "other"}, {"platform": "gitlab"}):
        with pytest.raises(DeliveryRefused) as caught:
            trigger(world, unit, 0, **fields)
        refused.append((caught.value.status, caught.value.detail))

    assert refused == [
        ("INVALID_ARGUMENT", "datasource is required"),
        ("NOT_FOUND", "no rule 'shop' for datasource 'other'"),
        ("NOT_FOUND", "no rule 'shop' for datasource 'sink' and platform 'gitlab'"),
    ]
    assert trigger(world, unit, 0, rule="").kind == "heal"


def test_a_trigger_finds_its_target_without_the_internal_id(world):
    world.with_rules(self_heal=True)
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    unit = LedgerTarget.objects.get()

    named = trigger(world, unit, 0, destination_id="")
    least = trigger(world, unit, 0, destination_id="", repo="", env="", rule="")
    head = trigger(world, unit, 0, destination_id="", commit="", ref=unit.ref)

    assert (named.kind, least.kind, head.kind) == ("heal", "heal", "manual")
    for task in (named, least):
        assert task.request["heal"]["destination_id"] == unit.destination_id
        assert world.finish(task).state == "SUCCEEDED"
    assert world.finish(head).state == "SUCCEEDED"


def test_a_trigger_for_an_unknown_target_names_the_known_ones(world):
    world.with_rules(self_heal=True)
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    unit = LedgerTarget.objects.get()

    with pytest.raises(DeliveryRefused) as caught:
        trigger(world, unit, 0, destination_id="", env="nowhere")

    assert caught.value.status == "FAILED_PRECONDITION"
    name = f"{unit.repo} {unit.env} {unit.ref} at {unit.destination}"
    assert caught.value.detail == f"rule 'shop' has no such target; known: {name}"


def test_a_trigger_that_several_targets_fit_names_them(world):
    world.with_rules(self_heal=True)
    world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}))
    unit = LedgerTarget.objects.get()
    LedgerTarget.objects.create(
        **{each.attname: getattr(unit, each.attname) for each in unit._meta.concrete_fields}
        | {"id": "another", "key": "k", "env": "staging", "destination_id": "d"}
    )

    with pytest.raises(DeliveryRefused) as caught:
        trigger(world, unit, 0, destination_id="", env="")

    assert caught.value.status == "INVALID_ARGUMENT"
    assert "several targets fit" in caught.value.detail
    assert unit.env in caught.value.detail
    assert "staging" in caught.value.detail
    assert trigger(world, unit, 0, destination_id="").kind == "heal"


def trigger(world, unit: LedgerTarget, generation: int, **fields: str) -> Task:
    known = {
        "datasource": unit.datasource,
        "rule": unit.rule_id,
        "repo": unit.repo,
        "env": unit.env,
        "destination_id": unit.destination_id,
        "idempotency_key": uuid.uuid4().hex,
        "commit": unit.commit,
    }
    heal = Heal(generation=generation, **known | fields)
    return trigger_heal(heal, world.bundle, world.published.extend).task
