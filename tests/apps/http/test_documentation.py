"""The API's description and the page to browse it (reference: control-plane 1)."""

from __future__ import annotations

import inspect
import re

import pytest
from rest_framework.serializers import BaseSerializer
from rest_framework.views import APIView

from tests.apps.http.conftest import Ask


@pytest.fixture(autouse=True)
def as_somebody(signed_in: None) -> None:
    """Both need a session; that they do, `test_problems` shows."""


def test_the_description_is_openapi_3_1_in_json(ask: Ask) -> None:
    answer = ask("GET", "/api/v1/schema")

    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["openapi"].startswith("3.1")
    assert "/api/v1/auth/sign-in" in answer.json()["paths"]


def test_what_a_base_class_says_to_programmers_describes_nothing(ask: Ask) -> None:
    document = ask("GET", "/api/v1/schema").json()

    operations = [each for path in document["paths"].values() for each in path.values()]
    described = [*operations, *document["components"]["schemas"].values()]
    told = {each["description"] for each in described if "description" in each}
    assert told & (words_of_bases(APIView) | words_of_bases(BaseSerializer)) == set()
    assert "At most 10 MiB; 200 for the same path and bytes again." in told


def words_of_bases(kind: type) -> set[str]:
    """What the classes say that others derive from."""
    children = kind.__subclasses__()
    own = {inspect.cleandoc(kind.__doc__)} if kind.__doc__ and children else set()
    return own.union(*map(words_of_bases, children))


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
