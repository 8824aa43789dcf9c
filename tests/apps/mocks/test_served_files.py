"""What `mock serve` serves: which files it reads, and what an edit of them does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from apps.operations.api import ExitCode
from mocks.standalone import command as standalone
from mocks.standalone.served_files import FilesRefused, NothingToServe, Reading, ServedFiles
from mocks.standalone.served_suite import ServedSuite
from tests.support.files import write_files

BASE = "http://127.0.0.1:8095"
OPENAPI = """\
openapi: 3.0.3
info: {title: Pets, version: "1"}
paths:
  /pets:
    get:
      operationId: listPets
      responses: {"200": {description: ok}}
"""
EXAMPLES = """\
examples:
  all:
    response: {status: "200", body: [{name: Rex}]}
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write_files(
        tmp_path / "shop",
        {
            "suite.star": "",
            "metadata.yaml": "title: The shop\nspec: {repository: acme/shop}\n",
            "api/pets.yaml": OPENAPI,
            "mock/pets/listPets.yaml": EXAMPLES,
        },
    )


def operations(reading: Reading) -> dict[str, list[str]]:
    return {
        surface.surface_id: [each.operation_id for each in surface.operations]
        for surface in reading.content.surfaces
    }


def test_a_suite_is_read_as_the_control_plane_reads_it(shop: Path):
    files = ServedFiles(shop)
    reading = files.read(BASE)

    assert files.suite_id == "shop"
    assert operations(reading) == {"pets": ["listPets"]}
    content = reading.content
    assert (content.suite_id, content.title, content.repository) == (
        "shop",
        "The shop",
        "acme/shop",
    )
    assert content.surfaces[0].mock_host == f"{BASE}/mocks/rest/shop/pets"
    assert [each.name for each in content.surfaces[0].operations[0].exchanges] == ["all"]


def test_a_readme_names_a_suite_without_metadata(shop: Path):
    (shop / "metadata.yaml").unlink()
    (shop / "README.md").write_text("\n# Pets and more\n\nText.\n")

    assert ServedFiles(shop).read(BASE).content.title == "Pets and more"


def test_a_contract_alone_is_a_suite(tmp_path: Path):
    place = write_files(tmp_path, {"pet store.yaml": OPENAPI}) / "pet store.yaml"
    files = ServedFiles(place)

    reading = files.read(BASE)
    assert (files.suite_id, reading.content.title) == ("pet-store", "Pets")
    assert list(operations(reading).values()) == [["listPets"]]


def test_a_folder_of_contracts_is_a_suite_and_its_other_files_do_not_matter(tmp_path: Path):
    folder = write_files(tmp_path / "specs", {"v1/openapi.yaml": OPENAPI, "v1/notes.txt": "x"})
    (folder / "logo.png").write_bytes(b"\0\xff")

    assert list(operations(ServedFiles(folder).read(BASE)).values()) == [["listPets"]]


def test_an_id_is_looked_up_where_no_file_has_that_name(shop: Path):
    assert ServedFiles.find("shop", shop.parent).place == shop
    for text in ("nowhere", "../shop", "shop/none"):
        with pytest.raises(NothingToServe):
            ServedFiles.find(text, shop.parent / "other")


def test_a_file_that_breaks_a_rule_for_packages_is_named(shop: Path):
    (shop / "mock" / "broken.yaml").write_bytes(b"a\0b")

    with pytest.raises(FilesRefused) as refused:
        ServedFiles(shop).read(BASE)
    assert refused.value.detail == "mock/broken.yaml contains a NUL byte"


def test_what_declares_no_operation_is_refused_with_the_reasons(tmp_path: Path):
    place = write_files(tmp_path, {"openapi.yaml": "openapi: 3.0.3\npaths: [\n"}) / "openapi.yaml"

    with pytest.raises(NothingToServe) as refused:
        ServedFiles(place).read(BASE)
    assert [(each.file, each.line) for each in refused.value.errors] == [("openapi.yaml", 3)]


class Told:
    """What a watched suite says."""

    def __init__(self, place: Path) -> None:
        self.reloaded: list[Reading] = []
        self.kept: list[tuple[str, list[tuple[str | None, int | None]]]] = []
        self.suite = ServedSuite(ServedFiles(place), BASE, kept=self._keep)
        self.suite.start(self.reloaded.append)
        self.suite.stop()  # the tests look themselves

    def _keep(self, reason: str, places: Sequence[object]) -> None:
        self.kept.append(
            (reason, [(getattr(each, "file", ""), getattr(each, "line", 0)) for each in places])
        )

    def looks(self, times: int = 2) -> None:
        for _ in range(times):
            self.suite.check()

    @property
    def example(self) -> str:
        return self.suite.reading.content.surfaces[0].operations[0].exchanges[0].name


def test_an_edit_takes_effect_once_the_files_rest(shop: Path):
    told = Told(shop)
    before = told.suite.generations([told.suite.name])
    write_files(shop, {"mock/pets/listPets.yaml": EXAMPLES.replace("all:", "every:")})

    told.looks(1)
    assert told.example == "all"
    told.looks(1)
    assert told.example == "every"
    assert len(told.reloaded) == 1
    assert told.suite.generations([told.suite.name]) != before
    told.looks()
    assert len(told.reloaded) == 1


@pytest.mark.parametrize(
    ("path", "text", "line"),
    [
        ("mock/pets/listPets.yaml", "examples:\n  all: {response: [\n", 3),
        ("mock/pets/listPets.yaml", EXAMPLES.replace("Rex", "'{{nwo}}'"), 3),
        ("mock/pets/listPets.metadata.yaml", "spec:\n  fallback: {mode: never}\n", 2),
        ("api/pets.yaml", "openapi: 3.0.3\n paths: x\n", 2),
    ],
)
def test_an_edit_that_breaks_something_keeps_the_last_good_version(
    shop: Path, path: str, text: str, line: int
):
    told = Told(shop)
    write_files(shop, {path: text})
    told.looks()

    assert told.example == "all"
    [(what_stays, places)] = told.kept
    kept = "left out" if path.endswith(".metadata.yaml") else "kept the last good version of"
    assert what_stays == f"{kept} {path}; all other files are served as they are now"
    assert (path, line) in places
    assert not told.reloaded

    write_files(shop, {path: "", "mock/pets/listPets.yaml": EXAMPLES, "api/pets.yaml": OPENAPI})
    (shop / "README.md").write_text("# other\n")
    told.looks()
    assert len(told.reloaded) == 1


PETS = """\
openapi: 3.0.3
info: {title: Pets, version: "1"}
paths:
  /pets: {get: {operationId: listPets, responses: {"200": {description: ok}}}}
  /pets/{id}: {get: {operationId: getPet, responses: {"200": {description: ok}}}}
"""


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("mock/pets/listPets.yaml", b"examples:\n  all: {response: [\n"),
        ("mock/pets/listPets.yaml", b"examples: {a: {response: {body: '\0'}}}\n"),
        ("mock/pets/listPets.yaml", b"examples: {a: {response: {body: '\xff'}}}\n"),
        ("api/pets.yaml", b"openapi: 3.0.3\n paths: x\n"),
    ],
)
def test_a_broken_file_freezes_only_itself(shop: Path, path: str, text: bytes):
    one = "examples: {one: {response: {body: {name: Rex}}}}\n"
    write_files(shop, {"api/pets.yaml": PETS, "mock/pets/getPet.yaml": one})
    told = Told(shop)
    good = (shop / path).read_bytes()

    def names() -> dict[str, str]:
        [surface] = told.suite.reading.content.surfaces
        return {each.operation_id: each.exchanges[0].name for each in surface.operations}

    (shop / path).write_bytes(text)
    write_files(shop, {"mock/pets/getPet.yaml": one.replace("one:", "two:")})
    told.looks()
    assert names() == {"listPets": "all", "getPet": "two"}
    [(what_stays, places)] = told.kept
    assert what_stays.startswith(f"kept the last good version of {path}; ")
    assert {file for file, _ in places} == {path}

    write_files(shop, {"mock/pets/getPet.yaml": one.replace("one:", "three:")})
    told.looks()
    assert names() == {"listPets": "all", "getPet": "three"}
    assert len(told.kept) == 2

    (shop / path).write_bytes(good.replace(b"all:", b"every:"))
    told.looks()
    assert names()["getPet"] == "three"
    assert len(told.kept) == 2
    assert len(told.reloaded) >= 2


def test_of_two_broken_files_each_is_named(shop: Path):
    told = Told(shop)
    write_files(
        shop,
        {
            "mock/pets/listPets.yaml": "examples: [\n",
            "mock/pets/new.metadata.yaml": "spec:\n  fallback: {mode: never}\n",
            "metadata.yaml": "title: Another shop\n",
        },
    )
    told.looks()

    [(what_stays, places)] = told.kept
    assert what_stays == (
        "kept the last good version of mock/pets/listPets.yaml and left out "
        "mock/pets/new.metadata.yaml; all other files are served as they are now"
    )
    assert {file for file, _ in places} >= {"mock/pets/listPets.yaml"}
    assert told.suite.reading.content.title == "Another shop"


def test_a_broken_contract_that_is_alone_stays_as_it_was(tmp_path: Path):
    place = write_files(tmp_path, {"pets.yaml": OPENAPI}) / "pets.yaml"
    told = Told(place)
    place.write_text("openapi: 3.0.3\npaths: [\n")
    told.looks()

    [surface] = told.suite.reading.content.surfaces
    assert [each.operation_id for each in surface.operations] == ["listPets"]
    [(what_stays, places)] = told.kept
    assert what_stays.startswith("kept the last good version of pets.yaml; ")
    assert places == [("pets.yaml", 3)]


def test_what_was_broken_from_the_start_does_not_hold_up_other_edits(shop: Path):
    write_files(shop, {"mock/pets/other.metadata.yaml": "spec:\n  fallback: {mode: never}\n"})
    told = Told(shop)
    write_files(
        shop,
        {
            "mock/pets/other.metadata.yaml": "\nspec:\n  fallback: {mode: never}\n",
            "mock/pets/listPets.yaml": EXAMPLES.replace("all:", "every:"),
        },
    )
    told.looks()

    assert told.example == "every"


def test_a_folder_that_goes_away_keeps_the_last_good_version(shop: Path):
    told = Told(shop)
    shop.rename(shop.parent / "moved")
    told.looks()

    assert told.example == "all"
    assert len(told.kept) == 1
    (shop.parent / "moved").rename(shop)
    told.looks()
    assert told.example == "all"


@pytest.mark.parametrize("path", ["g.log", "mock/calls.log", "api/notes.txt", "calls.json"])
def test_a_log_within_the_folder_reloads_nothing_and_holds_up_no_edit(shop: Path, path: str):
    told = Told(shop)
    before = told.suite.generations([told.suite.name])
    log = shop / path
    for number in range(4):
        with log.open("a") as out:
            out.write(f'{{"call": {number}}}\n')
        told.looks()
    assert not told.reloaded
    assert told.suite.generations([told.suite.name]) == before

    write_files(shop, {"mock/pets/listPets.yaml": EXAMPLES.replace("all:", "every:")})
    for _ in range(2):  # the log grows between two looks
        with log.open("a") as out:
            out.write("a line\n")
        told.looks(1)
    assert told.example == "every"
    assert len(told.reloaded) == 1
    assert not told.kept


def test_a_log_within_a_folder_of_contracts_holds_up_no_edit(tmp_path: Path):
    folder = write_files(tmp_path / "specs", {"openapi.yaml": OPENAPI})
    told = Told(folder)
    write_files(folder, {"openapi.yaml": OPENAPI.replace("listPets", "allPets")})
    for _ in range(2):
        with (folder / "g.log").open("a") as out:
            out.write("a line\n")
        told.looks(1)

    [surface] = told.suite.reading.content.surfaces
    assert [each.operation_id for each in surface.operations] == ["allPets"]


def test_a_document_elsewhere_is_watched_once_another_one_names_it(shop: Path):
    write_files(shop, {"shared/pets.yaml": EXAMPLES, "shared/other.yaml": "a: 1\n"})
    path = "mock/pets/listPets.metadata.yaml"
    write_files(shop, {path: "spec: {mockPath: shared/list}\n"})
    (shop / "mock/pets/listPets.yaml").unlink()
    told = Told(shop)

    write_files(shop, {"shared/other.yaml": "a: 2\n"})
    told.looks()
    assert not told.reloaded
    write_files(shop, {"shared/list.yaml": EXAMPLES.replace("all:", "every:")})
    told.looks()
    assert told.example == "every"
    write_files(shop, {"shared/list.yaml": EXAMPLES.replace("all:", "each:")})
    told.looks()
    assert told.example == "each"


def test_an_unknown_dispatcher_is_a_warning_and_the_edit_takes_effect(shop: Path):
    told = Told(shop)
    write_files(
        shop,
        {
            "mock/pets/listPets.metadata.yaml": "spec:\n  dispatcher: sequense\n",
            "mock/pets/listPets.yaml": EXAMPLES.replace("all:", "every:"),
        },
    )
    told.looks()

    assert (told.example, told.kept) == ("every", [])
    (reading,) = told.reloaded
    (warning,) = reading.warnings
    assert (warning.file, warning.line) == ("mock/pets/listPets.metadata.yaml", 2)
    assert warning.detail.endswith("did you mean sequence?")
    operation = reading.content.surfaces[0].operations[0]
    assert (operation.mock.dispatcher, operation.mock.problems) == ("example", ())


def test_the_exit_codes_are_those_of_the_other_commands():
    ours = [standalone.OK, standalone.ERROR, standalone.NOT_FOUND, standalone.CONFLICT]

    assert ours == [ExitCode.OK, ExitCode.ERROR, ExitCode.NOT_FOUND, ExitCode.CONFLICT]


def test_a_body_in_a_file_is_read_where_an_example_names_it(shop: Path):
    named = "examples: {all: {response: {mediaType: text/html, bodyFile: page.html}}}\n"
    write_files(shop, {"mock/pets/listPets.yaml": named, "mock/pets/page.html": "<p>1</p>"})
    (shop / "mock/pets/photo.bin").write_bytes(b"\0\xff")  # named by nothing, and no text
    (shop / "page.txt").write_bytes(b"\xff")
    files = ServedFiles(shop)

    reading = files.read(BASE)
    assert [each for each in reading.content.files if each.endswith((".html", ".bin", ".txt"))] == [
        "mock/pets/page.html"
    ]
    (surface,) = reading.content.surfaces
    assert surface.operations[0].exchanges[0].response.body == "<p>1</p>"

    before = files.signature()
    (shop / "mock/pets/page.html").write_text("<p>two</p>")
    assert files.signature() != before
    (surface,) = files.read(BASE).content.surfaces
    assert surface.operations[0].exchanges[0].response.body == "<p>two</p>"
