"""The table of commands has both halves: the client's verbs, and what works beside the store."""

from __future__ import annotations

import pytest

from documentation.tables import commands
from partita_client.command.program import NOUNS, find_noun


@pytest.fixture(scope="module")
def page() -> str:
    return commands.page()


def section(page: str, title: str) -> str:
    """Return a section up to the next heading."""
    _, _, rest = page.partition(f"# {title}\n")
    assert rest, title
    return rest.partition("\n#")[0]


def test_every_verb_of_the_client_has_a_section(page: str):
    for name in NOUNS:
        noun = find_noun(name)
        assert noun
        for verb in noun.verbs:
            assert section(page, f"{name} {verb.name}" if verb.name else f"partita {name}")


def test_a_verb_has_its_own_options_and_the_chapter_those_of_all(page: str):
    assert "`--since-green`" in section(page, "run show")
    assert "--server" not in section(page, "run show")
    assert "--jq" not in section(page, "run show")
    shared = section(page, "Servers, and runs on them")
    for option in ("`--server URL`", "`--context NAME`", "`--ca-file FILE`", "`--jq EXPRESSION`"):
        assert option in shared


def test_what_the_client_has_not_needs_no_admin(page: str):
    assert "# admin run" not in page
    assert section(page, "suite validate")
    assert section(page, "run shell")
    assert "# admin suite validate\n" not in page


def test_no_section_is_there_twice(page: str):
    titles = [line for line in page.splitlines() if line.startswith("#")]

    assert len(titles) == len(set(titles))
