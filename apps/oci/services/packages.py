"""Pulling packages into the store, and pushing them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from apps.oci.domain.manifest import (
    EMPTY_JSON,
    Descriptor,
    Manifest,
    build_manifest,
    digest_of,
)
from apps.oci.domain.package import (
    LAYER_TYPES,
    SUITE_TYPE,
    Package,
    PackageNotFound,
    PackageRefused,
    Pushed,
    TagTaken,
    unpack_layer,
)
from apps.oci.domain.reference import InvalidReference, Reference, parse_reference
from apps.oci.domain.repositories import RegistryFailure, RegistryUnreachable
from apps.oci.domain.scanned import PulledPackage
from apps.oci.models import LayerPart, StoredPackage
from apps.oci.selectors import find_repository, stored_package
from apps.operations.api import raise_generation
from apps.platform_settings.api import ImageRegistry, registries
from apps.streams.api import unit_of_work
from kernel import clock
from readers.archive import LIMITS, content_digest, pack

if TYPE_CHECKING:
    from apps.oci.services.registry_client import RegistryClient

T = TypeVar("T")

PULL_S: Final = 20.0
PUSH_S: Final = 60.0
PART_BYTES: Final = 8 * 2**20
_ON_A_THREAD: Final = 128 * 1024  # larger layers are not unpacked on the event loop
_TOP: Final = "package"


def pull(reference: Reference | str) -> Package:
    """Return a package, from the store where its digest is known, else from its registry now.

    Must not be called in a unit of work: the network takes up to 20 s. Raise InvalidReference,
    RegistryUnreachable, PackageNotFound, PackageRefused, DigestMismatch.
    """
    asked = parse_reference(reference) if isinstance(reference, str) else reference
    if not asked.tag and not asked.digest:
        raise InvalidReference(f"{asked}: a tag or a digest is required")
    if asked.digest and (found := _find_stored(asked, asked.digest)):
        return found
    try:
        pulled = _fetch(registry_for(asked), asked)
    except RegistryFailure as error:
        if found := _find_last_known(asked):
            return found
        raise RegistryUnreachable(error.code, f"{asked.host}: {error.detail}") from error
    if isinstance(pulled, Package):
        return pulled
    store_packages([pulled])
    return pulled.as_package(asked)


def _fetch(registry: ImageRegistry, asked: Reference) -> PulledPackage | Package:
    """Return what the registry has, or the stored package of the same digest.

    The event loop stands still while the store is asked: it serves this call alone.
    """
    deadline = time.monotonic() + PULL_S
    client = open_client(registry)
    with asyncio.Runner() as runner:
        try:
            manifest = runner.run(
                within(deadline, client.manifest(asked.path, asked.digest or asked.tag))
            )
            if found := _find_stored(asked, manifest.digest):
                return found
            return runner.run(within(deadline, pull_layer(client, asked.path, manifest)))
        finally:
            runner.run(client.aclose())


def _find_stored(asked: Reference, digest: str) -> Package | None:
    return stored_package(digest, repository=asked.repository, tag=asked.tag)


def _find_last_known(asked: Reference) -> Package | None:
    """Find the stored content of a tag that the last synchronization saw."""
    known = find_repository(asked.repository)
    if asked.digest or known is None or known.version != asked.tag or not known.digest:
        return None
    return _find_stored(asked, known.digest)


def registry_for(reference: Reference) -> ImageRegistry:
    """Return the first registry of the host whose scope covers the path; raise PackageNotFound."""
    for registry in registries():
        if registry.host == reference.host and registry.covers(reference.path):
            return registry
    unserved = f"no registry of the platform settings serves {reference.repository}"
    if known := next((each for each in registries() if each.host == reference.host), None):
        scope = f"the repositoryScope of {known.registry_id}"
        raise PackageNotFound(f"{unserved}: it is outside {scope}")
    raise PackageNotFound(f"{unserved}; an administrator adds one on /settings/registries")


async def pull_layer(client: RegistryClient, path: str, manifest: Manifest) -> PulledPackage:
    """Fetch and check; raise PackageNotFound, PackageRefused, RegistryFailure."""
    return await unpack_package(manifest, await client.layer(path, manifest.package_layer()))


async def unpack_package(manifest: Manifest, layer: bytes) -> PulledPackage:
    """Unpack a layer, a large one on a thread; raise PackageRefused."""
    if len(layer) > _ON_A_THREAD:
        return await asyncio.to_thread(_unpack, manifest, layer)
    return _unpack(manifest, layer)


def _unpack(manifest: Manifest, layer: bytes) -> PulledPackage:
    files = unpack_layer(layer)
    return PulledPackage(
        manifest=manifest, layer=layer, content_digest=content_digest(files), files=files
    )


@unit_of_work
def store_packages(packages: list[PulledPackage]) -> None:
    """Store packages that are not stored yet."""
    known = StoredPackage.objects.filter(digest__in=[each.manifest.digest for each in packages])
    stored = set(known.values_list("digest", flat=True))
    new = {each.manifest.digest: each for each in packages if each.manifest.digest not in stored}
    if not new:
        return
    LayerPart.objects.filter(digest__in=list(new)).delete()
    StoredPackage.objects.bulk_create(_row(each) for each in new.values())
    LayerPart.objects.bulk_create(
        [part for each in new.values() for part in _parts(each)], batch_size=8
    )
    raise_generation("catalog")


def _row(pulled: PulledPackage) -> StoredPackage:
    return StoredPackage(
        digest=pulled.manifest.digest,
        manifest=pulled.manifest.content,
        content_digest=pulled.content_digest,
        size=len(pulled.layer),
        created_at=clock.now(),
    )


def _parts(pulled: PulledPackage) -> list[LayerPart]:
    return [
        LayerPart(
            digest=pulled.manifest.digest,
            number=number,
            content=pulled.layer[start : start + PART_BYTES],
        )
        for number, start in enumerate(range(0, len(pulled.layer), PART_BYTES))
    ]


def push(
    reference: Reference | str,
    files: Mapping[str, bytes],
    *,
    artifact_type: str = SUITE_TYPE,
    annotations: Mapping[str, str] | None = None,
    force: bool = False,
) -> Pushed:
    """Push files as a package under a tag; equal files and annotations give the same digest.

    Nothing is sent where the tag names this package already. Raise TagTaken where it names another
    one, unless with `force`; InvalidReference, PackageRefused, PackageNotFound (no such registry),
    RegistryUnreachable.
    """
    asked = parse_reference(reference) if isinstance(reference, str) else reference
    if not asked.tag or asked.digest:
        raise InvalidReference(f"{asked}: a push needs a tag and no digest")
    layer = _layer_of(files)
    descriptor = Descriptor(
        media_type=LAYER_TYPES.get(artifact_type, LAYER_TYPES[SUITE_TYPE]),
        digest=digest_of(layer),
        size=len(layer),
    )
    manifest = build_manifest(
        descriptor, artifact_type=artifact_type, annotations=annotations or {}
    )
    try:
        registry = registry_for(asked)
        deadline = time.monotonic() + PUSH_S
        push_it = _push(registry, asked, layer, manifest, force=force)
        is_new = asyncio.run(within(deadline, push_it))
    except RegistryFailure as error:
        raise RegistryUnreachable(error.code, f"{asked.host}: {error.detail}") from error
    return Pushed(
        digest=digest_of(manifest),
        content_digest=content_digest(files),
        size=len(layer),
        is_new=is_new,
    )


def _layer_of(files: Mapping[str, bytes]) -> bytes:
    """Return an archive that is unpacked to equal files; raise PackageRefused."""
    if not files:
        raise PackageRefused("empty", "the package has no files")
    one_top = len({path.partition("/")[0] for path in files}) == 1
    if one_top and all("/" in path for path in files):  # which readers would strip
        layer = pack({f"{_TOP}/{path}": content for path, content in files.items()})
    else:
        layer = pack(files)
    if len(layer) > LIMITS.compressed:
        raise PackageRefused("too_large", "the package is larger than 32 MiB compressed")
    if unpack_layer(layer) != dict(files):
        raise PackageRefused("path_invalid", "hidden files are not part of a package")
    return layer


async def _push(
    registry: ImageRegistry, asked: Reference, layer: bytes, manifest: bytes, *, force: bool
) -> bool:
    """Upload a package; return False where its tag names it already. Raise TagTaken."""
    async with open_client(registry) as client:
        present = await client.tagged_digest(asked.path, asked.tag)
        if present == (digest := digest_of(manifest)):
            return False
        if present and not force:
            raise TagTaken(
                f"{asked} is {present} already, and would become {digest}; "
                "choose another tag, or move this one with --force"
            )
        for blob in (EMPTY_JSON, layer):
            await client.push_blob(asked.path, blob)
        await client.push_manifest(asked.path, asked.tag, manifest)
    return True


def open_client(registry: ImageRegistry) -> RegistryClient:
    """Return a client, to be closed. Commands that ask no registry do without its HTTP library."""
    from apps.oci.services.registry_client import RegistryClient  # httpx is slow to import

    return RegistryClient.of(registry)


async def within(deadline: float, work: Awaitable[T]) -> T:
    """Return the result of `work`; raise RegistryFailure at the deadline (`time.monotonic`)."""
    try:
        async with asyncio.timeout(deadline - time.monotonic()):
            return await work
    except TimeoutError:
        raise RegistryFailure("timeout", "the registry took too long") from None
