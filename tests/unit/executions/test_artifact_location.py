"""ARTIFACT_STORAGE: what it may be, and what it is told instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from apps.executions.domain.artifact_location import location_at, read_location
from platform_site.settings import env

DATA = Path("/var/lib/partita")


@pytest.mark.parametrize("text", ["", "store"])
def test_without_a_value_bytes_go_into_the_store(text: str) -> None:
    assert read_location(text, DATA) is None


@pytest.mark.parametrize(
    ("text", "url", "options"),
    [
        ("disk", "file:///var/lib/partita/artifacts", {"is_made": True}),
        ("/mnt/my files", "file:///mnt/my%20files", {"location": "/mnt/my files"}),
        ("file:///mnt/my%20files/", "file:///mnt/my%20files", {"is_made": False}),
        ("s3://reports", "s3://reports", {"bucket_name": "reports", "location": ""}),
        ("s3://reports/a/b/", "s3://reports/a/b", {"location": "a/b"}),
        (
            "s3://r.e-p/a?endpoint=http://minio:9000/&region=eu-central-1",
            "s3://r.e-p/a?region=eu-central-1&endpoint=http://minio:9000",
            {"endpoint_url": "http://minio:9000", "addressing_style": "path"},
        ),
        (
            "s3://reports?endpoint=http://[::1]:9000",
            "s3://reports?endpoint=http://%5B::1%5D:9000",
            {"endpoint_url": "http://[::1]:9000"},
        ),
        (
            "s3://reports?endpoint=https://s3.example.org&addressing=virtual",
            "s3://reports?endpoint=https://s3.example.org&addressing=virtual",
            {"addressing_style": "virtual", "region_name": None},
        ),
    ],
)
def test_each_form_has_one_url(text: str, url: str, options: dict[str, object]) -> None:
    found = read_location(text, DATA)

    assert found is not None
    assert found.url == url
    assert options.items() <= found.options.items()
    again = location_at(url)
    assert (again.url, again.backend) == (url, found.backend)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("S3", "expected store, disk, file:///folder or s3://"),
        ("s3", "name the bucket too"),
        ("s3://", "name the bucket too"),
        ("gs://bucket", "expected store, disk, file:///folder or s3://"),
        ("file://mnt/x", "with three slashes"),
        ("file:///", "absolute path"),
        ("file:///a/../etc", "without .."),
        ("relative/path", "expected store, disk"),
        ("s3://a:b@bucket", "credentials do not belong in it: set AWS_ACCESS_KEY_ID"),
        ("s3://AKIA1:abc/def+g@bucket/p", "credentials do not belong in it"),
        ("s3://AKIA1:abc/bucket", "credentials do not belong in it"),
        ("s3://bucket?endpoint=https%3A%2F%2Fkey:1/a%40minio", "credentials do not belong"),
        ("s3://[::1", "expected store, disk, file:///folder or s3://"),
        ("file://user:secret@host/x", "with three slashes"),
        ("s3://-bad-", "bucket: expected 2 to 63 letters"),
        ("s3://bucket/a/../b", "no .."),
        ("s3://bucket/a//b", "prefix"),
        ("s3://bucket/a%20b", "prefix"),
        ("s3://bucket?regoin=x", "unknown parameter 'regoin'; did you mean region?"),
        ("s3://bucket?secret=x", "known: region, endpoint, addressing"),
        ("s3://bucket?region=EU!", "region: expected a name such as eu-central-1"),
        ("s3://bucket?endpoint=minio:9000", "endpoint: expected an address such as"),
        ("s3://bucket?endpoint=http://a:b@minio", "credentials|endpoint"),
        ("s3://bucket?endpoint=http://minio_s3:9000", "letters, digits, dots and hyphens"),
        ("s3://bucket?endpoint=http://a..b:9000", "endpoint: expected an address"),
        ("s3://bucket?endpoint=http://[::g]:9000", "endpoint: expected an address"),
        ("s3://bucket?endpoint=http://minio%00:9000", "endpoint: expected an address"),
        ("s3://bucket?region=-", "region: expected a name"),
        ("file:///x%00y", "printable and without"),
        ("file:///x%0Ay", "printable and without"),
        ("s3://bucket?addressing=other", "addressing: expected one of auto, path, virtual"),
        ("s3://bucket?region=a&region=b", "each parameter may be there once"),
        ("s3://bucket#x", "without #"),
        ("s3://bucket/\n", "printable"),
        (f"s3://{'a' * 1000}", "at most 1000"),
    ],
)
def test_a_wrong_value_is_told_what_to_write(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_location(text, DATA)


@pytest.mark.parametrize(
    "text",
    [
        "s3://AKIA:hunter2@bucket",
        "s3://AKIA:hun/hunter2+g@bucket/p",
        "s3://AKIA:hunter2/bucket",
        "s3://hunter2:@bucket",
        "s3://bucket?secret_key=hunter2",
        "s3://bucket?Hunter2hunter2/",
        "s3://bucket?hunter2",
        "s3://bucket?endpoint=https://key:hunter2@minio",
        "s3://bucket?endpoint=https://key:1/hunter2@minio",
        "s3://bucket?endpoint=https://key:1/hunter2%40minio",
        "s3://bucket?region=hunter2!",
        "https://key:hunter2@bucket.s3.amazonaws.com",
        "https://bucket.s3.amazonaws.com?X-Amz-Credential=hunter2",
        "file://key:hunter2@host/x",
        "//key:hunter2@host/../x",
        "s3://[hunter2@x",
    ],
)
def test_the_setting_names_its_variable_and_no_credentials(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("ARTIFACT_STORAGE", text)

    with pytest.raises(ImproperlyConfigured, match=r"^ARTIFACT_STORAGE: ") as raised:
        env.artifact_location("ARTIFACT_STORAGE", DATA)

    assert "hunter2" not in str(raised.value).lower()


@pytest.mark.parametrize("text", ["S3", "gs://bucket/prefix", "relative/path", "file:///a/../b"])
def test_a_wrong_value_without_a_place_for_credentials_is_shown(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("ARTIFACT_STORAGE", text)

    with pytest.raises(ImproperlyConfigured, match=f"^ARTIFACT_STORAGE='{text}': expected"):
        env.artifact_location("ARTIFACT_STORAGE", DATA)
