"""Secrets of AWS Secrets Manager. boto3 takes long to import, and few need it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final

from apps.platform_settings.domain.secrets import (
    ManagerFailed,
    ManagerUnavailable,
    NoSuchValue,
    SecretManagers,
    field_of_json,
    secret_path,
    secret_providers,
)
from apps.platform_settings.services.manager_cache import manager_cache

_NAME: Final = "aws-secrets-manager"
_DENIED: Final = "access denied"
_ERRORS: Final = {
    "ResourceNotFoundException": "the secret does not exist",
    "AccessDeniedException": _DENIED,
    "UnrecognizedClientException": _DENIED,
}


class AwsSecretsManager:
    names = (_NAME,)
    title = "AWS Secrets Manager"

    def takes(self, provider: str, ref: str) -> bool:
        return False

    def value(self, managers: SecretManagers, ref: str) -> str:
        located, region = secret_path(ref), managers.aws_region
        fetch = partial(_ask, lambda: _client(region).get_secret_value(SecretId=located.path))
        answer = manager_cache.read(("aws", region), located.path, fetch)
        if "SecretString" not in answer:
            raise NoSuchValue("the secret is binary; only text is supported")
        return field_of_json(str(answer["SecretString"]), located.field)

    def check(self, managers: SecretManagers) -> str:
        region = managers.aws_region
        _ask(lambda: _client(region).list_secrets(MaxResults=1))
        return f"AWS answers in {region or 'the region of the environment'}"


def _ask(call: Callable[[], Any]) -> Any:
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

    try:
        return call()
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        words = _ERRORS.get(code, f"the service refused the request ({code})")
        raise ManagerFailed(words) from None
    except HTTPClientError as error:
        raise ManagerUnavailable(
            f"the service cannot be reached ({type(error).__name__})"
        ) from None
    except (BotoCoreError, ValueError) as error:
        raise ManagerFailed(f"the request failed ({type(error).__name__})") from None


@lru_cache(maxsize=8)
def _client(region: str) -> Any:
    """Return a client with the usual AWS credentials: variables, profile or role of the host."""
    import boto3
    from botocore.config import Config

    limits = Config(connect_timeout=2, read_timeout=3, retries={"total_max_attempts": 1})
    session = boto3.session.Session()
    return session.client("secretsmanager", region_name=region or None, config=limits)


def forget_clients() -> None:
    """Make the next read use the credentials of that moment."""
    _client.cache_clear()


secret_providers.register(_NAME)(AwsSecretsManager())
