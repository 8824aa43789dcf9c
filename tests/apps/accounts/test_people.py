"""The first administrator, workspaces, whose things one sees, and what is cleared away."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import ProgrammingError

from apps.accounts import lifespan
from apps.accounts.api import visible_workspaces
from apps.accounts.domain.errors import EmailTaken, Forbidden
from apps.accounts.lifespan import AccountsPart, purge_expired
from apps.accounts.models import (
    LimitHit,
    RefreshFamily,
    RefreshToken,
    RevokedToken,
    StreamTicket,
    UiSession,
    User,
    Workspace,
)
from apps.accounts.services.administrators import disable, ensure_seed_admin
from apps.accounts.services.sign_up import sign_up
from apps.accounts.services.tickets import issue_ticket
from apps.accounts.services.token_pairs import issue_tokens
from apps.streams.api import unit_of_work
from kernel.clock import now
from kernel.errors import InvalidInput
from tests.apps.accounts.conftest import PASSWORD, Api
from tests.apps.accounts.test_tokens import principal_of_token
from tests.support.api_clients import problem
from tests.support.threads import at_once


def test_the_first_administrator_is_made_once(settings):
    settings.ADMIN_EMAIL, settings.ADMIN_PASSWORD = " Root@Example.org ", "weak"

    assert ensure_seed_admin()
    assert not ensure_seed_admin()

    root = User.objects.get()
    assert (root.email, root.full_name, root.is_admin) == (
        "root@example.org",
        "Administrator",
        True,
    )
    assert root.workspace.name == "Admin workspace"


def test_an_existing_account_is_never_changed(ada_row, settings):
    settings.ADMIN_EMAIL, settings.ADMIN_PASSWORD = "ada@example.org", "another-password"
    before = User.objects.values().get()

    assert not ensure_seed_admin()

    assert User.objects.values().get() == before
    answer = Api().auth("sign-in", {"email": "ada@example.org", "password": PASSWORD})
    assert answer.json()["user"]["isAdmin"] is False


def test_the_first_administrator_may_have_any_name_to_sign_in_with():
    ensure_seed_admin("admin@localhost", "swordfish")

    answer = Api().auth("sign-in", {"email": "Admin@localhost", "password": "swordfish"})

    assert answer.json()["user"]["isAdmin"] is True


@pytest.mark.parametrize(("email", "password"), [("", "x"), ("root@example.org", "")])
def test_without_mail_or_password_nobody_is_made(email, password):
    assert not ensure_seed_admin(email, password)
    assert not User.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_the_server_makes_the_first_administrator_when_it_starts(settings):
    settings.ADMIN_EMAIL, settings.ADMIN_PASSWORD = "root@example.org", "swordfish"

    async def start_and_stop() -> None:
        part = AccountsPart()
        await part.start()
        await part.stop()

    asyncio.run(start_and_stop())

    assert User.objects.get().is_admin


@pytest.mark.django_db(transaction=True)
def test_a_server_that_started_before_the_tables_makes_the_administrator_soon_after(
    settings, monkeypatch
):
    settings.ADMIN_EMAIL, settings.ADMIN_PASSWORD = "root@example.org", "swordfish"
    seed, answers = lifespan._seed_and_purge, [ProgrammingError("no such table"), None]
    seeded = threading.Event()

    def seed_once_there_are_tables() -> None:
        if error := answers.pop(0):
            raise error
        seed()
        seeded.set()

    monkeypatch.setattr(lifespan, "_AGAIN_S", 0.01)
    monkeypatch.setattr(lifespan, "_seed_and_purge", seed_once_there_are_tables)

    async def start_and_stop() -> None:
        part = AccountsPart()
        await part.start()
        assert await asyncio.to_thread(seeded.wait, 30)
        await part.stop()

    asyncio.run(start_and_stop())

    assert User.objects.get().is_admin


@pytest.mark.parametrize(
    ("full_name", "name", "slug"),
    [
        ("Ada Lovelace", "Ada's workspace", "ada-lovelace"),
        ("  Ada  ", "Ada's workspace", "ada"),
        ("李 小龍", "李's workspace", "workspace"),
    ],
)
def test_a_workspace_is_called_after_its_first_user(full_name, name, slug):
    user = sign_up(full_name=full_name, email="a@b.org", password=PASSWORD)

    assert (user.workspace.name, user.workspace.slug) == (name, slug)


@pytest.mark.store
@pytest.mark.django_db(transaction=True)
def test_of_two_sign_ups_at_once_with_one_mail_one_succeeds():
    def attempt() -> str:
        try:
            sign_up(full_name="Ada", email="ada@example.org", password=PASSWORD)
        except EmailTaken:
            return "taken"
        return "made"

    assert sorted(at_once([attempt] * 4)) == ["made", "taken", "taken", "taken"]
    assert Workspace.objects.count() == 1


@pytest.mark.store
@pytest.mark.django_db(transaction=True)
def test_of_two_refreshes_at_once_one_succeeds_and_the_family_ends():
    user = sign_up(full_name="Ada", email="ada@example.org", password=PASSWORD)
    pair = issue_tokens(user)

    def attempt() -> Any:
        return Api().auth("refresh", {"refreshToken": pair.refresh_token})

    answers = at_once([attempt] * 4)

    assert sorted(answer.status_code for answer in answers) == [200, 401, 401, 401]
    winner = next(answer.json() for answer in answers if answer.status_code == 200)
    assert problem(Api(token=winner["token"]).me()) == (401, "token_revoked")


def test_a_member_sees_its_workspace_only(ada, ada_row):
    """Invariant 16."""
    member = principal_of_token(ada.token, ada_row)
    other = Workspace.objects.create(slug="other", name="Other")

    assert visible_workspaces(member) == frozenset({ada_row.workspace_id})
    assert visible_workspaces(member, str(ada_row.workspace_id)) == frozenset(
        {ada_row.workspace_id}
    )
    assert visible_workspaces(member, str(other.id)) == frozenset()


def test_an_administrator_sees_all_or_the_one_asked_for(admin):
    root = User.objects.get()
    principal = principal_of_token(admin.token, root)
    other = Workspace.objects.create(slug="other", name="Other")

    assert visible_workspaces(principal) is None
    assert visible_workspaces(principal, str(other.id)) == frozenset({other.id})
    with pytest.raises(InvalidInput) as caught:
        visible_workspaces(principal, "all")
    assert caught.value.problem_code == "invalid_parameter"


def test_one_user_never_sees_another(ada, api):
    """Invariant 16."""
    bob = api.auth(
        "sign-up", {"fullName": "Bob", "email": "bob@example.org", "password": PASSWORD}
    ).json()

    shown = Api(token=bob["token"]).me()

    told = shown.content.decode().lower()
    assert "ada@" not in told
    assert "lovelace" not in told
    assert shown.json()["workspace"]["workspaceId"] != ada.me().json()["workspace"]["workspaceId"]


def test_what_ended_is_cleared_away(ada, ada_row, browser):
    """Invariant 38."""
    issue_ticket(principal_of_token(ada.token, ada_row))
    ada.auth("sign-out")
    past = now() - timedelta(days=2)
    for model in (LimitHit, RefreshFamily, RevokedToken, StreamTicket, UiSession):
        assert model.objects.update(expires_at=past)

    purge_expired()

    for emptied in (LimitHit, RefreshFamily, RefreshToken, RevokedToken, StreamTicket, UiSession):
        assert not emptied.objects.exists()
    assert User.objects.filter(pk=ada_row.pk).exists()


def test_what_still_counts_is_kept(ada, browser):
    ada.auth("stream-tickets")

    purge_expired()

    assert ada.me().status_code == 200
    assert browser.get("/api/v1/auth/me").status_code == 200
    assert StreamTicket.objects.exists()


def test_createsuperuser_of_django_makes_an_administrator_who_can_sign_in(monkeypatch):
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", PASSWORD)
    for number in (1, 2):
        email = f"root{number}@example.org"
        call_command("createsuperuser", "--noinput", email=email, full_name="Root", verbosity=0)
        answer = Api(address=f"203.0.113.{number}").auth(
            "sign-in", {"email": email, "password": PASSWORD}
        )
        assert answer.status_code == 200, answer.content
        assert answer.json()["user"]["isAdmin"] is True
        assert Api(token=answer.json()["token"]).me().json()["role"] == "admin"
    assert set(Workspace.objects.values_list("name", flat=True)) == {"Root's workspace"}


@pytest.mark.django_db(transaction=True)
@pytest.mark.store
def test_of_two_administrators_who_disable_each_other_at_once_one_stays():
    for name in ("ada", "bob"):
        sign_up(full_name=name, email=f"{name}@example.org", password=PASSWORD)
    User.objects.update(is_admin=True)
    ada, bob = User.objects.order_by("email").values_list("pk", flat=True)

    has_written = threading.Event()

    @unit_of_work
    def first() -> str:
        disable(ada, by=bob)
        has_written.set()
        time.sleep(0.3)  # not committed yet: the other one begins meanwhile
        return "done"

    def second() -> str:
        assert has_written.wait(30)
        try:
            disable(bob, by=ada)
        except Forbidden as error:
            return error.problem_code
        return "done"

    assert at_once([first, second]) == ["done", "account_disabled"]
    assert User.objects.filter(is_active=True).count() == 1


def test_a_workspace_that_is_no_uuid_is_named_by_a_pointer(ada, ada_row):
    with pytest.raises(InvalidInput) as caught:
        visible_workspaces(principal_of_token(ada.token, ada_row), "mine")

    (fault,) = caught.value.errors
    assert (caught.value.problem_code, fault.pointer) == ("invalid_parameter", "/workspaceId")
