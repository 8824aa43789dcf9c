"""A settings document, and clients of the API with accounts."""

from __future__ import annotations

from typing import Any, Final

from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.accounts.services.administrators import ensure_seed_admin
from apps.accounts.services.sign_up import sign_up
from apps.accounts.services.token_pairs import issue_tokens

PATH: Final = "/api/v1/platform-settings"
PASSWORD: Final = "Correct-Horse-1"
SECRETS: Final = (
    "zot-s3cr3t-word", "override-s3cr3t-word", "mail-s3cr3t-word", "key-s3cr3t-word",
)  # fmt: skip


def document(**more: Any) -> dict[str, Any]:
    return {
        "mode": "hybrid",
        "agents": [
            {"agentId": "local", "name": "Local", "type": "docker", "default": True},
            {
                "agentId": "edge",
                "name": " Edge ",
                "type": "remote-agent",
                "routingTags": ["zone=eu", " "],
                "kubeconfigPath": "/etc/kube",
                "tlsKey": SECRETS[3],
            },
        ],
        "registries": [
            {
                "registryId": "zot",
                "name": "Zot",
                "provider": "Zot",
                "registryUrl": " http://localhost:5000 ",
                "username": "ann",
                "secret": SECRETS[0],
                "allowLocalNetwork": True,
            }
        ],
        "secrets": {
            "provider": "vault",
            "vaultAddress": "https://vault:8200",
            "globalOverrides": [
                {"key": "REGION", "value": "eu"},
                {"key": "TOKEN", "value": SECRETS[1], "sensitive": True},
            ],
        },
        "notifications": {"smtp": {"host": "mail", "username": "p", "password": SECRETS[2]}},
        **more,
    }


def client_of(email: str) -> APIClient:
    client = APIClient()
    token = issue_tokens(User.objects.get(email=email)).token
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client


def admin_client() -> APIClient:
    ensure_seed_admin("root@example.org", PASSWORD)
    return client_of("root@example.org")


def viewer_client() -> APIClient:
    sign_up(full_name="Ada", email="ada@example.org", password=PASSWORD)
    return client_of("ada@example.org")


def put(client: APIClient, body: Any, **headers: str) -> Any:
    return client.put(PATH, body, format="json", headers=headers)
