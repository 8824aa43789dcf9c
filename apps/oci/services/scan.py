"""One pass over a registry: what it offers, beside what the index already knows.

    for batch in scan(registry, known, stored):   # batches, so that memory stays flat
        ...                                          # the event loop stands still meanwhile

At most `IN_FLIGHT` repositories are read at a time. Each costs one request for its tags and one for
the digest of its version; only a digest that is not stored costs a manifest and a layer. A scan in
the background asks for the digest of an unchanged version in one of twelve turns: such tags hardly
ever move, and whoever pulls one by its tag asks the registry anyway.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Set
from contextlib import nullcontext
from dataclasses import replace
from typing import Final
from zlib import crc32

from apps.oci.domain.manifest import Descriptor, Manifest
from apps.oci.domain.package import LAYER_TYPES, PackageNotFound, PackageRefused
from apps.oci.domain.reference import is_repository_name
from apps.oci.domain.repositories import (
    IN_FLIGHT,
    LATEST,
    CatalogRefused,
    RegistryFailure,
    RepositoryError,
    chosen_tag,
    sorted_tags,
)
from apps.oci.domain.scanned import SYNC_S, KnownRepository, PulledPackage, ScannedRepository
from apps.oci.services.packages import open_client, unpack_package
from apps.platform_settings.api import ImageRegistry
from kernel.errors import PlatformError

_NO_LAYER: Final = "layer_media_type"
_TURNS: Final = 12  # after so many scans in the background, every digest was asked for
_BATCH: Final = 64  # repositories
_BATCH_BYTES: Final = 8 * 2**20  # of layers
_LARGE_BYTES: Final = 4 * 2**20
_LARGE_AT_ONCE: Final = 2


class Scan:
    """Iterate over batches of scanned repositories; afterwards `names` and `errors` are complete.

    `turn` counts the scans in the background; None asks for every digest. Raise RegistryFailure
    where the registry as a whole cannot be read.
    """

    def __init__(
        self,
        registry: ImageRegistry,
        known: Mapping[str, KnownRepository],
        stored: Set[str],
        *,
        turn: int | None = None,
        within_s: float = SYNC_S,
    ) -> None:
        self._registry = registry
        self._known = known
        self._stored = stored
        self._turn = turn
        self._client = open_client(registry)
        self._deadline = time.monotonic() + within_s
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)
        self._unpacking = asyncio.Semaphore(_LARGE_AT_ONCE)
        self._tasks: list[asyncio.Task[None]] = []
        self.names: list[str] = []
        self.errors: list[RepositoryError] = []

    def __iter__(self) -> Iterator[list[ScannedRepository]]:
        with asyncio.Runner() as runner:
            try:
                self.names = runner.run(self._list_repositories())
                yield from self._batches(runner)
            finally:
                runner.run(self._client.aclose())

    async def _list_repositories(self) -> list[str]:
        """Return the repositories within the scope; raise RegistryFailure."""
        try:
            async with asyncio.timeout_at(self._loop_deadline()):
                names = await self._client.repositories()
        except TimeoutError:
            raise RegistryFailure("timeout", "the registry took too long") from None
        except CatalogRefused:
            if not self._registry.scope:
                raise
            names = [name.lower() for name in self._registry.scope]
        wrong = [name for name in names if not is_repository_name(name)]
        self.errors += [
            RepositoryError(repository=name[:255], code="name_invalid", detail="is not a name")
            for name in wrong[:10]
        ]
        covers = replace(
            self._registry, scope=tuple(name.lower() for name in self._registry.scope)
        ).covers
        return [name for name in dict.fromkeys(names) if is_repository_name(name) and covers(name)]

    def _loop_deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._deadline - time.monotonic()

    def _batches(self, runner: asyncio.Runner) -> Iterator[list[ScannedRepository]]:
        """Start the work once and take its results in batches."""
        queue: asyncio.Queue[ScannedRepository | None] = (
            asyncio.Queue()
        )  # the workers stand still with us
        runner.run(self._start(queue))
        done = False
        while not done:
            batch, done = runner.run(self._batch(queue))
            if batch:
                yield batch

    async def _start(self, queue: asyncio.Queue[ScannedRepository | None]) -> None:
        task = asyncio.create_task(self._work(queue))
        self._tasks.append(task)

    async def _work(self, queue: asyncio.Queue[ScannedRepository | None]) -> None:
        names = iter(self.names)
        try:
            async with asyncio.timeout_at(self._loop_deadline()), asyncio.TaskGroup() as group:
                _workers = [group.create_task(self._worker(names, queue)) for _ in range(IN_FLIGHT)]
        except TimeoutError:
            self.errors.append(
                RepositoryError(
                    repository="", code="timeout", detail="the synchronization took too long"
                )
            )
        finally:
            queue.put_nowait(None)

    async def _worker(
        self, names: Iterator[str], queue: asyncio.Queue[ScannedRepository | None]
    ) -> None:
        for name in names:
            queue.put_nowait(await self._scan_repository(name))

    async def _batch(
        self, queue: asyncio.Queue[ScannedRepository | None]
    ) -> tuple[list[ScannedRepository], bool]:
        batch: list[ScannedRepository] = []
        size = 0
        while len(batch) < _BATCH and size < _BATCH_BYTES:
            scanned = await queue.get()
            if scanned is None:
                await asyncio.gather(*self._tasks)
                return batch, True
            batch.append(scanned)
            size += len(scanned.pulled.layer) if scanned.pulled else 0
        return batch, False

    async def _scan_repository(self, path: str) -> ScannedRepository:
        try:
            return await self._read_repository(path)
        except RegistryFailure as error:
            return self._add_error(ScannedRepository(path=path), error.code, error.detail)

    def _add_error(self, scanned: ScannedRepository, code: str, detail: str) -> ScannedRepository:
        repository = f"{self._registry.host}/{scanned.path}"
        self.errors.append(RepositoryError(repository=repository, code=code, detail=detail))
        return replace(scanned, error_code=code, error_detail=detail)

    async def _read_repository(self, path: str) -> ScannedRepository:
        tags = await self._client.tags(path)
        version = chosen_tag(sorted_tags(tags))
        if not version:
            return self._add_error(
                ScannedRepository(path=path), "no_tags", "the repository has no tags"
            )
        digest = ""
        known = self._known.get(path)
        if known is not None and known.digest:
            digest = known.digest
            if not self._is_trusted(path, version, frozenset(tags), known):
                digest = await self._client.manifest_digest(path, version)
        if known is not None and digest and not self._is_open(known, digest):
            return self._copy_known(path, tuple(tags), version, known)
        return await self._pull(ScannedRepository(path=path, tags=tuple(tags), version=version))

    def _is_trusted(
        self, path: str, version: str, tags: frozenset[str], known: KnownRepository
    ) -> bool:
        """Return whether the digest of a version is taken as unchanged in this turn."""
        if (
            self._turn is None
            or version == LATEST
            or (version, tags) != (known.version, known.tags)
        ):
            return False
        return (crc32(path.encode()) + self._turn) % _TURNS != 0

    def _is_open(self, known: KnownRepository, digest: str) -> bool:
        """Return whether the digest is new, or its pull failed for a reason that may pass."""
        if digest != known.digest:
            return True
        return digest not in self._stored and (known.pulled or known.error_code in _PASSING)

    def _copy_known(
        self, path: str, tags: tuple[str, ...], version: str, known: KnownRepository
    ) -> ScannedRepository:
        scanned = ScannedRepository(
            path=path,
            tags=tags,
            version=version,
            digest=known.digest,
            artifact_type=known.artifact_type,
            media_types=known.media_types,
            is_stored=known.digest in self._stored,
        )
        if known.error_code:
            return self._refuse(scanned, known.error_code, known.error_detail)
        return scanned

    def _refuse(self, scanned: ScannedRepository, code: str, detail: str) -> ScannedRepository:
        """Return the repository with the reason why its content is not a package.

        An artifact of another kind, such as a signature, is no error of the synchronization.
        """
        if code == _NO_LAYER and scanned.artifact_type not in LAYER_TYPES:
            return replace(scanned, error_code=code, error_detail=detail)
        return self._add_error(scanned, code, detail)

    async def _pull(self, scanned: ScannedRepository) -> ScannedRepository:
        """Return the repository with its manifest, and with its content where that is new."""
        try:
            manifest = await self._client.manifest(scanned.path, scanned.version)
        except (PackageRefused, PackageNotFound) as error:
            return self._add_error(scanned, _code(error), error.detail)
        scanned = replace(
            scanned,
            digest=manifest.digest,
            artifact_type=manifest.artifact_type,
            media_types=manifest.media_types,
            is_stored=manifest.digest in self._stored,
        )
        if scanned.is_stored or manifest.is_image:
            return scanned
        if manifest.layer is None:
            return self._refuse(scanned, manifest.refusal, manifest.detail)
        try:
            pulled = await self._content(scanned.path, manifest, manifest.layer)
        except (PackageRefused, PackageNotFound, RegistryFailure) as error:
            return self._add_error(scanned, _code(error), error.detail)
        return replace(scanned, pulled=pulled, is_stored=True)

    async def _content(self, path: str, manifest: Manifest, layer: Descriptor) -> PulledPackage:
        """Return a package without its files, which nobody needs who only stores it.

        At most two layers beyond 4 MiB are held, and at most two are unpacked, at a time.
        """
        async with self._large if layer.size > _LARGE_BYTES else nullcontext():
            content = await self._client.layer(path, layer)
            async with self._unpacking:
                return replace(await unpack_package(manifest, content), files={})


_PASSING: Final = frozenset([
    "timeout", "registry_unreachable", "rate_limited", "unavailable", "unauthorized",
    "package_not_found", "not_found", "invalid_response", "tls_failed", "address_refused",
    "digest_mismatch", "size_mismatch", "too_many_redirects", "redirect_refused",
])  # fmt: skip


def _code(error: PlatformError | RegistryFailure) -> str:
    if isinstance(error, PackageRefused):
        return error.reason
    return error.code if isinstance(error, RegistryFailure) else error.problem_code
