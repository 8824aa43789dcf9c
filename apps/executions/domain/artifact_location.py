"""Where the bytes of artifacts go, as ARTIFACT_STORAGE names it (reference: control-plane 11.11).

Pure: the settings read it before Django is there, and rows hold it as a URL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from ipaddress import IPv6Address
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

FORMS: Final = "store, disk, file:///folder or s3://bucket/prefix?region=…&endpoint=…"
URL_CHARACTERS: Final = 1_000
_STORAGES: Final = "apps.executions.storages"
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}")
_PREFIX: Final = re.compile(r"[A-Za-z0-9!_.*'()/-]{0,500}")
_REGION: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
_LABEL: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_HOST_CHARACTERS: Final = 255
_ADDRESSING: Final = ("auto", "path", "virtual")
_QUERY: Final = ("region", "endpoint", "addressing")
_UNSAFE: Final = re.compile("[\x00-\x1f\x7f]")
_PARAMETER: Final = re.compile("[a-z_-]{1,30}")
_PLAIN: Final = re.compile(r"([a-zA-Z0-9]{1,10}://)?[\w ./~-]{0,200}")
_NO_CREDENTIALS: Final = (
    "credentials do not belong in it: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
    "or use a profile or role"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactLocation:
    """A storage outside of the store. `url` names it without credentials, always in one form.

    `backend` and `options` are those of an entry of Django's STORAGES.
    """

    url: str
    backend: str
    options: Mapping[str, object] = field(default_factory=dict)

    def as_entry(self) -> dict[str, object]:
        return {"BACKEND": self.backend, "OPTIONS": dict(self.options)}


def read_location(text: str, data_dir: Path) -> ArtifactLocation | None:
    """Return the location, None for the store; raise ValueError that says what to write."""
    if text in ("", "store"):
        return None
    if text == "disk":
        return _disk_location(data_dir / "artifacts", is_made=True)
    if text.startswith("/"):
        return _disk_location(Path(text))
    return location_at(text)


def location_at(url: str) -> ArtifactLocation:
    """Return the location that a URL names; raise ValueError."""
    if len(url) > URL_CHARACTERS or _UNSAFE.search(url):
        raise ValueError(f"expected at most {URL_CHARACTERS} printable characters")
    if url == "s3" or url.rstrip("/") == "s3:":
        raise ValueError("name the bucket too: s3://bucket or s3://bucket/prefix")
    if "@" in unquote(url) and not url.startswith("file:"):
        raise ValueError(_NO_CREDENTIALS)  # before the parts are known: a secret may have a slash
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError(f"expected {FORMS}") from None
    if parts.scheme == "file":
        return _file_location(parts)
    if parts.scheme == "s3":
        return _bucket_location(parts)
    raise ValueError(f"expected {FORMS}")


def is_printable_location(text: str) -> bool:
    """Return whether a wrong value may be shown: it has no place for credentials."""
    return _PLAIN.fullmatch(text) is not None


def _file_location(parts: SplitResult) -> ArtifactLocation:
    if parts.netloc or parts.query or parts.fragment or not parts.path.startswith("/"):
        raise ValueError("expected file:///folder, with three slashes and an absolute path")
    return _disk_location(Path(unquote(parts.path)))


def _disk_location(folder: Path, *, is_made: bool = False) -> ArtifactLocation:
    if ".." in folder.parts or folder == Path("/") or _UNSAFE.search(str(folder)):
        raise ValueError("expected the absolute path of a folder, printable and without ..")
    return ArtifactLocation(
        url=folder.as_uri(),
        backend=f"{_STORAGES}.disk.DiskStorage",
        options={"location": str(folder), "is_made": is_made},
    )


def _bucket_location(parts: SplitResult) -> ArtifactLocation:
    bucket, prefix, query = parts.netloc, parts.path.strip("/"), _read_query(parts)
    if ":" in bucket:
        raise ValueError(_NO_CREDENTIALS)
    if not _BUCKET.fullmatch(bucket):
        raise ValueError(
            "bucket: expected 2 to 63 letters, digits and ._-, as in s3://bucket/prefix"
        )
    folders = PurePosixPath(prefix).parts
    if not _PREFIX.fullmatch(prefix) or ".." in folders or "//" in prefix or "." in folders:
        raise ValueError("the prefix may have letters, digits, slashes and !_.*'()- and no ..")
    endpoint, region = query.get("endpoint", ""), query.get("region", "")
    if endpoint and not _is_endpoint(endpoint):
        raise ValueError(
            "endpoint: expected an address such as https://minio.example.org:9000 (?endpoint=…); "
            "its host has letters, digits, dots and hyphens"
        )
    if region and not _REGION.fullmatch(region):
        raise ValueError("region: expected a name such as eu-central-1 (?region=…)")
    addressing = query.get("addressing", "path" if endpoint else "auto")
    if addressing not in _ADDRESSING:
        raise ValueError(f"addressing: expected one of {', '.join(_ADDRESSING)}")
    known = [(name, query[name]) for name in _QUERY if name in query]
    words = urlencode(known, safe=":/", quote_via=quote)
    return ArtifactLocation(
        url=f"s3://{bucket}{'/' if prefix else ''}{prefix}{'?' if words else ''}{words}",
        backend=f"{_STORAGES}.s3.BucketStorage",
        options={
            "bucket_name": bucket,
            "location": prefix,
            "region_name": region or None,
            "endpoint_url": endpoint or None,
            "addressing_style": addressing,
        },
    )


def _read_query(parts: SplitResult) -> dict[str, str]:
    if parts.fragment:
        raise ValueError("expected s3://bucket/prefix?region=…&endpoint=…, without #")
    pairs = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=10)
    for name, _ in pairs:
        if name not in _QUERY:
            near = get_close_matches(name, _QUERY, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(_QUERY)}"
            shown = f" {name!r}" if _PARAMETER.fullmatch(name) else ""  # it may be a secret
            raise ValueError(f"unknown parameter{shown}; {hint}")
    if len(dict(pairs)) < len(pairs):
        raise ValueError("each parameter may be there once")
    return {name: value.rstrip("/") for name, value in pairs if value}


def _is_endpoint(text: str) -> bool:
    try:
        parts = urlsplit(text)
        has_port = parts.port != 0
    except ValueError:
        return False
    is_bare = not (parts.query or parts.fragment or "@" in text)
    is_http = parts.scheme in ("http", "https")
    return is_http and _is_host(parts.hostname or "") and is_bare and has_port


def _is_host(name: str) -> bool:
    """Return whether boto3 takes it: a name without an underscore, or an address."""
    if ":" in name:
        return _is_ipv6(name)
    labels = name.removesuffix(".").split(".")
    return len(name) <= _HOST_CHARACTERS and all(_LABEL.fullmatch(label) for label in labels)


def _is_ipv6(text: str) -> bool:
    try:
        return bool(IPv6Address(text))
    except ValueError:
        return False
