"""The storage folder of a docker-registry with many repositories, written without pushing."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

from apps.oci.domain.manifest import EMPTY_JSON, Descriptor, build_manifest, digest_of
from apps.oci.domain.package import LAYER_TYPES, SUITE_TYPE
from readers.archive import pack

TAGS: Final = ("1.0.0", "1.1.0", "1.2.0", "2.0.0", "latest")


def fill(storage: Path, repositories: int) -> None:
    """Write that many repositories of five tags; each has files of its own."""
    root = storage / "docker/registry/v2"
    draw = random.Random(7)
    _blob(root, EMPTY_JSON)
    for number in range(repositories):
        path = f"team{number % 20}/suite{number:04}"
        for tag in TAGS:
            _tag(root, path, tag, pack(_files(draw, number, tag)))


def _files(draw: random.Random, number: int, tag: str) -> dict[str, bytes]:
    """Some ten files, 12 kB: about what the examples of this project have."""
    words = [f"word{draw.randrange(10**6)}" for _ in range(120)]
    text = " ".join(words).encode()
    return {
        "suite.star": b"# " + text + f"\n# {number} {tag}\n".encode(),
        "README.md": b"# Suite\n\n" + text,
        "metadata.yaml": f"title: Suite {number}\nversion: {tag}\n".encode(),
        **{f"profiles/p{index}.yaml": b"# " + text[index:] for index in range(3)},
        **{f"tests/t{index}.sh": b"#!/bin/sh\n# " + text[index:] for index in range(4)},
    }


def _tag(root: Path, path: str, tag: str, layer: bytes) -> None:
    descriptor = Descriptor(
        media_type=LAYER_TYPES[SUITE_TYPE], digest=digest_of(layer), size=len(layer)
    )
    manifest = build_manifest(descriptor, artifact_type=SUITE_TYPE, annotations={})
    digest = digest_of(manifest)
    own = root / "repositories" / path
    for content in (layer, manifest):
        _blob(root, content)
    for blob in (layer, EMPTY_JSON):
        _link(own / "_layers", digest_of(blob))
    _link(own / "_manifests/revisions", digest)
    _link(own / f"_manifests/tags/{tag}/index", digest)
    _write(own / f"_manifests/tags/{tag}/current/link", digest.encode())


def _blob(root: Path, content: bytes) -> None:
    algorithm, _, hexadecimal = digest_of(content).partition(":")
    _write(root / "blobs" / algorithm / hexadecimal[:2] / hexadecimal / "data", content)


def _link(folder: Path, digest: str) -> None:
    algorithm, _, hexadecimal = digest.partition(":")
    _write(folder / algorithm / hexadecimal / "link", digest.encode())


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
