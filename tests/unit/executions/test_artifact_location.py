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
        ("s3://a:b@bucket", "credentials do not belong into it: set AWS_ACCESS_KEY_ID"),
        ("s3://-bad-", "is no name of a bucket"),
        ("s3://bucket/a/../b", "no .."),
        ("s3://bucket/a//b", "prefix"),
        ("s3://bucket/a%20b", "prefix"),
        ("s3://bucket?regoin=x", "unknown parameter 'regoin'; did you mean region?"),
        ("s3://bucket?secret=x", "known: region, endpoint, addressing"),
        ("s3://bucket?region=EU!", "region: expected a name such as eu-central-1"),
        ("s3://bucket?endpoint=minio:9000", "endpoint: expected an address such as"),
        ("s3://bucket?endpoint=http://a:b@minio", "credentials|endpoint"),
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


def test_the_setting_names_its_variable_and_no_credentials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ARTIFACT_STORAGE", "s3://AKIA:hunter2@bucket")

    with pytest.raises(ImproperlyConfigured, match=r"^ARTIFACT_STORAGE='s3://\*\*\*@") as raised:
        env.artifact_location("ARTIFACT_STORAGE", DATA)

    assert "hunter2" not in str(raised.value)
