"""configuration.yaml: the parts that decide where steps run (reference: control-plane 4)."""

from __future__ import annotations

import logging

import pytest

from apps.health.api import probes
from apps.operations.api import mail_server
from apps.platform_settings.api import backends, global_overrides, select_backend
from apps.platform_settings.domain.document import SettingsInvalid, read_file
from apps.platform_settings.domain.fields import SettingsContext
from apps.platform_settings.domain.secrets import SecretManagers
from apps.platform_settings.services.effective import mode, secret_managers
from tests.support.threads import at_once

GOOD = """\
mode: hybrid
agents:
  - {agentId: local, name: Local Docker, type: local, enabled: true, default: true}
  - {agentId: edge, name: " Edge runner ", type: remote, routingTags: [zone=eu, " "]}
  - {agentId: off, name: Off, type: k8s, hostUrl: "https://k8s:6443", enabled: false}
registries:
  - {registryId: zot, name: Zot, provider: Zot, registryUrl: "http://zot:5000", secret: s3cr3t}
secrets: {provider: none}
notifications: {smtp: {host: mail, password: s3cr3t}}
description: ours
"""


@pytest.fixture(autouse=True)
def file(settings, tmp_path, transactional_db):
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "configuration.yaml"
    settings.CONFIG_VARIABLES = {"PARTITA_CONFIG_NAME": "From outside"}
    return settings.PLATFORM_SETTINGS_FILE


def readiness():
    return probes["platform-settings"].check()


def faults(text: str) -> list[tuple[str, str, int | None, int | None]]:
    with pytest.raises(SettingsInvalid) as caught:
        read_file(text, "configuration.yaml", SettingsContext())
    return [(fault.pointer, fault.code, fault.line, fault.column) for fault in caught.value.faults]


def test_the_first_error_is_that_of_the_agents_before_that_of_the_mode():
    found = faults("mode: odd\nagents: [{agentId: a, odd: 1}]\n")

    assert found[-1][0] == "/mode"
    assert found[0][0].startswith("/agents/0")


def test_without_a_file_there_is_one_local_backend(file):
    (only,) = backends()

    assert (only.backend_id, only.label, only.kind) == ("local-docker", "Local Docker", "local")
    assert mode() == "local"
    assert select_backend("", lambda _backend: "") == only
    assert readiness().ready


def test_the_enabled_backends_in_their_order(file):
    file.write_text(GOOD)

    local, edge = backends()

    assert (local.backend_id, local.kind, local.default) == ("local", "local", True)
    assert (edge.label, edge.kind, edge.type) == ("Edge runner", "remote-agent", "remote-agent")
    assert edge.routing_tags == ("zone=eu",)
    assert mode() == "hybrid"
    assert readiness().ready
    assert readiness().detail == "2 backends configured"


def test_a_changed_file_is_read_again(file):
    file.write_text(GOOD)
    assert mode() == "hybrid"

    file.write_text(GOOD.replace("hybrid", "remote"))

    assert mode() == "remote"


def test_an_invalid_file_keeps_the_last_good_settings_and_readiness_says_where(file, caplog):
    """Invariant 34: a settings file that cannot be used makes the platform not ready."""
    file.write_text(GOOD)
    before = backends()

    file.write_text(GOOD.replace("mode: hybrid", "mode: cloud"))

    with caplog.at_level(logging.ERROR):
        assert backends() == before
        assert mode() == "hybrid"
    assert not readiness().ready
    assert "configuration.yaml:1:7: mode must be local, remote or hybrid" in readiness().detail
    assert str(file.parent) not in readiness().detail
    faults = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(faults) == 1  # once a content, not once a look

    file.write_text(GOOD)
    assert readiness().ready


def test_a_file_that_cannot_be_read_keeps_the_last_good_settings(file):
    file.write_text(GOOD)
    before = backends()
    file.unlink()
    file.mkdir()

    assert backends() == before
    assert not readiness().ready

    file.rmdir()
    file.write_text(GOOD)
    assert readiness().ready


@pytest.mark.parametrize("text", ["", "mode: local\nagents: []\n"])
def test_a_file_without_backends_binds_the_built_in_one_and_is_not_ready(file, text):
    file.write_text(text)

    assert [backend.backend_id for backend in backends()] == ["local-docker"]
    assert not readiness().ready


@pytest.mark.parametrize("broken", [b"\xff\xfe", b"a: [", b"x" * (2**20 + 1)])
def test_what_is_no_settings_file_at_all_is_refused(file, broken):
    """Invariant 33."""
    file.write_bytes(broken)

    assert [backend.backend_id for backend in backends()] == ["local-docker"]
    assert not readiness().ready


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("- a", ("", "wrong_type", 1, 1)),
        ("modes: local", ("/modes", "unknown_field", 1, 1)),
        ("mode: [local]", ("/mode", "wrong_type", 1, 7)),
        ("agents: {}", ("/agents", "wrong_type", 1, 9)),
        ("agents:\n  - local", ("/agents/0", "wrong_type", 2, 5)),
        ("agents:\n  - {name: A, type: local}", ("/agents/0/agentId", "required", 2, 5)),
        ("agents:\n  - {agentId: a, name: ' ', type: ''}", ("/agents/0/name", "required", 2, 24)),
        ("agents:\n  - {agentId: a, name: A}", ("/agents/0/type", "required", 2, 5)),
        (
            "agents:\n  - {agentId: a, name: A, type: vm}",
            ("/agents/0/type", "invalid_value", 2, 33),
        ),
        (
            "agents:\n  - {agentId: a b, name: A, type: local}",
            ("/agents/0/agentId", "invalid_value", 2, 15),
        ),
        (
            "agents:\n  - {agentId: a, name: A, type: local, size: 1}",
            ("/agents/0/size", "unknown_field", 2, 40),
        ),
        (
            "agents:\n  - {agentId: a, name: A, type: local, enabled: perhaps}",
            ("/agents/0/enabled", "wrong_type", 2, 49),
        ),
        (
            "agents:\n  - {agentId: a, name: A, type: remote-docker}",
            ("/agents/0/hostUrl", "required", 2, 5),
        ),
        (
            "agents:\n  - {agentId: a, name: A, type: local, enabled: false}",
            ("/agents", "invalid_value", 2, 3),
        ),
        (
            "agents:\n  - {agentId: a, name: '${PARTITA_CONFIG_NONE}', type: local}",
            ("/agents/0/name", "invalid_value", 2, 24),
        ),
    ],
)
def test_a_fault_has_its_place(text, fault):
    assert fault in faults(text)


K8S = "agents:\n  - {agentId: k, name: K, type: kubernetes, %s}"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (K8S % "description: d", ("/agents/0/kubeconfigPath", "required", 2, 5)),
        (K8S % "hostUrl: 'k8s:6443'", ("/agents/0/hostUrl", "invalid_value", 2, 54)),
        (
            K8S % "kubeconfigPath: /k, targetNamespace: Team_A",
            ("/agents/0/targetNamespace", "invalid_value", 2, 82),
        ),
        (
            K8S % "kubeconfigPath: /k, serviceAccountToken: [a]",
            ("/agents/0/serviceAccountToken", "wrong_type", 2, 86),
        ),
        (K8S % "kubeconfigPath: {}", ("/agents/0/kubeconfigPath", "wrong_type", 2, 61)),
        ("notifications: []", ("/notifications", "wrong_type", 1, 16)),
        ("notifications: {mail: {}}", ("/notifications/mail", "unknown_field", 1, 17)),
        (
            "notifications:\n  smtp: {hots: mail}",
            ("/notifications/smtp/hots", "unknown_field", 2, 10),
        ),
        ("notifications:\n  smtp: mail", ("/notifications/smtp", "wrong_type", 2, 9)),
        (
            "notifications:\n  smtp: {port: '587'}",
            ("/notifications/smtp/port", "wrong_type", 2, 16),
        ),
        (
            "notifications:\n  smtp: {port: true}",
            ("/notifications/smtp/port", "wrong_type", 2, 16),
        ),
        (
            "notifications:\n  smtp: {port: 65536}",
            ("/notifications/smtp/port", "invalid_value", 2, 16),
        ),
        (
            "notifications:\n  smtp: {from: [a]}",
            ("/notifications/smtp/from", "wrong_type", 2, 16),
        ),
        ("description: {}", ("/description", "wrong_type", 1, 14)),
    ],
)
def test_a_fault_of_what_is_not_used_yet_has_its_place_too(text, fault):
    assert fault in faults(text)


@pytest.mark.parametrize(
    ("settings_of_it", "in_cluster"),
    [
        ("kubeconfigPath: /etc/kubeconfig", False),
        ("hostUrl: 'https://k8s:6443', serviceAccountToken: t", False),
        ("targetNamespace: team-a", True),
    ],
)
def test_a_cluster_is_reached_by_a_file_by_an_address_or_from_inside(settings_of_it, in_cluster):
    document = read_file(K8S % settings_of_it, "c", SettingsContext(in_cluster=in_cluster))[0]

    assert [backend.kind for backend in document.backends] == ["kubernetes"]


def test_two_of_a_kind_that_must_be_one(file):
    agent = "{agentId: a, name: A, type: local, default: true}"

    found = faults(f"agents:\n  - {agent}\n  - {agent}\n")

    assert [(pointer, code) for pointer, code, _line, _column in found] == [
        ("/agents/1/agentId", "duplicate"),
        ("/agents", "duplicate"),
    ]


def test_all_faults_are_reported_at_once():
    assert len(faults("mode: x\nagents:\n  - {name: A, type: vm}\n")) == 3


def test_a_value_may_come_from_the_environment_but_only_with_our_prefix(file):
    """Invariant 21."""
    file.write_text(
        "agents:\n"
        "  - {agentId: a, name: '${PARTITA_CONFIG_NAME}', description: '${HOME}', type: local}\n"
    )

    (backend,) = backends()

    assert (backend.label, backend.description) == ("From outside", "${HOME}")


def test_where_secrets_are_kept_is_read(file):
    file.write_text(
        "agents: [{agentId: a, name: A, type: local}]\n"
        "secrets: {provider: vault, vaultAddress: 'https://vault:8200', vaultRole: partita,\n"
        "  vaultNamespace: team, awsRegion: eu-central-1, secretPrefix: kv}\n"
    )

    assert secret_managers() == SecretManagers(
        vault_address="https://vault:8200",
        vault_namespace="team",
        vault_role="partita",
        aws_region="eu-central-1",
        prefix="kv",
    )


def test_no_message_repeats_what_may_be_a_secret(file):
    """Invariant 19."""
    file.write_text(
        "mode: s3cr3t-1\n"
        "agents:\n"
        "  - {agentId: 's3cr3t 2', name: A, type: s3cr3t-3, enabled: s3cr3t-4,"
        " tlsKey: s3cr3t-5, serviceAccountToken: s3cr3t-6}\n"
    )

    with pytest.raises(SettingsInvalid) as caught:
        read_file(file.read_text(), file.name, SettingsContext())

    assert "s3cr3t" not in f"{caught.value} {caught.value.faults} {readiness()} {backends()}"


def test_many_threads_see_one_document(file):
    file.write_text(GOOD)

    seen = at_once([lambda: tuple(backend.backend_id for backend in backends())] * 8)

    assert set(seen) == {("local", "edge")}


def test_overrides_are_read_and_checked(file):
    file.write_text(
        GOOD.replace(
            "secrets: {provider: none}",
            "secrets: {provider: vault, globalOverrides: [{key: REGION, value: eu},"
            " {key: TOKEN, value: '${PARTITA_CONFIG_NAME}', sensitive: true}]}",
        )
    )
    assert [(each.key, each.value, each.sensitive) for each in global_overrides()] == [
        ("REGION", "eu", False),
        ("TOKEN", "From outside", True),
    ]
    assert "From outside" not in repr(global_overrides())


@pytest.mark.parametrize(
    ("secrets", "pointer"),
    [
        ("{provider: cupboard}", "/secrets/provider"),
        ("{vaultAdress: x}", "/secrets/vaultAdress"),
        ("{globalOverrides: [{value: eu}]}", "/secrets/globalOverrides/0/key"),
        ("{globalOverrides: [{key: A-B, value: eu}]}", "/secrets/globalOverrides/0/key"),
        ("{globalOverrides: [{key: A}, {key: A}]}", "/secrets/globalOverrides/1/key"),
    ],
)
def test_a_fault_of_the_secrets_names_its_place(secrets, pointer):
    text = GOOD.replace("secrets: {provider: none}", f"secrets: {secrets}")
    with pytest.raises(SettingsInvalid) as refused:
        read_file(text, "configuration.yaml", SettingsContext())
    assert pointer in [fault.pointer for fault in refused.value.faults]


@pytest.mark.parametrize(
    ("smtp", "guard"),
    [
        ("{host: mail}", (False, False)),
        ("{host: mail, username: partita, password: s3cr3t}", (True, False)),
        ("{host: mail, port: 465, username: partita}", (False, True)),
    ],
)
def test_the_mail_server_gets_no_password_in_the_clear(file, settings, smtp, guard):
    settings.EMAIL_HOST = "elsewhere"
    settings.PUBLIC_API_URL = "https://partita.example.org"
    file.write_text(f"notifications: {{smtp: {smtp}}}\n")

    found = mail_server()

    assert found is not None
    assert (found.host, found.sender) == ("mail", "partita@partita.example.org")
    assert (found.use_tls, found.use_ssl) == guard
    assert "s3cr3t" not in repr(found)


def test_without_a_host_the_environment_names_the_mail_server(file, settings):
    settings.EMAIL_HOST, settings.DEFAULT_FROM_EMAIL = "elsewhere", "p@example.org"
    file.write_text("notifications: {smtp: {port: 25}}\n")
    found = mail_server()
    assert found is not None
    assert found.host == "elsewhere"


def test_a_sender_that_is_no_address_is_refused():
    text = "notifications: {smtp: {host: mail, from: Partita}}\n"
    assert faults(text) == [("/notifications/smtp/from", "invalid_value", 1, 42)]
