"""The settings pages in a browser: axe, the keyboard, tests of connections, without a script."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from django.contrib.auth import get_user_model

from apps.accounts.api import operator
from apps.console.domain.settings_sections import SECTIONS
from apps.platform_settings.api import replace_settings, settings_document
from tests.apps.platform_settings.documents import document
from tests.integration.pages import findings_everywhere
from tests.support.browser import Reader

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
PATHS = [f"/settings/{name}" for name in SECTIONS]
SHOTS = os.environ.get("SETTINGS_SHOTS", "")  # a folder, to look at the pages


@pytest.fixture(params=[True, False], ids=["admin", "viewer"])
def is_admin(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(autouse=True)
def _settings(ada: Reader, is_admin: bool) -> None:
    users = get_user_model().objects
    users.update(is_admin=True)
    replace_settings(operator(), document())
    users.update(is_admin=is_admin)


def test_axe_finds_nothing_serious_and_nothing_is_wider_than_a_phone(
    ada: Reader, axe: str, is_admin: bool
) -> None:
    found = findings_everywhere(ada.page, axe, ada.url, PATHS)
    assert found == []
    for path in PATHS:
        for scheme, width in (("light", 1440), ("dark", 390), ("dark", 1440), ("light", 390)):
            ada.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            ada.page.set_viewport_size({"width": width, "height": 900})
            ada.open(path)
            ada.page.eval_on_selector_all("details", "all => all.forEach(one => one.open = true)")
            if SHOTS:
                name = f"{path.rsplit('/', 1)[1]}-{scheme}-{width}-{is_admin}.png"
                ada.page.screenshot(path=str(Path(SHOTS) / name), full_page=True)
            wide = ada.page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, path


@pytest.mark.parametrize("is_admin", [True], indirect=True)
def test_settings_are_saved_by_the_keyboard(ada: Reader) -> None:
    ada.open("/settings/general")
    ada.page.focus("#top-description")
    ada.page.keyboard.type("by keys")
    ada.page.keyboard.press("Enter")
    ada.page.wait_for_url("**/settings/general?saved=1")

    assert settings_document(operator())["description"] == "by keys"
    assert ada.page.inner_text(".settings-saved").startswith("Saved.")


@pytest.mark.parametrize("is_admin", [True], indirect=True)
def test_a_backend_is_tested_in_place_and_the_input_stays(ada: Reader) -> None:
    ada.open("/settings/backends")
    ada.page.eval_on_selector_all("details", "all => all.forEach(one => one.open = true)")
    ada.page.fill("#agents-1-name", "not saved")
    ada.page.click("button[form='check-backend-edge']")
    ada.page.wait_for_selector("[id='result-backend-edge'] .settings-result")

    assert "has registered for it" in ada.page.inner_text("[id='result-backend-edge']")
    assert ada.page.input_value("#agents-1-name") == "not saved"
