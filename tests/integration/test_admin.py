"""The admin: administrators look at every row, and act through use cases that ask first."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import timedelta
from html import unescape
from pathlib import Path

import pytest
from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.test import Client
from django.urls import reverse

from apps.accounts.models import CiSession, Membership, UiSession, User
from apps.accounts.services.administrators import ensure_seed_admin
from apps.accounts.services.sign_up import sign_up
from apps.agents import api as agents
from apps.agents.api import Registration, register
from apps.agents.models import Agent
from apps.executions.models import Execution, Step
from apps.operations.models import AuditRecord
from kernel import clock
from kernel.ids import new_uuid
from platform_site import admin_urls
from sync_stack.orchestrator.models import Drift, LedgerTarget, Task
from tests.apps.executions.runs import booted_run, node
from tests.architecture.test_public_routes import routes
from tests.support.processes import ROOT

PASSWORD = "Correct-Horse-1"
ADMINISTRATOR = "Administrator (root@example.org)"
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.store]
assert admin_urls.urlpatterns  # the admin modules are imported


@pytest.fixture(autouse=True)
def _no_content_types_of_a_store_that_was_emptied() -> None:
    ContentType.objects.clear_cache()


def browser(email: str) -> Client:
    client = Client()
    answer = client.post("/sign-in", {"email": email, "password": PASSWORD})
    assert answer.status_code == 302, answer.content
    return client


@pytest.fixture
def ada() -> User:
    return sign_up(full_name="Ada", email="ada@example.org", password=PASSWORD)


@pytest.fixture
def root(ada: User) -> Client:
    ensure_seed_admin("root@example.org", PASSWORD)
    return browser("root@example.org")


@pytest.fixture
def agent(db: None) -> Agent:
    register(Registration(agent_id="edge-1", incarnation="one", kind="worker", backends=("edge",)))
    return Agent.objects.get()


def act(client: Client, path: str, action: str, row: object, **more: str):
    form = {"action": action, ACTION_CHECKBOX_NAME: str(row)} | more
    return client.post(path, form)


def test_every_list_and_every_row_opens(root: Client, agent: Agent):
    booted_run(node("a"))
    for model in admin.site._registry:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        found = root.get(reverse(f"{name}_changelist"), {"q": "a"})
        assert found.status_code == 200, (name, found.content[:300])
        for row in model._default_manager.all()[:3]:
            answer = root.get(reverse(f"{name}_change", args=[row.pk]))
            assert answer.status_code == 200, name
            assert 'name="_save"' not in answer.content.decode(), name
            assert root.post(reverse(f"{name}_change", args=[row.pk]), {}).status_code == 403, name
            assert root.post(reverse(f"{name}_delete", args=[row.pk]), {}).status_code == 403, name
        expected = 200 if model is User else 403
        assert root.get(reverse(f"{name}_add")).status_code == expected, name


def linked(page: str) -> set[str]:
    """The addresses of the links to rows that belong to a row."""
    in_a_list = r'class="field-related_links">(.*?)</td>'
    found = re.findall(rf'{in_a_list}|class="readonly">(<a .*?)</div>', page)
    cells = "".join("".join(each) for each in found)
    return {unescape(url) for url in re.findall(r'href="([^"]+)"', cells)}


@pytest.fixture
def rows_of_every_kind(ada: User, root: Client, agent: Agent) -> None:
    """Rows that name one another, of the tables that have links."""
    run = booted_run(node("a"))
    principal = {"workspace_id": ada.workspace_id, "owner_id": ada.pk}
    Execution.objects.filter(run_id=run.id).update(**principal, bound_agent_id="edge-1")
    Step.objects.update(agent_id="edge-1", status="running", job_state="running")
    who = {"user_id": str(ada.pk), "workspace_id": str(ada.workspace_id), "agent_id": "edge-1"}
    now = clock.now()
    AuditRecord.objects.create(time=now, method="GET", path="/", status=200, duration_ms=1, **who)
    place = {"rule_id": "shop", "repo": "acme/shop", "env": "production"}
    first = Task.objects.create(
        id="1", kind="webhook", state="FAILED", idempotency_key="a", created_at=now,
        facets="\nrule:shop\nrepo:acme/shop\n",
    )  # fmt: skip
    target = LedgerTarget.objects.create(
        id="2", last_task_id=first.id, content=b"", status="drifted", **place
    )
    drift = Drift.objects.create(
        id="3", unit_id=target.id, state="open", first_seen_at=now, last_seen_at=now,
        heal={"last_task_id": "4"}, **place,
    )  # fmt: skip
    Task.objects.create(
        id="4", kind="heal", state="PENDING", idempotency_key="b", created_at=now,
        retry_of=first.id, delivery_id=drift.id,
    )  # fmt: skip


@pytest.mark.usefixtures("rows_of_every_kind")
def test_links_lead_to_the_rows_that_belong_together(root: Client, ada: User):
    run, target = Execution.objects.get(), LedgerTarget.objects.get()
    expected = {
        run: ["step/?execution__id__exact=", "topic/?q=", "workspace/", "user/", "agent/?agent_"],
        Step.objects.get(): ["execution/", "agent/?agent_id=edge-1"],
        Agent.objects.get(): ["step/?agent_id=edge-1&job_state=running"],
        target: ["task/?q=rule%3Ashop+repo%3Aacme%2Fshop", "task/1/", "drift/?unit_id=2"],
        Drift.objects.get(): ["ledgertarget/2/", "task/4/"],
        Task.objects.get(id="1"): ["ledgertarget/?last_task_id=1"],
        Task.objects.get(id="4"): ["task/1/", "drift/3/"],
        ada: ["membership/?user__id__exact=", "execution/?owner_id=", "auditrecord/?user_id="],
        ada.workspace: ["membership/?workspace__id__exact=", "execution/?workspace_id="],
        AuditRecord.objects.get(agent_id="edge-1"): ["user/", "workspace/", "agent/?agent_id="],
    }
    for row, parts in expected.items():
        name = f"admin:{row._meta.app_label}_{row._meta.model_name}"
        urls = linked(root.get(reverse(f"{name}_change", args=[row.pk])).content.decode())
        for part in parts:
            (url,) = [url for url in urls if re.search(f"/{re.escape(part)}", url)]
            answer = root.get(url)
            assert answer.status_code == 200, (row, url)
            if changelist := (answer.context or {}).get("cl"):
                assert changelist.result_count > 0, (row, url)
        assert {root.get(url).status_code for url in urls} == {200}, row
        listed = root.get(reverse(f"{name}_changelist")).content.decode()
        is_in_list = "related_links" in admin.site._registry[type(row)].list_display
        assert linked(listed) == (urls if is_in_list else set()), row


@pytest.mark.usefixtures("rows_of_every_kind")
@pytest.mark.parametrize(
    ("path", "state"),
    [
        ("executions/execution/", "Booting"),
        ("executions/step/", "running"),
        ("agents/agent/", "online"),
        ("sync/task/", "FAILED"),
        ("sync/ledgertarget/", "drifted"),
        ("sync/drift/", "open"),
    ],
)
def test_lists_show_states_in_colors(root: Client, path: str, state: str):
    page = root.get(f"/admin/{path}").content.decode()

    assert f'<span class="state" data-state="{state.lower()}">{state}</span>' in page
    assert f'[data-state="{state.lower()}"]' in (ROOT / "static/console/css/admin.css").read_text()


def test_no_page_shows_a_hash_of_a_credential(root: Client, agent: Agent):
    user = User.objects.get(email="root@example.org")
    session = UiSession.objects.get(user=user)

    for name, row in (("user", user), ("uisession", session)):
        page = root.get(reverse(f"admin:accounts_{name}_change", args=[row.pk])).content.decode()
        for secret in (user.password, session.key_hash, session.data):
            assert secret not in page


def test_strangers_sign_in_first_and_members_are_refused(ada: User):
    stranger = Client().get("/admin/accounts/user/")
    assert stranger.status_code == 302
    assert stranger["Location"].startswith("/admin/login/")
    assert Client().get(stranger["Location"])["Location"].startswith("/sign-in?next=")
    member = browser("ada@example.org")

    refused = member.get("/admin/accounts/user/", follow=True)

    assert refused.status_code == 403
    assert "root@" not in refused.content.decode()


def test_every_path_is_for_administrators(ada: User, root: Client):
    """Also for members of whatever role: theirs counts in a workspace."""
    member = browser("ada@example.org")
    paths = [
        "/" + re.sub(r"{}", str(ada.pk), route)
        for route in routes()
        if route.startswith("admin/") and route != "admin/login/"
    ]
    assert len(paths) > 50

    for path in paths:
        for client in (Client(), member):
            for answer in (client.get(path), client.post(path, {})):
                assert answer.status_code == 302, path
                assert answer["Location"].startswith("/admin/"), path
    assert root.get("/admin/password_change/").status_code == 404


def test_strangers_cannot_sign_in_at_the_admin_and_guesses_are_locked_out(root: Client):
    right = {"username": "root@example.org", "email": "root@example.org", "password": PASSWORD}
    stranger = Client(REMOTE_ADDR="203.0.113.77")
    assert stranger.post("/admin/login/?next=/admin/", right)["Location"].startswith("/sign-in?")
    assert "partita_session" not in stranger.cookies

    page = "/sign-in?next=/admin/"
    guesses = [stranger.post(page, right | {"password": f"Guess-{n}x"}) for n in range(10)]

    assert {guess.status_code for guess in guesses} == {401}
    assert stranger.post(page, right).status_code == 429
    assert stranger.get("/admin/").status_code == 302
    assert root.get("/admin/").status_code == 200, "who is signed in is not locked out"


def test_what_an_administrator_does_is_in_the_audit_trail(root: Client, ada: User, caplog):
    with caplog.at_level("INFO", logger="partita.audit"):
        act(root, "/admin/accounts/user/", "disable", ada.pk, confirmed="yes")

    record = json.loads(caplog.records[-1].getMessage())
    assert (record["method"], record["path"]) == ("POST", "/admin/accounts/user/")
    assert record["userId"] == str(User.objects.get(email="root@example.org").pk)


def test_an_account_is_disabled_after_a_question_and_signed_out_everywhere(root: Client, ada: User):
    member = browser("ada@example.org")
    path = "/admin/accounts/user/"

    asked = act(root, path, "disable", ada.pk)
    assert "Disable these accounts?" in asked.content.decode()
    assert User.objects.get(pk=ada.pk).is_active

    act(root, path, "disable", ada.pk, confirmed="yes")

    assert not User.objects.get(pk=ada.pk).is_active
    assert member.get("/").status_code == 302
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.get_change_message()) == (str(ada.pk), "disabled")
    act(root, path, "enable", ada.pk, confirmed="yes")
    assert User.objects.get(pk=ada.pk).is_active


def test_nobody_disables_themselves(root: Client):
    me = User.objects.get(email="root@example.org")

    answer = act(root, "/admin/accounts/user/", "disable", me.pk, confirmed="yes")

    assert User.objects.get(pk=me.pk).is_active
    assert "another administrator" in root.get(answer["Location"]).content.decode()


def test_everybody_can_be_signed_out_everywhere(root: Client, ada: User):
    member = browser("ada@example.org")

    act(root, "/admin/accounts/user/", "sign_out_everywhere", ada.pk, confirmed="yes")

    assert not UiSession.objects.filter(user=ada).exists()
    assert member.get("/").status_code == 302


def test_a_run_is_canceled(root: Client):
    run = booted_run(node("a"))
    row = Execution.objects.get(run_id=run.id)

    act(root, "/admin/executions/execution/", "cancel", row.pk, confirmed="yes")

    row.refresh_from_db()
    assert row.status in ("Canceling", "Canceled")
    assert (row.cancel_reason, row.canceled_by) == ("", ADMINISTRATOR)


def test_an_agent_is_removed(root: Client, agent: Agent):
    act(root, "/admin/agents/agent/", "remove", agent.pk, confirmed="yes")

    agent.refresh_from_db()
    assert agent.removed_at is not None
    assert agent.token_sha256 == ""


def test_an_agent_is_drained_after_a_question_and_resumed(root: Client, agent: Agent):
    path = "/admin/agents/agent/"

    asked = act(root, path, "drain", agent.pk)
    assert "Drain these agents?" in asked.content.decode()
    assert not agents.is_draining("edge-1")

    act(root, path, "drain", agent.pk, confirmed="yes")
    assert agents.is_draining("edge-1")

    act(root, path, "resume", agent.pk, confirmed="yes")
    assert not agents.is_draining("edge-1")
    history = LogEntry.objects.order_by("action_time")
    assert [each.get_change_message() for each in history] == ["draining", "resumed"]
    assert {each.object_repr for each in history} == {"edge-1"}


def test_a_removed_agent_cannot_be_drained(root: Client, agent: Agent):
    act(root, "/admin/agents/agent/", "remove", agent.pk, confirmed="yes")

    answer = act(root, "/admin/agents/agent/", "drain", agent.pk, confirmed="yes")

    assert "there is no agent with that id" in root.get(answer["Location"]).content.decode()


def test_actions_need_the_token_of_their_form(root: Client, ada: User):
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = root.cookies

    act(strict, "/admin/accounts/user/", "disable", ada.pk, confirmed="yes")

    assert User.objects.get(pk=ada.pk).is_active


def test_the_pages_keep_the_content_policy(root: Client):
    page = root.get("/admin/")

    assert "script-src 'self'" in page["Content-Security-Policy"]
    assert "'unsafe-inline'" not in page["Content-Security-Policy"]
    assert "<script>" not in page.content.decode()
    assert " style=" not in page.content.decode()


USERS = "/admin/accounts/user/"


def test_an_account_is_added_and_its_user_sets_the_password(root: Client, mailoutbox: list[object]):
    answer = root.post(f"{USERS}add/", {"email": " Finn@Example.org ", "full_name": "Finn"})

    assert answer.status_code == 302, answer.content.decode()
    finn = User.objects.get(email="finn@example.org")
    assert (finn.full_name, finn.is_admin, finn.workspace.name) == (
        "Finn",
        False,
        "Finn's workspace",
    )
    assert not finn.has_usable_password()
    link = link_shown(root, answer["Location"])
    token = link.partition("token=")[2]
    chosen = {"token": token, "password": PASSWORD, "again": PASSWORD}
    assert Client().post("/reset-password", chosen).status_code == 200
    assert browser("finn@example.org").get("/").status_code == 200


def link_shown(client: Client, path: str) -> str:
    """The link to set a password that the page shows; no log has it."""
    page = unescape(client.get(path).content.decode())
    [link] = re.findall(r"http\S+/reset-password\?token=[\w-]+", page)
    assert "token" not in "".join(entry.change_message for entry in LogEntry.objects.all())
    return str(link)


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"email": "ada@example.org", "full_name": "Ada"}, "already exists"),
        ({"email": "nobody", "full_name": "N"}, "must be an email address"),
        ({"email": "n@example.org", "full_name": "a\u0007b"}, "printable characters"),
    ],
)
def test_a_wrong_account_is_refused_beside_its_field(root: Client, form: dict[str, str], said: str):
    answer = root.post(f"{USERS}add/", form)

    assert answer.status_code == 200
    assert said in answer.content.decode()
    assert User.objects.count() == 2


def test_a_link_to_set_a_password_is_shown_where_no_mail_is_sent(root: Client, ada: User):
    answer = act(root, USERS, "send_reset_link", ada.pk, confirmed="yes")

    assert link_shown(root, answer["Location"]).startswith("http")
    assert "handed over" in LogEntry.objects.get().get_change_message()


def test_an_administrator_is_made_and_withdrawn(root: Client, ada: User):
    member = browser("ada@example.org")
    assert member.get("/admin/", follow=True).status_code == 403

    asked = act(root, USERS, "make_administrator", ada.pk)
    assert "They can see and change everything." in asked.content.decode()
    assert not User.objects.get(pk=ada.pk).is_admin
    act(root, USERS, "make_administrator", ada.pk, confirmed="yes")
    assert member.get("/admin/", follow=True).status_code == 200

    act(root, USERS, "withdraw_administrator", ada.pk, confirmed="yes")
    assert member.get("/admin/", follow=True).status_code == 403


def test_nobody_withdraws_their_own_rights(root: Client):
    me = User.objects.get(email="root@example.org")

    answer = act(root, USERS, "withdraw_administrator", me.pk, confirmed="yes")

    assert User.objects.get(pk=me.pk).is_admin
    assert "another administrator" in root.get(answer["Location"]).content.decode()


def test_a_member_is_removed_from_a_workspace(root: Client, ada: User):
    me = User.objects.get(email="root@example.org")
    membership = Membership.objects.create(user=me, workspace=ada.workspace, role="runner")
    path = "/admin/accounts/membership/"

    asked = act(root, path, "remove_from_workspace", membership.pk)
    assert "root@example.org in ada" in asked.content.decode()
    act(root, path, "remove_from_workspace", membership.pk, confirmed="yes")

    assert not Membership.objects.filter(pk=membership.pk).exists()


def test_the_last_administrator_of_a_workspace_stays(root: Client, ada: User):
    membership = Membership.objects.get(user=ada)
    path = "/admin/accounts/membership/"

    answer = act(root, path, "remove_from_workspace", membership.pk, confirmed="yes")

    assert Membership.objects.filter(pk=membership.pk).exists()
    assert "only administrator" in root.get(answer["Location"]).content.decode()


def test_a_list_of_workspaces_counts_members(root: Client, ada: User):
    page = root.get("/admin/accounts/workspace/").content.decode()

    assert page.count('<td class="field-members">1</td>') == 2


def test_messages_keep_the_case_of_ids(root: Client, ada: User):
    answer = act(root, USERS, "disable", ada.pk, confirmed="yes")

    assert ">ada@example.org: disabled<" in root.get(answer["Location"]).content.decode()


WALK = """
import django
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
from django.contrib import admin
from django.test import Client
from django.urls import reverse
from apps.accounts.services.administrators import ensure_seed_admin
from platform_site import admin_urls
ensure_seed_admin("root@example.org", "Correct-Horse-1")
client = Client()
client.post("/sign-in", {"email": "root@example.org", "password": "Correct-Horse-1"})
print("index", client.get("/admin/").status_code)
for model in admin.site._registry:
    name = f"{model._meta.app_label}_{model._meta.model_name}"
    print(name, client.get(reverse(f"admin:{name}_changelist")).status_code)
"""


def test_every_list_opens_with_every_optional_app(tmp_path: Path):
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "platform_site.settings.test",
        "SQLITE_PATH": str(tmp_path / "store.sqlite3"),
        "SOCIAL_PROVIDERS": "github,google",
        **{
            f"SOCIAL_{provider}_{part}": "x"
            for provider in ("GITHUB", "GOOGLE")
            for part in ("CLIENT_ID", "CLIENT_SECRET")
        },
    }
    done = subprocess.run(
        [sys.executable, "-c", WALK],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    opened = dict(line.split() for line in done.stdout.splitlines())
    assert len(opened) > 15
    assert set(opened.values()) == {"200"}, opened
    assert not [name for name in opened if name.startswith(("account_", "socialaccount_"))]


def test_the_session_of_a_ci_job_is_ended_and_shows_no_hash(root: Client, ada: User):
    later = clock.now() + timedelta(hours=1)
    row = CiSession.objects.create(
        workspace=ada.workspace,
        owner_id=new_uuid(),
        token_hash="1" * 64,
        job_token_hash="2" * 64,
        rule_name="shop",
        rule_digest="3" * 64,
        job="github: acme/shop@refs/heads/main by workflow CI",
        role="runner",
        expires_at=later,
        kept_until=later,
    )
    path = reverse("admin:accounts_cisession_changelist")

    shown = root.get(reverse("admin:accounts_cisession_change", args=[row.pk])).content.decode()
    act(root, path, "end_sessions", row.pk)
    assert CiSession.objects.get().ended_at is None
    act(root, path, "end_sessions", row.pk, confirmed="yes")

    assert "github: acme/shop" in shown
    assert not any(digit * 64 in shown for digit in "123")
    assert CiSession.objects.get().ended_at is not None
