"""A store of an earlier release keeps its accounts."""

from __future__ import annotations

import uuid

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from apps.accounts.models import Membership, User

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.store]


@pytest.fixture
def first_release():
    """The models of the first migration; afterwards the store is as it is today again."""
    executor = MigrationExecutor(connection)
    yield executor.migrate([("accounts", "0001_initial")]).apps
    today = MigrationExecutor(connection)
    today.migrate(today.loader.graph.leaf_nodes())


def test_accounts_stay_and_administer_their_workspaces(first_release):
    workspace = first_release.get_model("accounts", "Workspace").objects.create(slug="a", name="A")
    ada = first_release.get_model("accounts", "User").objects.create(
        id=uuid.uuid4(), workspace=workspace, email="ada@example.org", full_name="Ada",
        password="x" * 200, is_admin=True,
    )  # fmt: skip

    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())

    user = User.objects.get(pk=ada.pk)
    assert (user.email, user.password, user.is_admin) == ("ada@example.org", "x" * 200, True)
    assert (user.last_login, user.is_staff) == (None, True)
    membership = Membership.objects.get(user=user)
    assert (membership.role, membership.workspace_id) == ("admin", workspace.pk)
