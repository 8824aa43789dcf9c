"""The pages of the platform settings: who sees what, saves, conflicts, tests of connections."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from apps.accounts.api import operator
from apps.accounts.models import User
from apps.accounts.services.administrators import ensure_seed_admin
from apps.console.domain.settings_sections import SECTIONS
from apps.console.forms.settings import apply_entry_action
from apps.platform_settings.api import get_registry, replace_settings, settings_document
from apps.platform_settings.domain.keys import GROUPS
from apps.platform_settings.models import PlatformSettings
from tests.apps.platform_settings.documents import PASSWORD, SECRETS, document


@pytest.fixture(autouse=True)
def _stored(settings: Any, tmp_path: Path, db: None) -> None:
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "configuration.yaml"
    ensure_seed_admin("root@example.org", PASSWORD)
    replace_settings(operator(), document())


@pytest.fixture
def admin() -> Client:
    client = Client()
    facts = {"email": "root@example.org", "password": PASSWORD}
    assert client.post("/sign-in", facts).status_code == 302
    return client


@pytest.fixture
def viewer() -> Client:
    client = Client()
    facts = {"fullName": "Ada", "email": "ada@example.org", "password": PASSWORD}
    assert client.post("/sign-up", facts).status_code == 302
    return client


def form_of(client: Client, section: str) -> dict[str, str]:
    """Return what a browser would send of the main form, unchanged."""
    page = client.get(f"/settings/{section}").content.decode()
    return fields_of(page)


def fields_of(page: str) -> dict[str, str]:
    form = page[page.index('class="settings-form"') : page.index('class="settings-save"')]
    made: dict[str, str] = {}
    for tag in re.finditer(r"<input\b[^>]*>", form):
        facts = dict(re.findall(r'([\w-]+)="([^"]*)"', tag[0]))
        if facts.get("type") == "checkbox":
            if " checked" in tag[0]:
                made[facts["name"]] = "on"
        elif "name" in facts:
            made[facts["name"]] = facts.get("value", "")
    for name, options in _elements("select", form):
        chosen = re.search(r'value="([^"]*)" selected', options)
        made[name] = chosen[1] if chosen else ""
    texts = dict(_elements("textarea", form))
    made |= {name: text.removeprefix("\n") for name, text in texts.items()}  # as browsers do
    return {name: html.unescape(value) for name, value in made.items()}


def _elements(tag: str, form: str) -> list[tuple[str, str]]:
    return re.findall(rf'<{tag}\b[^>]*name="([^"]+)"[^>]*>(.*?)</{tag}>', form, re.DOTALL)


@pytest.mark.parametrize("section", SECTIONS)
def test_saving_an_untouched_form_changes_nothing(admin: Client, section: str) -> None:
    before = settings_document(operator())

    answer = admin.post(f"/settings/{section}", form_of(admin, section))

    assert (answer.status_code, answer["Location"]) == (303, f"/settings/{section}?saved=1")
    assert settings_document(operator()) == before
    assert "Saved." in admin.get(answer["Location"]).content.decode()


@pytest.mark.parametrize("section", SECTIONS)
def test_others_read_masked_values_and_why_they_cannot_edit(
    admin: Client, viewer: Client, section: str
) -> None:
    """Invariant 19."""
    shown, own = (each.get(f"/settings/{section}").content.decode() for each in (viewer, admin))

    assert "Only an administrator of the installation" in shown
    assert "settings-form" not in shown
    assert "Only an administrator" not in own
    assert not [secret for secret in SECRETS if secret in shown + own]
    for private in ("/etc/kube", "vault:8200", "ann", "root@example.org"):
        assert private not in shown
    assert viewer.post(f"/settings/{section}", {"do": "save"}).status_code == 403
    for path in ("/settings/check", "/settings/sync"):
        assert viewer.post(path, {"what": "registry", "name": "zot"}).status_code == 403


def test_every_key_that_can_be_set_is_on_one_page():
    on_pages = [
        (group.keys.path, name)
        for section in SECTIONS.values()
        for group in section.groups
        for name in group.fields
    ]

    assert sorted(on_pages) == sorted(
        (group.path, key.name) for group in GROUPS for key in group.settable
    )


def test_a_secret_is_replaced_kept_and_cleared(admin: Client) -> None:
    form = form_of(admin, "registries")
    assert form["registries-0-secret"] == ""
    admin.post("/settings/registries", {**form, "registries-0-secret": "new-word"})
    replaced = get_registry("zot").secret
    form = form_of(admin, "registries")
    admin.post("/settings/registries", {**form, "registries-0-name": "Zot here"})
    kept = get_registry("zot")
    form = form_of(admin, "registries")
    admin.post("/settings/registries", {**form, "registries-0-secret-clear": "on"})

    assert (replaced, kept.secret, kept.name) == ("new-word", "new-word", "Zot here")
    assert get_registry("zot").secret == ""


def test_an_error_stands_beside_its_field_and_the_input_stays(admin: Client) -> None:
    form = form_of(admin, "registries") | {"registries-0-registryUrl": "ftp://zot"}

    answer = admin.post("/settings/registries", form)
    page = answer.content.decode()

    assert answer.status_code == 400
    assert 'value="ftp://zot" autocomplete="off"' in page
    note = page[page.index('id="registries-0-registryUrl-note"') :][:200]
    assert "must be an http or https address" in note
    assert 'aria-invalid="true"' in page


def test_a_conflict_shows_what_the_other_changed_and_keeps_the_input(admin: Client) -> None:
    form = form_of(admin, "general") | {"top-description": "mine"}
    body = settings_document(operator())
    replace_settings(operator(), {**body, "mode": "remote"})

    answer = admin.post("/settings/general", form)
    page = answer.content.decode()

    assert answer.status_code == 412
    alert = page[page.index('role="alert"') : page.index('id="file-title"')]
    assert "Administrator &lt;root@example.org&gt;" in alert
    assert "<code>mode</code>: hybrid → remote" in alert
    again = fields_of(page)
    assert again["top-description"] == "mine"
    assert admin.post("/settings/general", again).status_code == 303
    assert settings_document(operator())["description"] == "mine"


def test_entries_are_added_moved_and_removed_without_a_script(admin: Client) -> None:
    form = form_of(admin, "backends")
    page = admin.post("/settings/backends", {**form, "do": "down-0"}).content.decode()
    assert "Not saved yet" in page
    moved = fields_of(page)
    page = admin.post("/settings/backends", {**moved, "do": "add"}).content.decode()
    added = fields_of(page) | {"agents-2-agentId": "new", "agents-2-name": "New"}
    assert [each["agentId"] for each in settings_document(operator())["agents"]] == [
        "local",
        "edge",
    ]
    admin.post("/settings/backends", {**added, "do": "save"})

    agents = settings_document(operator())["agents"]
    assert [each["agentId"] for each in agents] == ["edge", "local", "new"]
    assert agents[2]["enabled"] is True
    form = form_of(admin, "backends")
    removed = fields_of(
        admin.post("/settings/backends", {**form, "do": "remove-0"}).content.decode()
    )
    admin.post("/settings/backends", removed)
    assert [each["agentId"] for each in settings_document(operator())["agents"]] == ["local", "new"]


@pytest.mark.parametrize(
    "action", ["up-0", "down-9", "remove-x", "remove-", "remove-²", "nonsense", "down-1"]
)
def test_an_action_that_means_nothing_changes_nothing(action: str) -> None:
    assert apply_entry_action(["a", "b"], action) == ["a", "b"]


@pytest.mark.parametrize("count", ["", "²", "501", "9" * 5_000])
def test_a_form_without_a_count_of_entries_removes_none(admin: Client, count: str) -> None:
    """Invariant 33."""
    form = form_of(admin, "registries") | {"registries-count": count}

    assert admin.post("/settings/registries", form).status_code == 400
    assert get_registry("zot").secret == SECRETS[0]


def test_shares_of_a_workspace_are_added_on_the_page(admin: Client) -> None:
    team = str(User.objects.get(email="root@example.org").workspace_id)
    form = {**form_of(admin, "workspaces"), "do": "add"}
    added = fields_of(admin.post("/settings/workspaces", form).content.decode())
    given = added | {
        "workspaces-0-workspaceId": team,
        "workspaces-0-weight": "3",
        "workspaces-0-maxConcurrentSteps": "5",
    }

    answer = admin.post("/settings/workspaces", {**given, "do": "save"})

    assert answer.status_code == 303
    (share,) = settings_document(operator())["workspaces"]
    assert (share["workspaceId"], share["weight"], share["maxConcurrentSteps"]) == (team, 3, 5)


def test_a_list_that_is_hidden_from_the_reader_is_not_called_empty(
    admin: Client, viewer: Client
) -> None:
    assert "No CI job is trusted." in admin.get("/settings/ci").content.decode()
    page = viewer.get("/settings/ci").content.decode()
    assert "Only administrators of the installation see" in page
    assert "No CI job is trusted." not in page


def test_a_trust_rule_is_added_on_the_page_and_its_faults_stand_at_its_fields(
    admin: Client,
) -> None:
    form = {**form_of(admin, "ci"), "do": "add"}
    given = fields_of(admin.post("/settings/ci", form).content.decode()) | {
        "ciTrust-0-name": "shop-main",
        "ciTrust-0-issuer": "https://token.actions.githubusercontent.com",
        "ciTrust-0-audience": "https://partita.example",
        "ciTrust-0-workspace": "acme",
        "ciTrust-0-suites": "shop, team-*",
        "ciTrust-0-branches": "main, release/*",
        "do": "save",
    }

    refused = admin.post("/settings/ci", given)
    stored = admin.post("/settings/ci", given | {"ciTrust-0-repositories": "acme/shop"})

    assert refused.status_code == 400
    assert "Repositories is required, or a claim" in refused.content.decode()
    assert stored.status_code == 303
    (rule,) = settings_document(operator())["ciTrust"]
    assert (rule["repositories"], rule["branches"]) == (["acme/shop"], ["main", "release/*"])
    assert (rule["suites"], rule["role"], rule["expiresMinutes"]) == (
        ["shop", "team-*"],
        "runner",
        60,
    )


def test_the_long_lists_of_a_rule_are_shown_whole_and_taken_by_lines(admin: Client) -> None:
    form = {**form_of(admin, "ci"), "do": "add"}
    repositories = [f"acme/a-repository-with-a-long-name-{number}" for number in range(20)]
    given = fields_of(admin.post("/settings/ci", form).content.decode()) | {
        "ciTrust-0-name": "many",
        "ciTrust-0-issuer": "https://gitlab.example",
        "ciTrust-0-audience": "https://partita.example",
        "ciTrust-0-workspace": "acme",
        "ciTrust-0-suites": "*",
        "ciTrust-0-repositories": "\r\n".join(repositories),
        "do": "save",
    }

    assert admin.post("/settings/ci", given).status_code == 303
    (rule,) = settings_document(operator())["ciTrust"]
    page = admin.get("/settings/ci").content.decode()
    faulty = fields_of(page) | {"ciTrust-0-claims": "a=b, no-pattern, c", "do": "save"}
    refused = admin.post("/settings/ci", faulty)

    assert rule["repositories"] == repositories
    texts = dict(_elements("textarea", page))
    assert texts["ciTrust-0-repositories"].strip() == ", ".join(repositories)
    for name in fields_of(page):
        if name.startswith("ciTrust-0-"):
            assert f'for="{name}"' in page or f'<label><input type="checkbox" name="{name}"' in page
    (field,) = re.findall(r'<textarea name="ciTrust-0-claims"[^>]*>', refused.content.decode())
    assert 'aria-invalid="true"' in field
    assert 'aria-describedby="ciTrust-0-claims-note"' in field
    note = refused.content.decode().partition('id="ciTrust-0-claims-note"')[2]
    assert "Other claims must be name=pattern" in note.partition("</div>")[0]
    assert "(number 2 of the list)" in note.partition("</div>")[0]
    assert '<a href="#ciTrust-0-claims">' in refused.content.decode()


@pytest.mark.parametrize(
    ("section", "field", "value"),
    [
        ("workspaces", "workspaces-0-weight", "0"),
        ("workspaces", "workspaces-0-weight", "many"),
        ("workspaces", "workspaces-0-workspaceId", "team-a"),
        ("workspaces", "workspaces-0-maxConcurrentRuns", "-1"),
        ("backends", "agents-0-maxConcurrentSteps", "100001"),
    ],
)
def test_a_limit_or_share_that_is_none_is_said_at_its_field(
    admin: Client, section: str, field: str, value: str
) -> None:
    shares = [{"workspaceId": "01890a5d-ac96-774b-bcce-b302099a8057"}]
    replace_settings(operator(), {**settings_document(operator()), "workspaces": shares})
    before = settings_document(operator())

    answer = admin.post(f"/settings/{section}", form_of(admin, section) | {field: value})
    page = answer.content.decode()

    assert answer.status_code == 400
    assert f'id="{field}-note"' in page
    assert f'value="{value}"' in page
    assert settings_document(operator()) == before


def test_an_empty_section_teaches(admin: Client) -> None:
    replace_settings(operator(), {**settings_document(operator()), "registries": []})

    assert "There is no registry yet." in admin.get("/settings/registries").content.decode()


@pytest.mark.parametrize(
    ("what", "name", "says"),
    [
        ("backend", "local", "no runner has registered for it"),
        ("provider", "file", "SECRET_FILES_DIR is not set"),
        ("provider", "cupboard", "unknown secret provider"),
        ("registry", "zot", "failed"),
    ],
)
def test_a_connection_is_tested_as_a_page_and_as_a_fragment(
    admin: Client, what: str, name: str, says: str
) -> None:
    form = {"what": what, "name": name}
    fragment = admin.post("/settings/check", form, headers={"HX-Request": "true"})
    assert says in fragment.content.decode()
    assert b"<html" not in fragment.content
    assert b"<html" in admin.post("/settings/check", form).content


def test_what_is_unknown_is_an_error_page(admin: Client) -> None:
    assert admin.post("/settings/check", {"what": "moon"}).status_code == 400
    assert admin.post("/settings/check", {"what": "backend", "name": "no"}).status_code == 404
    assert admin.post("/settings/sync", {"name": "no"}).status_code == 404


def test_a_sync_that_fails_is_shown_with_its_reason(admin: Client) -> None:
    page = admin.post("/settings/sync", {"name": "zot"}).content.decode()

    assert "zot: failed" in page
    assert "Failed</span>" in page


def test_the_history_is_on_the_page(admin: Client) -> None:
    page = admin.get("/settings/general").content.decode()

    assert "registries[zot].secret" in page
    assert "by api" in page
    assert admin.get("/settings")["Location"] == "/settings/general"


def field_of(page: str, name: str) -> str:
    """Return the start tag of what is around a field."""
    return page[: page.index(f'id="{name}"')].rsplit('<div class="setting', maxsplit=1)[1]


CLUSTER = ("targetNamespace", "kubeconfigPath", "serviceAccountToken")


def test_a_backend_has_the_fields_of_its_type_and_keeps_the_others(admin: Client) -> None:
    form = {**form_of(admin, "backends"), "do": "add"}
    added = admin.post("/settings/backends", form).content.decode()
    shown = [
        key
        for key in (*CLUSTER, "dockerSocket", "hostUrl", "tlsKey")
        if " hidden" not in field_of(added, f"agents-2-{key}").split(">", maxsplit=1)[0]
    ]
    assert shown == ["dockerSocket"]

    kubernetes = fields_of(added) | {
        "agents-2-agentId": "k",
        "agents-2-name": "K",
        "agents-2-type": "kubernetes",
        "agents-2-hostUrl": "ftp://cluster",
    }
    refused = admin.post("/settings/backends", {**kubernetes, "do": "save"}).content.decode()
    assert " hidden" not in field_of(refused, "agents-2-hostUrl").split(">", maxsplit=1)[0]


def test_a_missing_value_is_named_by_its_label_with_a_link_and_no_pointer(admin: Client) -> None:
    form = form_of(admin, "registries") | {"registries-0-name": ""}

    page = admin.post("/settings/registries", form).content.decode()

    assert 'zot: <a href="#registries-0-name">Name is required</a>' in " ".join(page.split())
    note = page[page.index('id="registries-0-name-note"') :][:200]
    assert "Name is required" in note
    assert "/registries/0" not in page


def test_a_provider_is_chosen_and_one_that_is_not_offered_stays(admin: Client) -> None:
    stored = settings_document(operator())
    registry = {**stored["registries"][0], "provider": "Our own"}
    replace_settings(operator(), {**stored, "registries": [registry]})

    page = admin.get("/settings/registries").content.decode()

    options = dict(_elements("select", page))["registries-0-provider"]
    assert '<option value="Generic OCI">' in options
    assert '<option value="Our own" selected>' in options


def test_an_empty_list_has_nothing_to_save_until_its_last_entry_is_removed(admin: Client) -> None:
    save = 'value="save">Save'
    form = form_of(admin, "registries")
    removed = admin.post("/settings/registries", {**form, "do": "remove-0"}).content.decode()
    assert save in removed.split('class="settings-save"')[1]

    replace_settings(operator(), {**settings_document(operator()), "registries": []})
    empty = admin.get("/settings/registries").content.decode()
    assert save not in empty.split('class="settings-save"')[1]


def test_the_former_address_of_the_backends_leads_to_them(admin: Client) -> None:
    answer = admin.get("/settings/agents")

    assert (answer.status_code, answer["Location"]) == (301, "/settings/backends")


def test_the_first_registry_of_an_installation_is_added_and_saved(admin: Client) -> None:
    PlatformSettings.objects.all().delete()
    form = form_of(admin, "registries")
    added = admin.post("/settings/registries", {**form, "do": "add"}).content.decode()
    fields = fields_of(added) | {
        "registries-0-registryId": "team",
        "registries-0-name": "Team",
        "registries-0-registryUrl": "https://registry.example.org",
    }

    assert admin.post("/settings/registries", fields).status_code == 303
