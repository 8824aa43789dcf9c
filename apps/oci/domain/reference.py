"""References to repositories: `host/path`, with a tag, a digest, or both."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from kernel.errors import PlatformError

MAX_REFERENCE: Final = 512
MAX_PATH: Final = 255
DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}\Z")
TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}\Z")
_PART: Final = r"@?[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
PATH: Final = re.compile(rf"{_PART}(?:/{_PART})*\Z")
_HOST: Final = re.compile(
    r"(?:\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9._-]{0,251}[a-z0-9])?)(?::[0-9]{1,5})?\Z"
)


class InvalidReference(PlatformError):
    code = "invalid_parameter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A place in a registry; `str()` gives back what was parsed."""

    host: str
    path: str
    tag: str = ""
    digest: str = ""

    @property
    def repository(self) -> str:
        return f"{self.host}/{self.path}"

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.repository}{tag}{digest}"


def parse_reference(text: str) -> Reference:
    """Return `host[:port]/path[:tag][@sha256:…]`, with its host in lower case.

    Raise InvalidReference.
    """
    if len(text) > MAX_REFERENCE:
        raise InvalidReference(f"a reference has at most {MAX_REFERENCE} characters")
    name, digest = _without_digest(text)
    host, slash, rest = name.partition("/")
    path, colon, tag = rest.partition(":")
    if not slash or not _is_host(host.lower()):
        raise InvalidReference(f"{text!r}: expected HOST/REPOSITORY:TAG or …@sha256:DIGEST")
    if len(path) > MAX_PATH or not PATH.match(path):
        rule = "lower case letters and digits, with single . _ - / between them"
        raise InvalidReference(f"{text!r}: {path!r} is not the name of a repository: {rule}")
    if colon and not TAG.match(tag):
        raise InvalidReference(f"{text!r}: {tag!r} is not a tag")
    return Reference(host=host.lower(), path=path, tag=tag, digest=digest)


def is_repository_name(path: str) -> bool:
    return len(path) <= MAX_PATH and PATH.match(path) is not None


def _without_digest(text: str) -> tuple[str, str]:
    """Split behind the last `@`, unless it begins a segment of the path."""
    name, at, digest = text.rpartition("@")
    if not at or name.endswith("/"):
        return text, ""
    if not DIGEST.match(digest):
        raise InvalidReference(f"{text!r}: a digest is sha256: and 64 hexadecimal digits")
    return name, digest


def _is_host(host: str) -> bool:
    """Return whether this is a host: with a dot or a port, or localhost, as Docker decides."""
    return bool(_HOST.match(host)) and ("." in host or ":" in host or host == "localhost")
