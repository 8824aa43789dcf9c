"""Manifests of packages, read as hostile input (reference: control-plane 5.2).

A package is a manifest with exactly one layer of a media type that ends in `tar+gzip`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from apps.oci.domain.package import DigestMismatch, PackageRefused
from apps.oci.domain.reference import DIGEST
from readers import Unreadable
from readers.archive import LIMITS
from readers.json import read_json

MAX_MANIFEST_BYTES: Final = 2**20
OCI_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
DOCKER_MANIFEST: Final = "application/vnd.docker.distribution.manifest.v2+json"
MANIFEST_TYPES: Final = (OCI_MANIFEST, DOCKER_MANIFEST)
INDEX_TYPES: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
EMPTY_CONFIG: Final = "application/vnd.oci.empty.v1+json"
EMPTY_JSON: Final = b"{}"
LAYER_SUFFIX: Final = "tar+gzip"
_IMAGE_CONFIGS: Final = (
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
)
_MAX_ANNOTATIONS: Final = 64
_MAX_TEXT: Final = 4096
_MAX_TYPE: Final = 255
_MAX_LAYERS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    media_type: str
    digest: str
    size: int

    def as_dict(self) -> dict[str, str | int]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What is known of a manifest; `layer` is that of the package, None where there is none.

    `is_image`: it says that it is a container image, which nobody wants to pull as a package.
    """

    content: bytes = field(repr=False)
    digest: str
    artifact_type: str
    media_types: tuple[str, ...]
    annotations: Mapping[str, str]
    layer: Descriptor | None
    is_image: bool
    refusal: str = ""  # why it is not a package, a code
    detail: str = ""

    def package_layer(self) -> Descriptor:
        """Return the layer; raise PackageRefused where this is not a package."""
        if self.layer is None:
            raise PackageRefused(self.refusal, self.detail)
        return self.layer


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def read_manifest(content: bytes, *, media_type: str = "", expected: str = "") -> Manifest:
    """Read a manifest of the response's `media_type`, whose digest must be `expected`.

    Raise PackageRefused, DigestMismatch.
    """
    if len(content) > MAX_MANIFEST_BYTES:
        raise PackageRefused("manifest_too_large", "the manifest is larger than 1 MiB")
    digest = digest_of(content)
    if expected and digest != expected:
        raise DigestMismatch(f"the manifest has the digest {digest}, not {expected}")
    document = _document(content)
    _refuse_other_types(document, media_type.partition(";")[0].strip().lower())
    layers = _descriptors(document)
    artifact_type, is_image = _artifact_type(document)
    layer, refusal, detail = _package_layer(layers)
    return Manifest(
        content=content,
        digest=digest,
        artifact_type=artifact_type,
        media_types=tuple(dict.fromkeys(each.media_type for each in layers)),
        annotations=_annotations(document),
        layer=layer,
        is_image=is_image,
        refusal=refusal,
        detail=detail,
    )


def build_manifest(
    layer: Descriptor, *, artifact_type: str, annotations: Mapping[str, str]
) -> bytes:
    """Build the manifest of a package; equal packages have equal ones."""
    document: dict[str, object] = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "artifactType": artifact_type,
        "config": Descriptor(
            media_type=EMPTY_CONFIG, digest=digest_of(EMPTY_JSON), size=len(EMPTY_JSON)
        ).as_dict(),
        "layers": [layer.as_dict()],
    }
    if annotations:
        document["annotations"] = dict(sorted(annotations.items()))
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def _invalid(detail: str) -> PackageRefused:
    return PackageRefused("manifest_invalid", detail)


def _document(content: bytes) -> Mapping[str, Any]:
    try:
        document = read_json(content, max_bytes=MAX_MANIFEST_BYTES, max_depth=16)
    except Unreadable as error:
        raise _invalid(f"the manifest is not valid JSON: {error.reason}") from None
    if not isinstance(document, dict):
        raise _invalid("the manifest is not an object")
    return document


def _refuse_other_types(document: Mapping[str, Any], sent: str) -> None:
    own = document.get("mediaType", "")
    if {own, sent} & set(INDEX_TYPES) or "manifests" in document:
        raise PackageRefused("index_refused", "an index of several manifests is not a package")
    if document.get("schemaVersion") != 2 or "fsLayers" in document:  # noqa: PLR2004
        raise _invalid("the manifest is not of schema version 2")
    if own not in ("", *MANIFEST_TYPES) or sent not in ("", *MANIFEST_TYPES):
        raise PackageRefused("manifest_media_type", "the manifest has an unknown media type")
    if own and sent and own != sent:
        raise PackageRefused(
            "manifest_media_type", "the manifest is sent with another media type than it has"
        )


def _descriptors(document: Mapping[str, Any]) -> list[Descriptor]:
    layers = document.get("layers")
    if not isinstance(layers, list) or len(layers) > _MAX_LAYERS:
        raise _invalid(f"`layers` is not a list of at most {_MAX_LAYERS} layers")
    return [_descriptor(layer) for layer in layers]


def _descriptor(value: object) -> Descriptor:
    if not isinstance(value, dict):
        raise _invalid("a layer is not an object")
    digest, size = value.get("digest"), value.get("size")
    if not isinstance(digest, str) or not DIGEST.match(digest):
        raise PackageRefused("digest_invalid", "the digest of a layer is not a sha256 digest")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise PackageRefused("size_invalid", "the size of a layer is not a number of bytes")
    return Descriptor(media_type=_text(value, "mediaType"), digest=digest, size=size)


def _text(document: Mapping[str, Any], key: str) -> str:
    value = document.get(key, "")
    if not isinstance(value, str) or len(value) > _MAX_TYPE:
        raise _invalid(f"`{key}` is not a text of at most {_MAX_TYPE} characters")
    return value


def _artifact_type(document: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the type, else that of the configuration; and whether this is a container image."""
    config = document.get("config", {})
    if not isinstance(config, dict):
        raise _invalid("`config` is not an object")
    own, of_config = _text(document, "artifactType"), _text(config, "mediaType")
    if not own and of_config in _IMAGE_CONFIGS:
        return "", True
    return own or ("" if of_config == EMPTY_CONFIG else of_config), False


def _package_layer(layers: list[Descriptor]) -> tuple[Descriptor | None, str, str]:
    """Return the layer, or the code and reason why this is not a package."""
    found = [layer for layer in layers if layer.media_type.endswith(LAYER_SUFFIX)]
    if not found:
        return None, "layer_media_type", f"no layer has a media type that ends in {LAYER_SUFFIX}"
    if len(found) > 1:
        return None, "layer_count", f"{len(found)} layers are {LAYER_SUFFIX}, not one"
    if found[0].size > LIMITS.compressed:
        return None, "layer_too_large", "the layer is larger than 32 MiB"
    if not found[0].size:
        return None, "size_invalid", "the layer is empty"
    return found[0], "", ""


def _annotations(document: Mapping[str, Any]) -> dict[str, str]:
    found = document.get("annotations") or {}
    if not isinstance(found, dict) or len(found) > _MAX_ANNOTATIONS:
        raise _invalid(f"`annotations` is not an object of at most {_MAX_ANNOTATIONS} texts")
    if not all(isinstance(text, str) and len(text) <= _MAX_TEXT for text in found.values()):
        raise _invalid(f"an annotation is not a text of at most {_MAX_TEXT} characters")
    return dict(found)
