"""Which account an image is pulled with."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.platform_settings.api import pull_credentials
from apps.platform_settings.domain.document import SettingsInvalid, read_file
from apps.platform_settings.domain.fields import SettingsContext
from apps.platform_settings.domain.registries import ImageRegistry, credentials_for, image_place


@pytest.mark.parametrize(
    ("image", "place"),
    [
        ("busybox", ("docker.io", "busybox")),
        ("busybox:1.36", ("docker.io", "busybox")),
        ("team/tool@sha256:00", ("docker.io", "team/tool")),
        ("index.docker.io/team/tool", ("docker.io", "team/tool")),
        ("localhost/tool:1", ("localhost", "tool")),
        ("Registry.Example:5000/a/b:1", ("registry.example:5000", "a/b")),
        ("registry.example:443/a/b", ("registry.example", "a/b")),
    ],
)
def test_the_registry_of_an_image_is_read_as_docker_reads_it(image: str, place: tuple[str, str]):
    assert image_place(image) == place


def _registry(url: str, **more: object) -> ImageRegistry:
    return ImageRegistry(registry_id=url, url=url, username="ann", secret=f"of {url}", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "image", ["evil.example/registry.example/a", "registry.example.evil/a", "registry.example:81/a"]
)
def test_credentials_go_to_their_own_host_only(image: str):
    """Invariant 22."""
    assert credentials_for([_registry("https://registry.example")], image) is None


def test_of_two_accounts_for_a_host_the_one_whose_scope_covers_the_image_is_taken():
    url = "https://registry.example"
    wide = ImageRegistry(registry_id="wide", url=url, secret="wide")
    ours = ImageRegistry(registry_id="ours", url=url, secret="ours", scope=("team",))

    assert credentials_for([ours, wide], "registry.example/other/tool").secret == "wide"  # type: ignore[union-attr]
    assert credentials_for([ours, wide], "registry.example/team/tool").secret == "ours"  # type: ignore[union-attr]


def test_a_registry_without_a_secret_has_no_credentials():
    assert (
        credentials_for([ImageRegistry(registry_id="a", url="https://a.example")], "a.example/b")
        is None
    )


def test_the_file_may_name_a_variable_and_nothing_shows_its_value(
    tmp_path: Path, settings: object, db: None
):
    """Invariant 19."""
    file = tmp_path / "configuration.yaml"
    file.write_text(
        "registries:\n"
        "  - {registryId: zot, name: Zot, provider: Zot, registryUrl: 'http://localhost:5000',\n"
        '     username: ann, secret: "${PARTITA_CONFIG_ZOT}"}\n'
    )
    settings.PLATFORM_SETTINGS_FILE = file  # type: ignore[attr-defined]
    settings.CONFIG_VARIABLES = {"PARTITA_CONFIG_ZOT": "hidden-word"}  # type: ignore[attr-defined]

    found = pull_credentials("localhost:5000/shop/suite:1")

    assert found is not None
    assert (found.username, found.secret) == ("ann", "hidden-word")
    assert "hidden-word" not in repr(found)


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ("{registryId: a, name: A, provider: Zot}", "registryUrl is required"),
        ("{registryId: a, name: A, provider: Zot, registryUrl: 'ftp://a'}", "http or https"),
        ("{registryId: a, name: A, provider: Zot, registryUrl: 'http://a', port: 1}", "known key"),
        ("{registryId: a, provider: Zot, registryUrl: 'http://a'}", "name is required"),
    ],
)
def test_a_broken_registry_is_refused_with_its_place(entry: str, fault: str):
    with pytest.raises(SettingsInvalid, match=fault):
        read_file(f"registries:\n  - {entry}\n", "configuration.yaml", SettingsContext())


@pytest.mark.parametrize(
    ("written", "url", "host"),
    [
        ("registry.example", "https://registry.example", "registry.example"),
        ("registry.example:5000", "https://registry.example:5000", "registry.example:5000"),
        ("http://registry.example", "http://registry.example", "registry.example"),
    ],
)
def test_an_address_without_a_scheme_is_one_of_https(written: str, url: str, host: str):
    entry = f"{{registryId: a, name: A, provider: Zot, registryUrl: '{written}'}}"
    text = f"registries:\n  - {entry}\n"

    (registry,) = read_file(text, "configuration.yaml", SettingsContext())[0].registries

    assert (registry.url, registry.host) == (url, host)
