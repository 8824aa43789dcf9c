"""The Helm chart and the kustomization, rendered, object by object."""

from __future__ import annotations

import pytest

from tests.support import manifests
from tests.support.manifests import BASE, STORES

pytestmark = [pytest.mark.slow, pytest.mark.cluster]  # two programs, which a cluster's build has


@pytest.mark.parametrize(("folder", "stores"), [(BASE, "false"), (STORES, "true")])
def test_the_chart_and_the_kustomization_are_the_same_objects(folder, stores, tmp_path):
    by_chart = manifests.render_chart("team-a", stores__enabled=stores)
    by_kustomization = manifests.render_kustomization(folder, "team-a", tmp_path)

    assert by_chart.keys() == by_kustomization.keys()
    for key, made in by_kustomization.items():
        assert by_chart[key] == made, key


def test_the_values_of_the_chart_reach_the_objects():
    found = manifests.render_chart(
        "team-a",
        publicUrl="https://partita.example.org",
        sharedClaim="files",
        redisAddress="redis.example.org:6379",
        image__repository="registry.example.org/partita",
        image__tag="9.9.9",
        settings__LOG_LEVEL="DEBUG",
        web__replicas="3",
    )

    settings = found["ConfigMap", "partita"]["data"]
    assert settings["PUBLIC_API_URL"] == "https://partita.example.org"
    assert settings["PARTITA_CONFIG_SHARED_CLAIM"] == "files"
    assert settings["REDIS_ADDR"] == "redis.example.org:6379"
    assert settings["LOG_LEVEL"] == "DEBUG"
    web = found["Deployment", "partita-web"]["spec"]
    assert web["replicas"] == 3
    assert web["template"]["spec"]["containers"][0]["image"] == "registry.example.org/partita:9.9.9"
    binding = found["RoleBinding", "partita-runner"]
    assert binding["subjects"][0]["namespace"] == "team-a"
    assert ("StatefulSet", "partita-redis") not in found
