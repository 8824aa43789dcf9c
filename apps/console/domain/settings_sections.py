"""The sections of the settings pages, in words for the people who fill them in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from apps.console.domain.settings_forms import FieldKind, Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    name: str
    title: str
    lead: str
    groups: tuple[Group, ...]


GENERAL: Final = Section(
    name="general",
    title="General",
    lead="How Partita chooses a backend by itself, and the server that its mail goes through.",
    groups=(
        Group(
            path=(),
            title="Installation",
            fields=(
                FieldKind(
                    key="mode",
                    label="Mode",
                    kind="choice",
                    options=(
                        ("local", "local: here or on a Docker host"),
                        ("remote", "remote: Kubernetes and workers"),
                        ("hybrid", "hybrid: every backend"),
                    ),
                    hint="Limits the automatic choice. A launch that names a backend ignores it.",
                ),
                FieldKind(key="description", label="Description"),
            ),
        ),
        Group(
            path=("notifications", "smtp"),
            title="Mail server",
            fields=(
                FieldKind(
                    key="host", label="Host", hint="Empty: the server of EMAIL_URL, if it is set."
                ),
                FieldKind(
                    key="port",
                    label="Port",
                    kind="number",
                    hint="465 speaks TLS at once, others STARTTLS with a user name.",
                ),
                FieldKind(key="username", label="User name"),
                FieldKind(key="password", label="Password", kind="secret"),
                FieldKind(key="from", label="Sender"),
            ),
        ),
    ),
)
_WITH_TLS: Final = ("remote-docker", "kubernetes")
_CLUSTER: Final = ("kubernetes",)
_PROVIDERS: Final = ("Generic OCI", "Zot", "Harbor", "JFrog Artifactory", "AWS ECR")
_PLACES: Final = (
    FieldKind(
        key="maxConcurrentRuns",
        label="Runs at once",
        kind="number",
        usual="0",
        hint="0 or empty: any number.",
    ),
    FieldKind(
        key="maxConcurrentSteps",
        label="Tasks and tests at once",
        kind="number",
        usual="0",
        hint="0 or empty: any number. Services do not count.",
    ),
)
BACKENDS: Final = Section(
    name="backends",
    title="Backends",
    lead="Where steps run. A launch takes the default backend, or the one that it names.",
    groups=(
        Group(
            path=("agents",),
            title="Backends",
            noun="backend",
            identity="agentId",
            type_key="type",
            empty="There is no backend. Add one: type local runs steps on this machine.",
            fields=(
                FieldKind(key="agentId", label="Id", required=True),
                FieldKind(key="name", label="Name", required=True),
                FieldKind(
                    key="type",
                    label="Type",
                    kind="choice",
                    options=(
                        ("local", "local: the runner's own engine"),
                        ("remote-docker", "remote-docker: another Docker host"),
                        ("remote-agent", "remote-agent: registered workers"),
                        ("kubernetes", "kubernetes: pods of a cluster"),
                    ),
                ),
                FieldKind(key="description", label="Description"),
                FieldKind(key="enabled", label="Enabled", kind="flag"),
                FieldKind(key="default", label="Default", kind="flag"),
                FieldKind(
                    key="routingTags",
                    label="Routing tags",
                    kind="list",
                    hint="Labels that a supervisor must have, by commas: zone=eu, gpu",
                ),
                *_PLACES,
                FieldKind(
                    key="hostUrl",
                    label="Host URL",
                    types=_WITH_TLS,
                    hint="remote-docker: tcp://host:2376. kubernetes: the cluster's API.",
                ),
                FieldKind(key="dockerSocket", label="Docker socket", types=("local",)),
                FieldKind(
                    key="tlsCert", label="TLS certificate (PEM)", kind="long", types=_WITH_TLS
                ),
                FieldKind(key="tlsKey", label="TLS key (PEM)", kind="secret-long", types=_WITH_TLS),
                FieldKind(
                    key="kubeconfigPath",
                    label="Path of the kubeconfig",
                    types=_CLUSTER,
                    hint="On the runner's host. Empty: the host URL, or the pod's own account.",
                ),
                FieldKind(
                    key="kubeconfigContext",
                    label="Context of the kubeconfig",
                    usual="the current one",
                    types=_CLUSTER,
                ),
                FieldKind(
                    key="targetNamespace", label="Namespace", usual="default", types=_CLUSTER
                ),
                FieldKind(
                    key="serviceAccountToken",
                    label="Service account token",
                    kind="secret",
                    types=_CLUSTER,
                ),
                FieldKind(
                    key="sharedClaim",
                    label="Volume claim for shared directories",
                    types=_CLUSTER,
                    hint="ReadWriteMany. Empty: a step sees what earlier steps wrote, up to 1 MB.",
                ),
            ),
        ),
    ),
)
WORKSPACES: Final = Section(
    name="workspaces",
    title="Workspaces",
    lead="How workspaces share the backends when there is more to run than there are places.",
    groups=(
        Group(
            path=("workspaces",),
            title="Shares",
            noun="workspace",
            identity="workspaceId",
            empty=(
                "No workspace has a weight or limits of its own: each gets the same share. The id "
                "of a workspace is on its team page."
            ),
            fields=(
                FieldKind(key="workspaceId", label="Id of the workspace", required=True),
                FieldKind(
                    key="weight",
                    label="Weight",
                    kind="number",
                    usual="1",
                    hint="2 gets twice the share of 1 while both have work waiting.",
                ),
                *_PLACES,
            ),
        ),
    ),
)
REGISTRIES: Final = Section(
    name="registries",
    title="Registries",
    lead="OCI registries that suites and images are pulled from.",
    groups=(
        Group(
            path=("registries",),
            title="Registries",
            noun="registry",
            identity="registryId",
            empty=(
                "There is no registry yet. Add the one that your teams push to: its suites then "
                "appear in the catalog, and its images are pulled with its account."
            ),
            fields=(
                FieldKind(key="registryId", label="Id", required=True),
                FieldKind(key="name", label="Name", required=True),
                FieldKind(
                    key="provider",
                    label="Provider",
                    kind="choice",
                    options=tuple((each, each) for each in _PROVIDERS),
                ),
                FieldKind(
                    key="registryUrl",
                    label="URL",
                    required=True,
                    hint="As in https://registry.example.org",
                ),
                FieldKind(key="username", label="User name"),
                FieldKind(key="secret", label="Password or token", kind="secret"),
                FieldKind(
                    key="repositoryScope",
                    label="Repositories",
                    hint="Names or path prefixes, by commas. Empty: all of them.",
                ),
                FieldKind(key="region", label="Region"),
                FieldKind(
                    key="allowLocalNetwork",
                    label="May be on the local network",
                    kind="flag",
                    hint="Otherwise private and loopback addresses are refused.",
                ),
            ),
        ),
    ),
)
SECRETS: Final = Section(
    name="secrets",
    title="Secrets",
    lead="Where the secrets that profiles name are kept, and variables that every step gets.",
    groups=(
        Group(
            path=("secrets",),
            title="Secret manager",
            fields=(
                FieldKind(
                    key="provider",
                    label="Manager",
                    kind="choice",
                    options=(
                        ("none", "none"),
                        ("vault", "Vault"),
                        ("aws-secrets-manager", "AWS Secrets Manager"),
                    ),
                ),
                FieldKind(key="vaultAddress", label="Address of Vault"),
                FieldKind(key="vaultNamespace", label="Namespace of Vault"),
                FieldKind(
                    key="vaultRole",
                    label="Role",
                    hint="For the Kubernetes sign-in, where VAULT_TOKEN is not set.",
                ),
                FieldKind(key="secretPrefix", label="Prefix of paths", hint="As in kv/team"),
                FieldKind(key="awsRegion", label="AWS region"),
            ),
        ),
        Group(
            path=("secrets", "globalOverrides"),
            title="Variables of every step",
            noun="variable",
            identity="key",
            empty=(
                "There is no variable. One that you add here wins over the profile's, for every "
                "suite; a node's own value wins over it."
            ),
            fields=(
                FieldKind(key="key", label="Name", required=True),
                FieldKind(key="value", label="Value", kind="value"),
                FieldKind(key="description", label="Description"),
                FieldKind(
                    key="sensitive",
                    label="Secret",
                    kind="flag",
                    hint="Encrypted, never shown again, masked in logs.",
                ),
            ),
        ),
    ),
)
SECTIONS: Final = {each.name: each for each in (GENERAL, BACKENDS, WORKSPACES, REGISTRIES, SECRETS)}
