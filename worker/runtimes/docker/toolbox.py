"""A static busybox for containers whose image has no shell, out of the helper image.

It is copied into the container: one that runs cannot get another mount (decision 0051).
"""

from __future__ import annotations

import asyncio
import io
import struct
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

import docker

from worker.domain.runtime import BUSYBOX, TOOLS, ImageMissing, ShellUnavailable
from worker.runtimes.docker.engine import APIError, ContainerEngine, NotFound, explanation
from worker.runtimes.docker.images import Images

APPLETS: Final = f"{TOOLS}/bin"  # behind the image's own programs in PATH
_PROGRAMS: Final = "/bin/."  # with the dot, a link at /bin is followed
_ARCHIVE_LIMIT: Final = 32 * 2**20
_ELF_64: Final = 2
_INTERPRETER: Final = 3  # PT_INTERP, the kind of program header that a static program lacks


class Toolbox:
    """Reads busybox out of the helper image once, and puts it into containers."""

    def __init__(self, engine: ContainerEngine, images: Images, image: str) -> None:
        self._engine = engine
        self._images = images
        self._image = image
        self._archive = b""
        self._lock = asyncio.Lock()

    async def put(self, container: str, labels: Mapping[str, str]) -> None:
        """Put busybox into a container, running or not; `labels`: of its run.

        Raises ShellUnavailable, APIError.
        """
        async with self._lock:
            if not self._archive:
                await self._ensure_image()
                self._archive = await self._engine.call(lambda client: self._read(client, labels))
        await self._engine.call(lambda client: client.put_archive(container, "/", self._archive))

    async def _ensure_image(self) -> None:
        try:
            await self._images.ensure(self._image, pulling=_ignore_pull)
        except ImageMissing as error:
            raise ShellUnavailable(f"the image of the step has no shell, and {error}") from error

    def _read(self, client: docker.APIClient, labels: Mapping[str, str]) -> bytes:
        """Return the archive, by a container that is never started."""
        helper = client.create_container(self._image, ["true"], labels=dict(labels))["Id"]
        try:
            stream, _ = client.get_archive(helper, _PROGRAMS)
            return build_archive(_content(stream))
        except NotFound as error:
            raise ShellUnavailable(_advice(self._image, "has no folder /bin")) from error
        except ToolboxInvalid as error:
            raise ShellUnavailable(_advice(self._image, str(error))) from error
        finally:
            _remove(client, helper)


class ToolboxInvalid(ValueError):
    """The helper image has no busybox that runs in every image; the message says what it has."""


def _advice(image: str, fact: str) -> str:
    return (
        f"the image of the step has no shell, and {image} {fact}: set STEP_INIT_IMAGE to an image "
        "with a static busybox, such as busybox:1.36-musl"
    )


def _remove(client: docker.APIClient, container: str) -> None:
    try:
        client.remove_container(container, v=True, force=True)
    except NotFound:  # a release of the run was faster
        return
    except APIError as error:
        raise ShellUnavailable(explanation(error)) from error


async def _ignore_pull(image: str) -> None:
    """Report nothing: a pull of the helper's image is not an event of the step."""
    del image


def _content(stream: Iterable[bytes]) -> bytes:
    content = bytearray()
    for chunk in stream:
        content += chunk
        if len(content) > _ARCHIVE_LIMIT:
            raise ToolboxInvalid(f"has more than {_ARCHIVE_LIMIT // 2**20} MiB in /bin")
    return bytes(content)


def build_archive(programs: bytes) -> bytes:
    """Return a tar for `/` with busybox and its applets, from a tar of the helper's /bin.

    Its applets are what links to it, in any way. Raises ToolboxInvalid.
    """
    with tarfile.open(fileobj=io.BytesIO(programs)) as source:
        members = {PurePosixPath(each.name).name: each for each in source}
        file = _file_of(members, "busybox")
        body = source.extractfile(file) if file else None
        busybox = body.read() if body else b""
    if not busybox:
        raise ToolboxInvalid("has no /bin/busybox")
    if not is_static(busybox):
        raise ToolboxInvalid("has a busybox that needs libraries")
    applets = sorted(name for name in members if name and _file_of(members, name) is file)
    return _archive(busybox, [name for name in applets if name != "busybox"])


def _file_of(members: Mapping[str, tarfile.TarInfo], name: str) -> tarfile.TarInfo | None:
    """Return the file that a name leads to; None for a folder, or a link out of the folder."""
    for _ in range(len(members)):
        found = members.get(name)
        if found is None or found.isreg():
            return found
        if not (found.issym() or found.islnk()):
            return None
        name = PurePosixPath(found.linkname).name
    return None


def _archive(busybox: bytes, applets: Iterable[str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for folder in (TOOLS, APPLETS):
            archive.addfile(_entry(folder, type=tarfile.DIRTYPE))
        archive.addfile(_entry(BUSYBOX, size=len(busybox)), io.BytesIO(busybox))
        for name in applets:
            link = {"type": tarfile.SYMTYPE, "linkname": "../busybox"}
            archive.addfile(_entry(f"{APPLETS}/{name}", **link))
    return out.getvalue()


def _entry(path: str, **fields: Any) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path.removeprefix("/"))
    entry.mode = 0o755
    for name, value in fields.items():
        setattr(entry, name, value)
    return entry


def is_static(program: bytes) -> bool:
    """Return whether an ELF program runs without an interpreter (elf(5))."""
    if program[:4] != b"\x7fELF":
        return False
    try:
        is_64, order = program[4] == _ELF_64, "<" if program[5] == 1 else ">"
        (start,) = struct.unpack_from(
            f"{order}{'Q' if is_64 else 'I'}", program, 32 if is_64 else 28
        )
        size, count = struct.unpack_from(f"{order}HH", program, 54 if is_64 else 42)
        kinds = [
            struct.unpack_from(f"{order}I", program, start + size * index)[0]
            for index in range(count)
        ]
    except (struct.error, IndexError):
        return False
    return _INTERPRETER not in kinds
