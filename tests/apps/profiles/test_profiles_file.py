"""svc-profiles.yaml in and out (reference: control-plane 10).

Invariants 31 and 35: a deleted file stays away; the file is whole at any time, readable by its
owner only.
"""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from apps.accounts.api import Role
from apps.profiles import api
from apps.profiles.domain.profile_file import seeds_of
from apps.profiles.domain.profiles_file import ProfilesFileInvalid
from apps.profiles.models import ProfileRecord
from apps.profiles.services.profiles_file import (
    import_profiles_file,
    take_over_file,
    write_profiles_file,
)
from tests.support.people import somebody

pytestmark = [pytest.mark.django_db, pytest.mark.store]
TEXT = """\
# who changes this asks Ada
suites:
  # the shop
  shop:
    profiles:
    - id: nightly   # every night
      name: Nightly
      fileName: nightly.yaml
      yaml: |
        # much
        env: {A: "1"}
      default: true
    - {id: weekly, name: Weekly, fileName: weekly.yaml, yaml: "{env: {A: 2}}"}
    deleted:
    - {id: ci, sha256: abc}
  # of a suite that is not here yet
  elsewhere:
    profiles:
    - {id: x, name: X, fileName: x.yaml, yaml: "{}", updatedAt: 2026-01-02T03:04:05Z}
"""


@pytest.fixture
def file(tmp_path, settings) -> Path:
    settings.PROFILES_FILE = tmp_path / "svc-profiles.yaml"
    path: Path = settings.PROFILES_FILE
    return path


def edit(suite_id: str = "shop", **files: str) -> api.Edit:
    packed = {f"profiles/{name}.yaml": text.encode() for name, text in files.items()}
    return api.Edit(principal=somebody(role=Role.RUNNER), suite_id=suite_id, seeds=seeds_of(packed))


def draft(name: str = "other", text: str = "env: {A: '3'}\n") -> api.Draft:
    return api.Draft(name=name, file_name=f"{name}.yaml", yaml=text)


def test_the_file_is_imported_once(file):
    file.write_text(TEXT)

    take_over_file()

    stored = api.stored_profiles()
    assert stored["shop"].default_id == "nightly"
    assert [each.profile_id for each in stored["shop"].records] == ["ci", "nightly", "weekly"]
    assert stored["elsewhere"].records[0].updated_at == "2026-01-02T03:04:05.000Z"
    ProfileRecord.objects.all().delete()
    take_over_file()
    assert not ProfileRecord.objects.exists(), "the same content undoes nothing"


def test_a_change_is_written_and_comments_stay(file):
    file.write_text(TEXT)

    api.create_profile(edit(), draft())

    text = file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for comment in ("# who changes", "# the shop", "# every night", "# much", "# of a suite"):
        assert comment in text
    assert "other.yaml" in text
    api.make_default(edit(), "other")
    assert file.read_text().count("default: true") == 2, "its flag, and in its YAML"
    api.delete_profile(edit(), "other")
    assert "other" not in file.read_text()
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_an_old_copy_undoes_nothing(file):
    api.create_profile(edit(), draft("one"))
    old = file.read_bytes()
    api.create_profile(edit(), draft("two"))

    file.write_bytes(old)
    take_over_file()

    assert len(api.stored_profiles()["shop"].records) == 2


def test_what_somebody_wrote_is_taken_over_before_a_change(file):
    api.create_profile(edit(), draft("one"))
    file.write_text(file.read_text().replace('name: "one"', 'name: "First"'))

    api.create_profile(edit(), draft("two"))

    assert [each.name for each in api.stored_profiles()["shop"].records] == ["First", "two"]
    assert "First" in file.read_text()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("suites: [", "svc-profiles.yaml:2:1: did not find"),
        ("a: 1", 'svc-profiles.yaml:1:1: "a" is not a known key'),
        ("suites: {shop: {profiles: [{id: a}]}}", "name: is required"),
        ("suites: {shop: {profiles: [{id: 'a b'}]}}", "is not the id of a profile"),
        ("suites: {'a b': {}}", "is not a suite id"),
        ("suites: {shop: {profiles: [3]}}", "expected a mapping"),
        (
            "suites:\n shop:\n  profiles:\n  - {id: a, name: A, fileName: a.yaml, yaml: 'env: 3'}",
            "svc-profiles.yaml:4:",
        ),
        (TEXT.replace("Weekly,", "Weekly, default: true,"), "is the default already"),
        (TEXT.replace("id: weekly", "id: nightly"), "occurs twice"),
        (TEXT.replace("fileName: weekly", "fileName: NIGHTLY"), "occurs twice"),
    ],
)
def test_an_invalid_file_changes_nothing_and_is_not_touched(file, text, says):
    api.create_profile(edit(), draft("one"))
    file.write_text(text)

    with pytest.raises(ProfilesFileInvalid) as raised:
        import_profiles_file()
    assert says in str(raised.value)
    assert str(raised.value) in api.file_problem()
    api.create_profile(edit(), draft("two"))

    assert file.read_text() == text
    assert len(api.stored_profiles()["shop"].records) == 2


def test_a_folder_that_cannot_be_written_costs_only_the_file(tmp_path, settings):
    settings.PROFILES_FILE = tmp_path / "nowhere" / "svc-profiles.yaml"

    api.create_profile(edit(), draft())

    assert api.stored_profiles()["shop"].records


@pytest.mark.parametrize(
    "text",
    ["env: {A: '1'}", "# end", "a: 1\r\nb: 2\r\n", "env:\n\n\n  A: 'x y'   \n", "x: 'é\u2028'\n"],
)
def test_any_yaml_survives_the_file(file, text):
    text = text if ":" in text else f"env: {{}}\n{text}\n"
    api.create_profile(edit(), draft(text=text))
    kept = api.stored_profiles()["shop"].records[0].yaml

    ProfileRecord.objects.update(yaml="{}")
    file.write_text(file.read_text() + "# touched\n")
    take_over_file()

    assert api.stored_profiles()["shop"].records[0].yaml == kept == text
    write_profiles_file()
    assert file.read_text().endswith("# touched\n")
