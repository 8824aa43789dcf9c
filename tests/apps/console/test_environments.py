"""The page of the environments: who sees and removes what, and what it says without any."""

from __future__ import annotations

import html
import re
import uuid

import pytest
from django.test import Client

from apps.accounts import selectors as accounts_memory
from apps.accounts.api import Role
from apps.accounts.models import Membership, User
from apps.console import environments
from apps.environments.api import RuntimeLook, record_look
from kernel import clock
from kernel.errors import PlatformError
from tests.apps.console import environment_samples as samples
from tests.apps.console.environment_samples import RUN_ID, FakeEnvironments
from tests.support.resources import resource

EVIL = '<img src=x onerror=alert(1)><script>alert("x")</script>'
REAP = f"/environments/reap?id={RUN_ID}"
REAP_ALL = "/environments/reap-all?scope="
FRAGMENT = {"HX-Request": "true"}


class ReapInProgress(PlatformError):
    code = "reap_in_progress"


class Forbidden(PlatformError):
    code = "admin_required"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeEnvironments:
    made = FakeEnvironments()
    monkeypatch.setattr(environments, "environments", made)
    return made


@pytest.fixture
def become():
    """Give the reader a role in the workspace, or make an administrator of the installation."""

    def change(role: Role | None = None, *, is_admin: bool = False) -> None:
        if role:
            Membership.objects.update(role=role)
        User.objects.update(is_admin=is_admin)
        accounts_memory._cache.clear()

    return change


def text_of(answer) -> str:
    """What a person reads of it: without tags, white space as one space."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", answer.content.decode())).split())


def test_a_row_says_what_runs_and_whose_it_is(reader: Client, fake: FakeEnvironments):
    fake.sandboxes = [samples.environment("Degraded")]

    answer = reader.get("/environments")

    assert answer.status_code == 200
    page, words = answer.content.decode(), text_of(answer)
    assert 'icons.svg#degraded"' in page
    for said in ("Degraded", "Shop", "default.yaml", "Grace Hopper", "12 % CPU · 34.0 MiB", RUN_ID):
        assert said in words
    assert f'href="/executions/{RUN_ID}"' in page
    assert "1 containers, 1 networks, 1 volumes" in words
    assert "8080 -> 80/tcp" in words


def test_a_zombie_says_in_one_sentence_why(reader: Client, fake: FakeEnvironments):
    fake.sandboxes = [samples.zombie()]

    words = text_of(reader.get("/environments"))

    assert (
        "It is a zombie because process 4711 of runner-1 is gone, silent for 3m, and its "
        f"containers are still running: first seen at {samples.SINCE} "
        f"and still at {samples.LOOKED_AT} ."
    ) in words


def test_an_exit_code_of_zero_is_shown(reader: Client, fake: FakeEnvironments):
    ended = samples.container(state="exited", exitCode=0)
    fake.sandboxes = [samples.environment(containers=[ended])]

    page = reader.get("/environments").content.decode()

    assert re.search(r'data-label="Exit code" class="num">0<', page)


def test_what_containers_are_called_is_text(reader: Client, fake: FakeEnvironments):
    fake.sandboxes = [
        samples.zombie(
            sandboxId=EVIL, runId=EVIL, suite=EVIL, owner=EVIL, profile=EVIL, zombieReason=EVIL,
            warnings=[EVIL], containers=[samples.container(EVIL, image=EVIL, ports=[EVIL])],
            networks=[samples.network(EVIL)], volumes=[samples.volume(EVIL)],
        )
    ]  # fmt: skip
    del fake.sandboxes[0]["executionStatus"]  # type: ignore[attr-defined]
    fake.warnings = [EVIL]

    for path in ("/environments", "/environments/rows", REAP_ALL + "zombies"):
        page = reader.get(path).content.decode()
        assert "<img" not in page, path
        assert "&lt;img" in page, path


@pytest.mark.parametrize("odd", ["a/b", "..", "?x=1&id=other#y", "-", "日本"])
def test_an_id_that_a_label_made_up_leads_to_its_own_removal(
    reader: Client, fake: FakeEnvironments, odd: str
):
    orphan = dict(samples.environment("Residual", sandboxId=odd, runId=odd))
    del orphan["executionStatus"]
    fake.sandboxes = [orphan]

    page = reader.get("/environments").content.decode()
    (link,) = re.findall(r'href="(/environments/reap\?[^"]+)"', page)
    reader.get(html.unescape(link), headers=FRAGMENT)

    assert fake.tried == [odd]


def test_who_may_only_view_has_no_button(reader: Client, fake: FakeEnvironments, become):
    become(Role.VIEWER)
    fake.sandboxes = [samples.zombie(canReap=False)]

    answer = reader.get("/environments")

    assert "/environments/reap" not in answer.content.decode()
    assert "Removing them needs the role runner." in text_of(answer)


def test_members_clean_up_zombies_and_administrators_everything(
    reader: Client, fake: FakeEnvironments, become
):
    fake.sandboxes = [samples.zombie(workspaceId=str(User.objects.get().workspace_id))]

    become(Role.RUNNER)
    member = text_of(reader.get("/environments"))
    become(is_admin=True)
    administrator = text_of(reader.get("/environments"))

    assert "Clean up all zombies" in member
    assert "Clean up everything" not in member
    assert "Clean up everything" in administrator
    assert "Ada's workspace" in administrator
    assert "Ada's workspace" not in member


def test_a_removal_shows_first_what_it_would_remove(reader: Client, fake: FakeEnvironments):
    fake.sandboxes = [samples.environment()]

    answer = reader.get(REAP, headers=FRAGMENT)

    words = text_of(answer)
    assert "This would remove 1 container, 1 network, 1 volume" in words
    for name in ("shop-store", "shop-net", "shop-data"):
        assert name in words
    assert f"{RUN_ID} is Booting: it is canceled first" in words
    assert (fake.tried, fake.reaped) == ([RUN_ID], [])


def test_a_removal_says_what_it_removed_and_what_not(reader: Client, fake: FakeEnvironments):
    fake.sandboxes = [samples.zombie()]
    fake.warnings = ["shop-data: volume is in use"]

    words = text_of(reader.post(REAP, headers=FRAGMENT))

    assert fake.reaped == [RUN_ID]
    assert "Removed 1 container, 1 network, 1 volume ." in words
    assert "shop-data: volume is in use" in words
    assert "See what is left" in words


def test_without_scripts_a_removal_is_a_page_with_the_same(reader: Client, fake: FakeEnvironments):
    fake.sandboxes = [samples.zombie()]

    plan = reader.get(REAP)
    result = reader.post(REAP)

    assert "<h1>Remove " in plan.content.decode()
    assert "This would remove 1 container" in text_of(plan)
    assert "Removed 1 container" in text_of(result)


def test_a_refusal_is_said_in_place(reader: Client, fake: FakeEnvironments):
    fake.sandboxes = [samples.zombie()]
    fake.refused = {RUN_ID: ReapInProgress(f"a reap of {RUN_ID} is in progress")}

    fragment = reader.post(REAP, headers=FRAGMENT)
    page = reader.post(REAP)

    assert fragment.status_code == 200
    assert "is in progress" in text_of(fragment)
    assert page.status_code == 409


def test_an_environment_that_is_gone_is_said_to_be(reader: Client, fake: FakeEnvironments):
    assert reader.get(REAP).status_code == 404
    assert "environment not found" in text_of(reader.get(REAP, headers=FRAGMENT))


@pytest.mark.parametrize("given", [{}, {"confirm": "yes"}])
def test_everything_is_removed_only_with_the_word(
    reader: Client, fake: FakeEnvironments, become, given: dict[str, str]
):
    become(is_admin=True)
    fake.sandboxes = [samples.environment()]
    address = REAP_ALL + "everything"

    asked = text_of(reader.get(address, headers=FRAGMENT))
    refused = reader.post(address, given)
    reader.post(address, {"confirm": " everything "})

    assert "Type everything to confirm" in asked
    assert refused.status_code == 400
    assert "nothing was removed" in text_of(refused)
    assert fake.reaped == ["all"]


def test_a_member_cannot_remove_everything(reader: Client, fake: FakeEnvironments):
    fake.refused = {"all": Forbidden("only an administrator may do this")}

    answer = reader.post(REAP_ALL + "everything", {"confirm": "everything"})

    assert answer.status_code == 403
    assert fake.reaped == []


def test_the_zombies_of_a_member_are_removed_one_by_one(
    reader: Client, fake: FakeEnvironments, become
):
    become(Role.RUNNER)
    ids = ["run-aaaaaaaaaaaa", "run-bbbbbbbbbbbb", "run-cccccccccccc"]
    fake.sandboxes = [samples.zombie(sandboxId=each) for each in ids]
    fake.sandboxes.append(samples.environment())
    fake.refused = {ids[1]: ReapInProgress("in progress")}

    words = text_of(reader.post(REAP_ALL + "zombies", headers=FRAGMENT))

    assert fake.reaped == [ids[0], ids[2]]
    assert "Removed 2 containers, 2 networks, 2 volumes ." in words
    assert f"{ids[1]}: in progress" in words


def test_an_administrator_removes_the_zombies_at_once(
    reader: Client, fake: FakeEnvironments, become
):
    become(is_admin=True)
    fake.sandboxes = [samples.zombie()]

    reader.post(REAP_ALL + "zombies", headers=FRAGMENT)

    assert fake.reaped == ["zombies"]


def test_with_nothing_there_the_page_says_what_an_environment_is(
    reader: Client, fake: FakeEnvironments
):
    words = text_of(reader.get("/environments"))

    assert "No environments" in words
    assert "Launch a suite" in words


def test_without_a_runner_the_page_says_how_to_start_one(reader: Client, fake: FakeEnvironments):
    fake.available = False

    words = text_of(reader.get("/environments?status=Zombie"))

    assert "No container runtime answers" in words
    assert "partita run_runner" in words
    assert "No environment matches" not in words


def test_a_filter_that_matches_nothing_says_how_to_go_on(reader: Client, fake: FakeEnvironments):
    fake.sandboxes = [samples.environment()]

    words = text_of(reader.get("/environments?status=Zombie&q=nothing"))

    assert "No environment matches" in words
    assert "Clear the filters" in words


def test_filters_are_kept_where_the_list_is_fetched_again(reader: Client, fake: FakeEnvironments):
    page = reader.get("/environments", {"status": "Zombie", "q": 'a&b"c'}).content.decode()

    (address,) = re.findall(r'data-rows="([^"]+)"', page)
    assert html.unescape(address) == "/environments/rows?status=Zombie&q=a%26b%22c"
    assert reader.get(html.unescape(address)).status_code == 200


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/environments?status=Nope", "status: 'Nope' is none of"),
        ("/environments?q=" + "x" * 201, "q: at most 200"),
        (REAP_ALL + "some", "scope: 'some' is none of everything, zombies"),
    ],
)
def test_what_is_no_filter_is_said(reader: Client, fake: FakeEnvironments, path: str, said: str):
    answer = reader.get(path)

    assert answer.status_code == 400
    assert said in text_of(answer)


def test_a_removal_under_way_is_shown_whoever_asked_for_it(reader: Client, fake: FakeEnvironments):
    fake.sandboxes = [samples.environment()]
    under_way = {
        "id": "1", "scope": "sandbox", "target": RUN_ID, "onlyZombies": False, "state": "sweeping",
        "requestedBy": "Grace Hopper", "marked": 3, "gone": 2, "createdAt": samples.STARTED,
        "warnings": [],
    }  # fmt: skip
    quiet = under_way | {"id": "2", "state": "done", "target": "run-0"}
    stuck = under_way | {"id": "3", "state": "done", "target": "run-1", "warnings": ["in use"]}
    fake.reaps = [under_way, quiet, stuck]

    words = text_of(reader.get("/environments"))

    assert f"Removal of {RUN_ID} : 2 of 3 gone asked for by Grace Hopper" in words
    assert "being removed" in words
    assert "run-0" not in words
    assert "Removal of run-1 : ended asked for by Grace Hopper in use" in words


def test_members_see_and_remove_what_their_workspace_has(reader: Client, become):
    ours, theirs = User.objects.get().workspace_id, uuid.uuid4()
    seen = (
        resource(name="of-ours", run_id="run-000000000001", label={"workspace_id": str(ours)}),
        resource(name="of-theirs", run_id="run-000000000002", label={"workspace_id": str(theirs)}),
        resource("volume", "of-nobody", run_id="", label={"workspace_id": "no id"}),
    )
    record_look(
        RuntimeLook(
            agent_id="runner-1", host_id="h", looked_at=clock.now(), available=True, resources=seen
        )
    )

    become(Role.RUNNER)
    member = text_of(reader.get("/environments"))
    refused = reader.get("/environments/reap?id=run-000000000002")
    plan = text_of(reader.get("/environments/reap?id=run-000000000001"))
    become(is_admin=True)
    administrator = text_of(reader.get("/environments"))

    assert "of-ours" in member
    assert "of-theirs" not in member
    assert "of-nobody" not in member
    assert refused.status_code == 404
    assert "of-theirs" not in text_of(refused)
    assert "This would remove 1 container" in plan
    assert "of-ours" in plan
    for name in ("of-ours", "of-theirs", "of-nobody"):
        assert name in administrator
