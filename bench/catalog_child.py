"""`python -m bench.catalog_child`: synchronizes a registry, or reads it one request at a time."""

from __future__ import annotations

import time
from typing import Any

import django
import httpx
import psutil

from bench.stand import answer, questions


def main() -> None:
    django.setup()
    for question in questions():
        before = psutil.Process().cpu_times()
        began = time.perf_counter()
        found = _answer_to(question)
        took = time.perf_counter() - began
        after = psutil.Process().cpu_times()
        answer(
            seconds=took,
            cpu=after.user + after.system - before.user - before.system,
            mb=psutil.Process().memory_info().rss / 2**20,
            **found,
        )


def _answer_to(question: dict[str, Any]) -> dict[str, Any]:
    if "serial" in question:
        return _read_serially(question["serial"])
    if "unchanged" in question:
        return _ask_serially(question["unchanged"])
    return _synchronized(question)


def _synchronized(question: dict[str, Any]) -> dict[str, Any]:
    from apps.oci.api import list_repositories, sync_registry
    from apps.oci.services.sync import sync_due

    if "due" in question:
        from apps.oci.models import RegistryState
        from kernel import clock

        RegistryState.objects.update(due_at=clock.now())
        return {"synced": sync_due()}
    result = sync_registry(question["sync"])
    pulled = sum(1 for each in list_repositories() if each.pulled)
    return {"errors": len(result.errors), "repositories": result.packages, "pulled": pulled}


def _names(client: httpx.Client) -> list[str]:
    names: list[str] = []
    page = "/v2/_catalog?n=200"
    while page:
        got = client.get(page).raise_for_status()
        names += got.json()["repositories"]
        page = got.links.get("next", {}).get("url", "")
    return names


def _ask_serially(url: str) -> dict[str, Any]:
    """Catalog, then for each repository tags and the digest of the newest version."""
    from apps.oci.domain.manifest import OCI_MANIFEST
    from apps.oci.domain.repositories import chosen_tag, sorted_tags

    accept = {"Accept": OCI_MANIFEST}
    with httpx.Client(base_url=url, trust_env=False, timeout=10) as client:
        names = _names(client)
        for name in names:
            tags = client.get(f"/v2/{name}/tags/list").raise_for_status().json()["tags"]
            path = f"/v2/{name}/manifests/{chosen_tag(sorted_tags(tags))}"
            client.head(path, headers=accept).raise_for_status()
    return {"errors": 0, "repositories": len(names)}


def _read_serially(url: str) -> dict[str, Any]:
    """Catalog, then for each repository tags, manifest and layer, checked and unpacked."""
    from apps.oci.domain.manifest import OCI_MANIFEST, digest_of, read_manifest
    from apps.oci.domain.repositories import chosen_tag, sorted_tags
    from readers.archive import unpack

    pulled = 0
    with httpx.Client(base_url=url, trust_env=False, timeout=10) as client:
        names = _names(client)
        for name in names:
            tags = client.get(f"/v2/{name}/tags/list").raise_for_status().json()["tags"]
            version = chosen_tag(sorted_tags(tags))
            accept = {"Accept": OCI_MANIFEST}
            path = f"/v2/{name}/manifests/{version}"
            content = client.get(path, headers=accept).raise_for_status().content
            layer = read_manifest(content).package_layer()
            blob = client.get(f"/v2/{name}/blobs/{layer.digest}").raise_for_status().content
            assert digest_of(blob) == layer.digest
            unpack(blob)
            pulled += 1
    return {"errors": 0, "repositories": len(names), "pulled": pulled}


if __name__ == "__main__":
    main()
