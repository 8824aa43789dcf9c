"""The calls of a registry's API that this project uses (reference: control-plane 5.2)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from apps.oci.domain.challenges import next_link
from apps.oci.domain.manifest import (
    INDEX_TYPES,
    MANIFEST_TYPES,
    MAX_MANIFEST_BYTES,
    OCI_MANIFEST,
    Descriptor,
    Manifest,
    digest_of,
    read_manifest,
)
from apps.oci.domain.package import DigestMismatch, PackageNotFound, PackageRefused
from apps.oci.domain.reference import DIGEST, TAG
from apps.oci.domain.repositories import CatalogRefused, RegistryFailure
from apps.oci.services.registry_session import (
    Answer,
    RegistrySession,
    join_url,
    origin,
    with_query,
)
from apps.platform_settings.api import ImageRegistry
from readers import Unreadable
from readers.json import read_json

MAX_REPOSITORIES: Final = 10_000
MAX_TAGS: Final = 1_000
_PAGE: Final = 200
_MAX_PAGE_BYTES: Final = 4 * 2**20
_SMALL: Final = 64 * 1024
_ACCEPT: Final = {"Accept": ", ".join(MANIFEST_TYPES)}
_ACCEPT_ALL: Final = {"Accept": ", ".join((*MANIFEST_TYPES, *INDEX_TYPES))}


class RegistryClient:
    def __init__(self, session: RegistrySession) -> None:
        self._http = session

    @classmethod
    def of(cls, registry: ImageRegistry) -> RegistryClient:
        return cls(RegistrySession(registry))

    async def __aenter__(self) -> RegistryClient:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._http.aclose()

    async def ping(self) -> None:
        """Raise RegistryFailure unless the registry answers and accepts us."""
        answer = await self._http.send("GET", "/v2/", limit=_SMALL)
        if answer.status != HTTPStatus.OK:
            raise _failure_of(answer)

    async def repositories(self) -> list[str]:
        """Return the names of `_catalog`; raise CatalogRefused, RegistryFailure."""
        try:
            return await self._list_names(
                f"/v2/_catalog?n={_PAGE}", "repositories", MAX_REPOSITORIES, "registry:catalog:*"
            )
        except RegistryFailure as error:
            if error.status in (401, 403, 404):
                raise CatalogRefused(
                    "catalog_refused",
                    f"the registry does not list its repositories ({error.status})",
                    status=error.status,
                ) from None
            raise

    async def tags(self, path: str) -> list[str]:
        """Return the tags of a repository; those that are no tags are left out."""
        found = await self._list_names(f"/v2/{path}/tags/list", "tags", MAX_TAGS, pull_scope(path))
        return [tag for tag in found if TAG.match(tag)]

    async def _list_names(self, target: str, key: str, most: int, scope: str) -> list[str]:
        names: list[str] = []
        while target:
            answer = await self._http.send("GET", target, limit=_MAX_PAGE_BYTES, scope=scope)
            if answer.status != HTTPStatus.OK:
                raise _failure_of(answer)
            page = _names(answer, key)
            names += page
            target = self._next(answer) if len(names) < most and page else ""
        return names[:most]

    def _next(self, answer: Answer) -> str:
        """Return the next page, "" at the last one; raise RegistryFailure for another host."""
        link = next_link(answer.header("link"))
        if not link:
            return ""
        url = join_url(self._http.base.join(answer.url), link)
        if origin(url) != origin(self._http.base):
            raise RegistryFailure("link_refused", "the next page of a list is on another host")
        return str(url)

    async def manifest_digest(self, path: str, tag: str) -> str:
        """Return the digest of a tag's manifest as the registry says, or "" where it does not."""
        answer = await self._http.send(
            "HEAD", f"/v2/{path}/manifests/{tag}", limit=0, scope=pull_scope(path), headers=_ACCEPT
        )
        if answer.status != HTTPStatus.OK:
            return ""
        digest = answer.header("docker-content-digest")
        return digest if DIGEST.match(digest) else ""

    async def tagged_digest(self, path: str, tag: str) -> str:
        """Return the digest of whatever a tag names now, "" for a tag that there is not.

        For who may push; raise RegistryFailure where it cannot be known.
        """
        target, scope = f"/v2/{path}/manifests/{tag}", push_scope(path)
        answer = await self._http.send("HEAD", target, limit=0, scope=scope, headers=_ACCEPT_ALL)
        if answer.status == HTTPStatus.NOT_FOUND:
            return ""
        if answer.status != HTTPStatus.OK:
            raise _failure_of(answer)
        digest = answer.header("docker-content-digest")
        if DIGEST.match(digest):
            return digest
        answer = await self._http.send(
            "GET", target, limit=MAX_MANIFEST_BYTES, scope=scope, headers=_ACCEPT_ALL
        )
        if answer.status != HTTPStatus.OK:
            raise _failure_of(answer)
        return digest_of(answer.body)

    async def manifest(self, path: str, tag_or_digest: str) -> Manifest:
        """Return a checked manifest; raise PackageNotFound, PackageRefused, RegistryFailure."""
        target = f"/v2/{path}/manifests/{tag_or_digest}"
        try:
            answer = await self._http.send(
                "GET", target, limit=MAX_MANIFEST_BYTES, scope=pull_scope(path), headers=_ACCEPT
            )
        except RegistryFailure as error:
            if error.code == "response_too_large":
                raise PackageRefused(
                    "manifest_too_large", "the manifest is larger than 1 MiB"
                ) from None
            raise
        if answer.status == HTTPStatus.NOT_FOUND:
            mark = "@" if ":" in tag_or_digest else ":"
            raise PackageNotFound(f"the registry has no {path}{mark}{tag_or_digest}")
        if answer.status != HTTPStatus.OK:
            raise _failure_of(answer)
        expected = tag_or_digest if DIGEST.match(tag_or_digest) else ""
        return read_manifest(
            answer.body, media_type=answer.header("content-type"), expected=expected
        )

    async def layer(self, path: str, layer: Descriptor) -> bytes:
        """Return a blob of the size and digest that its manifest says."""
        target = f"/v2/{path}/blobs/{layer.digest}"
        try:
            answer = await self._http.send("GET", target, limit=layer.size, scope=pull_scope(path))
        except RegistryFailure as error:
            if error.code == "response_too_large":
                raise PackageRefused(
                    "size_mismatch", "the layer is larger than its manifest says"
                ) from None
            raise
        if answer.status == HTTPStatus.NOT_FOUND:
            raise PackageNotFound(f"{path} has no layer {layer.digest} in its registry")
        if answer.status != HTTPStatus.OK:
            raise _failure_of(answer)
        if len(answer.body) != layer.size:
            raise PackageRefused("size_mismatch", "the layer is smaller than its manifest says")
        if (found := digest_of(answer.body)) != layer.digest:
            raise DigestMismatch(f"the layer has the digest {found}, not {layer.digest}")
        return answer.body

    async def push_blob(self, path: str, content: bytes) -> None:
        """Upload a blob, unless the registry has it."""
        digest, scope = digest_of(content), push_scope(path)
        known = await self._http.send("HEAD", f"/v2/{path}/blobs/{digest}", limit=0, scope=scope)
        if known.status == HTTPStatus.OK:
            return
        begun = await self._http.send(
            "POST", f"/v2/{path}/blobs/uploads/", limit=_SMALL, scope=scope
        )
        location = begun.header("location")
        if begun.status != HTTPStatus.ACCEPTED or not location:
            raise _failure_of(begun)
        ended = await self._http.send(
            "PUT",
            with_query(str(join_url(self._http.base, location)), digest=digest),
            limit=_SMALL,
            scope=scope,
            headers={"Content-Type": "application/octet-stream"},
            body=content,
        )
        if ended.status != HTTPStatus.CREATED:
            raise _failure_of(ended)

    async def push_manifest(self, path: str, tag_or_digest: str, content: bytes) -> None:
        answer = await self._http.send(
            "PUT",
            f"/v2/{path}/manifests/{tag_or_digest}",
            limit=_SMALL,
            scope=push_scope(path),
            headers={"Content-Type": OCI_MANIFEST},
            body=content,
        )
        if answer.status != HTTPStatus.CREATED:
            raise _failure_of(answer)


def pull_scope(path: str) -> str:
    return f"repository:{path}:pull"


def push_scope(path: str) -> str:
    return f"repository:{path}:pull,push"


def _names(answer: Answer, key: str) -> list[str]:
    try:
        document: Any = read_json(answer.body, max_bytes=_MAX_PAGE_BYTES, max_depth=8)
    except Unreadable as error:
        raise RegistryFailure(
            "invalid_response", f"the list of {key} is not valid JSON: {error.reason}"
        ) from None
    found = document.get(key) if isinstance(document, dict) else None
    if found is None and isinstance(document, dict) and key in document:
        return []  # what registries answer for a repository without tags
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise RegistryFailure("invalid_response", f"the registry answers without a list of {key}")
    return found


def _failure_of(answer: Answer) -> RegistryFailure:
    if answer.status == HTTPStatus.FORBIDDEN:
        return RegistryFailure("unauthorized", "the registry refuses access (403)", status=403)
    if answer.status == HTTPStatus.NOT_FOUND:
        return RegistryFailure("not_found", "the registry answers 404", status=404)
    detail = f"the registry answers {answer.status}"
    return RegistryFailure("invalid_response", detail, status=answer.status)
