"""The image of the process that holds a pod's namespaces."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile

from tests.support.kubernetes import config_files as config
from tests.support.kubernetes.programs import PAUSE


def pack_image() -> bytes:
    """Return it as `docker save` writes images."""
    layer = _tar({"pause": PAUSE.read_bytes()})
    image = {
        "architecture": "amd64" if os.uname().machine == "x86_64" else "arm64",
        "os": "linux",
        "config": {"Entrypoint": ["/pause"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_digest(layer)}"]},
    }
    about = json.dumps(image).encode()
    tag = config.PAUSE_IMAGE.removeprefix("docker.io/")
    manifest = [{"Config": "image.json", "RepoTags": [tag], "Layers": ["layer.tar"]}]
    files = {
        "image.json": about,
        "layer.tar": layer,
        "manifest.json": json.dumps(manifest).encode(),
    }
    return _tar(files)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _tar(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o755
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()
