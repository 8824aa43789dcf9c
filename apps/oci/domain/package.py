"""Packages of registries: what is pulled and pushed, and why one is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kernel.errors import PlatformError
from readers.archive import ArchiveRefused, unpack

SUITE_TYPE: Final = "application/vnd.partita.suite.v1"
MODULE_TYPE: Final = "application/vnd.partita.module.v1"
LAYER_TYPES: Final[Mapping[str, str]] = {
    SUITE_TYPE: "application/vnd.partita.suite.layer.v1.tar+gzip",
    MODULE_TYPE: "application/vnd.partita.module.layer.v1.tar+gzip",
}


class PackageRefused(PlatformError):
    """A package that breaks a rule; `reason` is a stable code."""

    code = "package_invalid"

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail, members={"reason": reason})
        self.reason = reason


class DigestMismatch(PackageRefused):
    """Content is not what its digest says."""

    def __init__(self, detail: str) -> None:
        super().__init__("digest_mismatch", detail)


class TagTaken(PlatformError):
    """A tag names other content already."""

    code = "tag_taken"


class PackageNotFound(PlatformError):
    code = "package_not_found"


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package whose digests have been checked.

    `digest` is that of the manifest, `content_digest` that of the files (reference:
    control-plane 8).
    """

    repository: str
    tag: str
    digest: str
    content_digest: str
    files: Mapping[str, bytes] = field(repr=False)
    artifact_type: str
    annotations: Mapping[str, str]
    media_types: tuple[str, ...] = ()  # of its layers


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """`digest` is that of the manifest; `size` that of the layer in bytes.

    `is_new` is False where the tag named this package before, so that nothing was sent.
    """

    digest: str
    content_digest: str
    size: int
    is_new: bool = True


def unpack_layer(content: bytes) -> dict[str, bytes]:
    """Unpack the files of a layer; raise PackageRefused."""
    try:
        return unpack(content)
    except ArchiveRefused as error:
        raise PackageRefused(error.code, error.reason) from None
