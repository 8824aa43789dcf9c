"""The API's description and the page to browse it (the contract section 1)."""

from __future__ import annotations

import re

import pytest

from tests.apps.system.conftest import Ask


@pytest.fixture(autouse=True)
def as_somebody(signed_in: None) -> None:
    """Both need a session; that they do, `test_problems` shows."""


def test_the_description_is_openapi_3_1_in_json(ask: Ask) -> None:
    answer = ask("GET", "/api/v1/schema")

    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["openapi"].startswith("3.1")
    assert "/api/v1/auth/sign-in" in answer.json()["paths"]


def test_the_page_loads_scripts_from_our_own_files_only(ask: Ask) -> None:
    answer = ask("GET", "/api/v1/docs")

    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", answer.text, re.DOTALL)
    assert answer.headers["content-type"].startswith("text/html")
    assert "script-src 'self';" in answer.headers["content-security-policy"]
    assert scripts
    assert all('src="/' in attributes and not code.strip() for attributes, code in scripts)


def test_every_file_of_the_page_is_served(ask: Ask) -> None:
    page = ask("GET", "/api/v1/docs").text

    for path in re.findall(r'(?:src|href)="(/[^"]+)"', page):
        assert ask("GET", path.replace("&amp;", "&")).status_code == 200, path
