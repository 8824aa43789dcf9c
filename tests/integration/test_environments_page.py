"""The environments in Chromium: live, by keyboard, and removed; the test plays the runner."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from playwright.sync_api import Page, expect

from apps.environments.api import (
    RuntimeLook,
    SweepPart,
    SweepProgress,
    end_part,
    record_look,
    report_progress,
    take_part,
)
from apps.environments.models import DeadRun, Reap, StoredLook, WatchedInventory
from apps.executions.models import Execution
from kernel import clock
from kernel.agent_protocol import RuntimeResource
from tests.integration.pages import EVIL, findings, three_steps
from tests.support.browser import Reader
from tests.support.processes import until

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
AGENT = "runner-1"
SCREENS = ((1440, 900), (1024, 768), (390, 844))
KINDS: tuple[Any, ...] = ("container", "network", "volume")


@pytest.fixture(autouse=True)
def nothing_seen(transactional_db: None) -> Iterator[None]:
    yield
    for model in (StoredLook, DeadRun, Reap, WatchedInventory):
        model.objects.all().delete()


def resource(kind: Any, name: str, run_id: str, workspace: object, **facts: Any) -> RuntimeResource:
    labels = {
        "partita.run_id": run_id,
        "partita.workspace_id": str(workspace),
        "partita.suite": "shop",
        "partita.owner": "Grace Hopper",
        "partita.profile": "default.yaml",
    }
    of_container = {
        "image": "redis:7-alpine",
        "state": "running",
        "status": "Up 3 minutes",
        "ports": ("8080 -> 80/tcp",),
    }
    of_other = {"driver": "bridge", "scope": "local", "mountpoint": f"/volumes/{name}"}
    known = of_container if kind == "container" else of_other
    return RuntimeResource(
        kind=kind,
        id=f"id-of-{name}",
        name=name,
        created_at=clock.now().replace(microsecond=0) - timedelta(minutes=5),
        labels=labels,
        **(known | facts),
    )


def world_of(who: Reader, run_id: str, name: str = "shop") -> list[RuntimeResource]:
    """A container, a network and a volume of a run."""
    return [resource(kind, f"{name}-{kind}", run_id, who.user.workspace_id) for kind in KINDS]


def look(resources: Sequence[RuntimeResource], *, ago_s: float = 0) -> None:
    """What the runner saw."""
    record_look(
        RuntimeLook(
            agent_id=AGENT,
            host_id="host",
            looked_at=clock.now() - timedelta(seconds=ago_s),
            available=True,
            resources=tuple(resources),
        )
    )


def zombie(who: Reader) -> str:
    """The id of a run that failed minutes ago and whose world is still there."""
    run = three_steps(who)
    ended = clock.now() - timedelta(minutes=4)
    Execution.objects.filter(pk=run.pk).update(status="Failed", finished_at=ended)
    for ago_s in (45, 0):
        look(world_of(who, run.id), ago_s=ago_s)
    return run.id


def row(page: Page, run_id: str) -> Any:
    return page.locator(f'.environment[data-environment="{run_id}"]')


def taken_part() -> SweepPart:
    """The part of the reap that the page asked for."""
    found: list[SweepPart] = []

    def take() -> bool:
        found.extend(filter(None, [take_part(AGENT, "the test")]))
        return bool(found)

    until(take, within_s=20, what="the page asked for a reap")
    return found[0]


def progress_of(part: SweepPart, count: int) -> SweepProgress:
    gone = {(each.kind, each.resource.id) for each in part.resources[:count]}
    return SweepProgress(gone=gone)


def test_what_a_runner_sees_appears_and_stays_as_its_reader_left_it(ada: Reader):
    page, run = ada.page, three_steps(ada)
    ada.open("/environments")
    expect(page.get_by_role("heading", name="No container runtime answers")).to_be_visible()
    expect(page.get_by_text("run_runner").first).to_be_visible()

    look(world_of(ada, run.id))
    expect(row(page, run.id).locator(".status-text")).to_have_text("Running")
    expect(page.get_by_role("heading", name="No container runtime answers")).to_be_hidden()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(row(page, run.id).get_by_text("shop-network")).to_be_visible()
    more = resource("container", "late-comer", run.id, ada.user.workspace_id)
    look([*world_of(ada, run.id), more])

    expect(row(page, run.id).get_by_text("late-comer")).to_be_visible()
    expect(row(page, run.id).get_by_text("2 containers, 1 networks, 1 volumes")).to_be_visible()
    expect(row(page, run.id).locator("summary")).to_be_focused()
    look([])
    expect(row(page, run.id)).to_have_count(0)
    expect(page.get_by_role("heading", name="No environments")).to_be_visible()


def test_a_removal_shows_its_plan_its_progress_and_its_result(ada: Reader):
    page, run_id = ada.page, zombie(ada)
    ada.open("/environments")
    place = row(page, run_id).locator(".reap-place")
    expect(row(page, run_id).locator(".status-text")).to_have_text("Zombie")

    row(page, run_id).get_by_role("link", name="Remove").press("Enter")
    plan = place.get_by_role("group", name="What would be removed")
    expect(plan).to_be_focused()
    for name in ("shop-container", "shop-network", "shop-volume"):
        expect(plan.get_by_text(name)).to_be_visible()
    assert not Reap.objects.exists()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # Remove 1 container, 1 network, 1 volume
    part = taken_part()
    assert report_progress(part.id, "the test", progress_of(part, 2))
    expect(place.get_by_role("status")).to_have_text("2 of 3 gone")
    expect(place.get_by_role("progressbar")).to_have_attribute("value", "2")
    done = progress_of(part, 2)
    done.warn("shop-volume: volume is in use")
    assert end_part(part.id, "the test", done)

    result = place.get_by_role("group", name="Removed")
    expect(result).to_contain_text("Removed 1 container, 1 network.")
    expect(result).to_contain_text("shop-volume: volume is in use")
    expect(result).to_be_focused()
    look([])
    expect(row(page, run_id)).to_have_attribute("data-gone", "")
    page.keyboard.press("Escape")
    expect(row(page, run_id)).to_have_count(0)


def test_a_plan_is_closed_and_the_focus_goes_back(ada: Reader):
    page, run_id = ada.page, zombie(ada)
    ada.open("/environments")
    remove = row(page, run_id).get_by_role("link", name="Remove")
    remove.press("Enter")
    plan = row(page, run_id).get_by_role("group", name="What would be removed")
    expect(plan).to_be_focused()

    look([*world_of(ada, run_id), resource("volume", "late", run_id, ada.user.workspace_id)])
    expect(row(page, run_id)).to_contain_text("2 volumes")
    expect(plan).to_be_focused()
    page.keyboard.press("Escape")

    expect(plan).to_have_count(0)
    expect(remove).to_be_focused()
    assert not Reap.objects.exists()


def test_the_run_of_an_environment_is_canceled_first(ada: Reader):
    page, run = ada.page, three_steps(ada)
    look(world_of(ada, run.id))
    ada.open("/environments")

    row(page, run.id).get_by_role("link", name="Remove").click()
    expect(row(page, run.id)).to_contain_text(f"{run.id} is Booting: it is canceled first")
    row(page, run.id).get_by_role("button", name="Remove").click()
    part = taken_part()
    expect(row(page, run.id)).to_contain_text("0 of 3 gone")
    look([])
    end_part(part.id, "the test", progress_of(part, 3))

    expect(row(page, run.id)).to_contain_text("Removed 1 container, 1 network, 1 volume.")
    assert run.status == "Canceled"


def test_a_refusal_stands_where_it_was_asked_for(ada: Reader):
    page, run_id = ada.page, zombie(ada)
    ada.open("/environments")
    row(page, run_id).get_by_role("link", name="Remove").click()
    row(page, run_id).get_by_role("button", name="Remove").wait_for()
    now = clock.now()
    Reap.objects.create(target=run_id, marked=b"", lease_expires_at=now, created_at=now)

    row(page, run_id).get_by_role("button", name="Remove").click()

    expect(row(page, run_id).get_by_role("group", name="Not removed")).to_be_visible()
    expect(row(page, run_id)).to_contain_text(f"a reap of {run_id} is in progress")


def test_everything_is_removed_after_its_word(ada: Reader):
    get_user_model().objects.update(is_admin=True)
    page, run_id = ada.page, zombie(ada)
    ada.open("/environments")
    expect(row(page, run_id)).to_contain_text("Ada's workspace")

    page.get_by_role("link", name="Clean up everything").click()
    remove = page.get_by_role("button", name="Remove 1 container, 1 network, 1 volume")
    remove.click()
    assert not Reap.objects.exists()  # the browser asks for the word
    page.get_by_label("Type everything to confirm").fill("everything")
    remove.click()
    part = taken_part()
    look([])
    end_part(part.id, "the test", progress_of(part, 3))

    expect(page.get_by_role("group", name="Removed")).to_contain_text("Removed 1 container")


def test_zombies_are_cleaned_up_by_a_member(ada: Reader):
    page, run_id = ada.page, zombie(ada)
    ada.open("/environments?status=Zombie")

    page.get_by_role("link", name="Clean up all zombies").click()
    page.get_by_role("button", name="Remove 1 container, 1 network, 1 volume").click()
    part = taken_part()
    look([])
    end_part(part.id, "the test", progress_of(part, 3))

    expect(page.get_by_role("group", name="Removed")).to_contain_text("Removed 1 container")
    expect(row(page, run_id)).to_have_count(0)
    expect(page.get_by_role("heading", name="No environment matches")).to_be_visible()


def test_filters_are_in_the_address(ada: Reader):
    page, run_id = ada.page, zombie(ada)
    ada.open("/environments")
    page.keyboard.press("/")
    page.keyboard.type("shop-vol")
    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile(r"/environments\?q=shop-vol$"))
    expect(row(page, run_id)).to_be_visible()
    page.get_by_label("Status").select_option("Residual")
    expect(page).to_have_url(re.compile(r"/environments\?q=shop-vol&status=Residual$"))
    expect(page.get_by_role("heading", name="No environment matches")).to_be_visible()
    page.go_back()
    expect(row(page, run_id)).to_be_visible()


def test_the_page_of_a_run_leads_to_its_environment_and_back(ada: Reader):
    page, run_id = ada.page, zombie(ada)
    ada.open(f"/executions/{run_id}?tab=why")

    page.get_by_role("link", name="1 containers, 1 networks, 1 volumes").click()
    expect(page.locator(".environment")).to_have_count(1)
    page.get_by_role("link", name=run_id, exact=True).click()
    expect(page.locator(".run-title h1")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("e")
    expect(page.get_by_role("heading", name="Environments")).to_be_visible()


def test_a_hostile_name_is_text(ada: Reader):
    page, run = ada.page, three_steps(ada)
    names = [resource(kind, EVIL, run.id, ada.user.workspace_id) for kind in KINDS]
    ada.open("/environments")
    look(names)

    row(page, run.id).locator("summary").click()
    row(page, run.id).get_by_role("link", name="Remove").click()

    expect(row(page, run.id).locator(".reap").get_by_text(EVIL).first).to_be_visible()
    assert page.locator("#environments img, #environments script").count() == 0


def test_without_scripts_the_list_is_there_and_a_removal_is_a_page(ada: Reader):
    run_id = zombie(ada)
    state = ada.context.storage_state()
    context = ada.context.browser.new_context(java_script_enabled=False, storage_state=state)  # type: ignore[union-attr]
    page = context.new_page()
    page.goto(f"{ada.url}/environments?status=Zombie")
    row(page, run_id).locator("summary").click()
    expect(row(page, run_id).get_by_text("shop-network")).to_be_visible()

    row(page, run_id).get_by_role("link", name="Remove").click()

    expect(page.get_by_text("This would remove 1 container, 1 network, 1 volume")).to_be_visible()
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_and_nothing_is_cut_off(ada: Reader, axe: str, scheme: Any):
    page, run_id, found = ada.page, zombie(ada), []
    page.emulate_media(color_scheme=scheme)
    for width, height in SCREENS:
        page.set_viewport_size({"width": width, "height": height})
        ada.open("/environments")
        row(page, run_id).locator("summary").click()
        row(page, run_id).get_by_role("link", name="Remove").click()
        row(page, run_id).get_by_role("button", name="Remove").wait_for()

        found += [f"{width}: {each}" for each in findings(page, axe)]
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            found.append(f"{width}: the page scrolls sideways")

    assert found == []
