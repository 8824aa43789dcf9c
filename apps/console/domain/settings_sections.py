"""The sections of the settings pages, in words for the people who fill them in.

What a key is (its kind, whether it is required, its default) is declared in the table of the
platform settings; here is what people read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from apps.platform_settings.api import KeyGroup, key_group


@dataclass(frozen=True, slots=True)
class FieldWords:
    """What people read of a key, and how its field looks.

    `options` are (value, words) of a choice, the first one that of a new entry. `is_long`: a text
    of many lines, or a list that may be long. `types` are the types of the entries that have this
    key; empty: every entry.
    """

    label: str
    hint: str = ""
    options: tuple[tuple[str, str], ...] = ()
    is_long: bool = False
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Fields of one object, or of each entry of a list.

    `noun` is that of an entry, `empty` what the page says of an empty list, and `hidden` what it
    says to others than administrators of a list that they never see. `type_key` is the field that
    decides which other ones an entry has.
    """

    keys: KeyGroup
    title: str
    fields: Mapping[str, FieldWords]
    noun: str = ""
    empty: str = ""
    hidden: str = ""
    type_key: str = ""

    @property
    def prefix(self) -> str:
        return "-".join(self.keys.path) or "top"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    name: str
    title: str
    lead: str
    groups: tuple[Group, ...]


GENERAL: Final = Section(
    name="general",
    title="General",
    lead="How Partita chooses a backend, and the server that sends its mail.",
    groups=(
        Group(
            keys=key_group(),
            title="Installation",
            fields={
                "mode": FieldWords(
                    "Mode",
                    "Limits the automatic choice. A launch that names a backend ignores it.",
                    options=(
                        ("local", "local: here or on a Docker host"),
                        ("remote", "remote: Kubernetes and workers"),
                        ("hybrid", "hybrid: every backend"),
                    ),
                ),
                "description": FieldWords("Description"),
            },
        ),
        Group(
            keys=key_group("notifications", "smtp"),
            title="Mail server",
            fields={
                "host": FieldWords("Host", "Empty: the server of EMAIL_URL, if it is set."),
                "port": FieldWords(
                    "Port", "465 speaks TLS at once, others STARTTLS with a user name."
                ),
                "username": FieldWords("User name"),
                "password": FieldWords("Password"),
                "from": FieldWords("Sender"),
            },
        ),
    ),
)
_WITH_TLS: Final = ("remote-docker", "kubernetes")
_CLUSTER: Final = ("kubernetes",)
_PROVIDERS: Final = ("Generic OCI", "Zot", "Harbor", "JFrog Artifactory", "AWS ECR")
_LIMITS: Final = {
    "maxConcurrentRuns": FieldWords("Runs at once", "0 or empty: any number."),
    "maxConcurrentSteps": FieldWords(
        "Tasks and tests at once", "0 or empty: any number. Services do not count."
    ),
}
BACKENDS: Final = Section(
    name="backends",
    title="Backends",
    lead="Where steps run. A launch takes the default backend, or the one that it names.",
    groups=(
        Group(
            keys=key_group("agents"),
            title="Backends",
            noun="backend",
            type_key="type",
            empty="There is no backend. Add one: type local runs steps on this machine.",
            fields={
                "agentId": FieldWords("Id"),
                "name": FieldWords("Name"),
                "type": FieldWords(
                    "Type",
                    options=(
                        ("local", "local: the runner's own engine"),
                        ("remote-docker", "remote-docker: another Docker host"),
                        ("remote-agent", "remote-agent: registered workers"),
                        ("kubernetes", "kubernetes: pods of a cluster"),
                    ),
                ),
                "description": FieldWords("Description"),
                "enabled": FieldWords("Enabled"),
                "default": FieldWords("Default"),
                "routingTags": FieldWords(
                    "Routing tags",
                    "Labels that a supervisor must have, separated by commas: zone=eu, gpu",
                ),
                **_LIMITS,
                "hostUrl": FieldWords(
                    "Host URL",
                    "remote-docker: tcp://host:2376. kubernetes: the cluster's API.",
                    types=_WITH_TLS,
                ),
                "dockerSocket": FieldWords("Docker socket", types=("local",)),
                "tlsCert": FieldWords("TLS certificate (PEM)", is_long=True, types=_WITH_TLS),
                "tlsKey": FieldWords("TLS key (PEM)", is_long=True, types=_WITH_TLS),
                "kubeconfigPath": FieldWords(
                    "Path of the kubeconfig",
                    "On the runner's host. Empty: the host URL, or the pod's own account.",
                    types=_CLUSTER,
                ),
                "kubeconfigContext": FieldWords("Context of the kubeconfig", types=_CLUSTER),
                "targetNamespace": FieldWords("Namespace", types=_CLUSTER),
                "serviceAccountToken": FieldWords("Service account token", types=_CLUSTER),
                "sharedClaim": FieldWords(
                    "Volume claim for shared directories",
                    "ReadWriteMany. Empty: a step sees what earlier steps wrote, up to 1 MB.",
                    types=_CLUSTER,
                ),
            },
        ),
    ),
)
WORKSPACES: Final = Section(
    name="workspaces",
    title="Workspaces",
    lead="How workspaces share the backends when there is more to run than there are places.",
    groups=(
        Group(
            keys=key_group("workspaces"),
            title="Shares",
            noun="workspace",
            empty=(
                "No workspace has a weight or limits of its own: each gets the same share. The id "
                "of a workspace is on its team page."
            ),
            fields={
                "workspaceId": FieldWords("Id of the workspace"),
                "weight": FieldWords(
                    "Weight", "2 gets twice the share of 1 while both have work waiting."
                ),
                **_LIMITS,
            },
        ),
    ),
)
REGISTRIES: Final = Section(
    name="registries",
    title="Registries",
    lead="OCI registries that suites and images are pulled from.",
    groups=(
        Group(
            keys=key_group("registries"),
            title="Registries",
            noun="registry",
            empty=(
                "There is no registry yet. Add the one that your teams push to: its suites then "
                "appear in the catalog, and its images are pulled with its account."
            ),
            fields={
                "registryId": FieldWords("Id"),
                "name": FieldWords("Name"),
                "provider": FieldWords(
                    "Provider", options=tuple((each, each) for each in _PROVIDERS)
                ),
                "registryUrl": FieldWords("URL", "As in https://registry.example.org"),
                "username": FieldWords("User name"),
                "secret": FieldWords("Password or token"),
                "repositoryScope": FieldWords(
                    "Repositories",
                    "Names or path prefixes, separated by commas. Empty: all of them.",
                ),
                "region": FieldWords("Region"),
                "allowLocalNetwork": FieldWords(
                    "May be on the local network",
                    "Otherwise private and loopback addresses are refused.",
                ),
            },
        ),
    ),
)
CI: Final = Section(
    name="ci",
    title="CI",
    lead=(
        "Which CI jobs may sign in with their own OIDC token, without a stored key, and what they "
        "may do then."
    ),
    groups=(
        Group(
            keys=key_group("ciTrust"),
            title="Trusted jobs",
            noun="rule",
            empty=(
                "No CI job is trusted. Add a rule for a repository: its jobs then get a short "
                "session in one workspace, for the suites that the rule names."
            ),
            hidden="Only administrators of the installation see which CI jobs are trusted.",
            fields={
                "name": FieldWords("Name"),
                "issuer": FieldWords(
                    "Issuer",
                    "GitHub: https://token.actions.githubusercontent.com. GitLab: its own address.",
                ),
                "audience": FieldWords(
                    "Audience", "The audience of the job's token; best is this server's address."
                ),
                "repositories": FieldWords(
                    "Repositories",
                    "acme/shop, acme/*, separated by commas or lines. *: any name, **: any path.",
                    is_long=True,
                ),
                "branches": FieldWords("Branches", "main, release/*. Empty: any branch or tag."),
                "tags": FieldWords("Tags", "v*. With branches, either is enough."),
                "environments": FieldWords(
                    "Environments",
                    "The CI system's environment, which may require an approval. Empty: any.",
                ),
                "claims": FieldWords(
                    "Other claims",
                    "name=pattern, separated by commas or lines: runner_environment=self-hosted",
                    is_long=True,
                ),
                "workspace": FieldWords("Workspace", "Its slug or its id, as on its team page."),
                "role": FieldWords(
                    "Role",
                    options=(
                        ("runner", "runner: launches and cancels"),
                        ("viewer", "viewer: reads"),
                    ),
                ),
                "suites": FieldWords(
                    "Suites",
                    "Ids, separated by commas or lines. A final * matches any rest; * means all.",
                    is_long=True,
                ),
                "allowForks": FieldWords(
                    "Pull requests of forks",
                    "Also allows every pull request event: tokens do not say whose code it is.",
                ),
                "expiresMinutes": FieldWords("Minutes", "How long a session lasts, 60 at most."),
                "allowLocalNetwork": FieldWords(
                    "May be on the local network",
                    "Otherwise an issuer at a private or loopback address is refused.",
                ),
            },
        ),
    ),
)
SECRETS: Final = Section(
    name="secrets",
    title="Secrets",
    lead="Where the secrets that profiles name are kept, and variables that every step gets.",
    groups=(
        Group(
            keys=key_group("secrets"),
            title="Secret manager",
            fields={
                "provider": FieldWords(
                    "Manager",
                    options=(
                        ("none", "none"),
                        ("vault", "Vault"),
                        ("aws-secrets-manager", "AWS Secrets Manager"),
                    ),
                ),
                "vaultAddress": FieldWords("Address of Vault"),
                "vaultNamespace": FieldWords("Namespace of Vault"),
                "vaultRole": FieldWords(
                    "Role", "For the Kubernetes sign-in, where VAULT_TOKEN is not set."
                ),
                "secretPrefix": FieldWords("Prefix of paths", "As in kv/team"),
                "awsRegion": FieldWords("AWS region"),
            },
        ),
        Group(
            keys=key_group("secrets", "globalOverrides"),
            title="Variables of every step",
            noun="variable",
            empty=(
                "There is no variable. One that you add here wins over the profile's, for every "
                "suite; a node's own value wins over it."
            ),
            fields={
                "key": FieldWords("Name"),
                "value": FieldWords("Value"),
                "description": FieldWords("Description"),
                "sensitive": FieldWords("Secret", "Encrypted, never shown again, masked in logs."),
            },
        ),
    ),
)
SECTIONS: Final = {
    each.name: each for each in (GENERAL, BACKENDS, WORKSPACES, REGISTRIES, CI, SECRETS)
}
