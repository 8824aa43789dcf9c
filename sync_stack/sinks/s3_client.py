"""A client of S3 and of what speaks like it; errors as facts of a sink."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

import boto3
from botocore import UNSIGNED, exceptions
from botocore.config import Config

from kernel import clock
from sync_stack.core.bundle.datasources import S3Options
from sync_stack.core.headers import read_retry_after
from sync_stack.core.sink import SinkConflict, SinkError
from sync_stack.sinks.limits import Timeouts
from sync_stack.sinks.registry import Resolve

CHANGED: Final = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "412"})
ABSENT: Final = frozenset({"NoSuchKey", "404", "NotFound"})
UNSUPPORTED: Final = frozenset({"NotImplemented", "501"})
_AUTH: Final = frozenset(
    {
        *("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken"),
        *("InvalidToken", "AccountProblem", "AllAccessDisabled", "401", "403"),
    }
)


def connect(options: S3Options, timeouts: Timeouts, resolve: Resolve) -> Any:
    """A client that tries nothing twice. Credentials of the surroundings only with use_iam_role."""
    keys: dict[str, str] = {}
    if options.access_key_id and options.secret_access_key:
        keys["aws_access_key_id"] = resolve(options.access_key_id)
        keys["aws_secret_access_key"] = resolve(options.secret_access_key)
        if options.session_token:
            keys["aws_session_token"] = resolve(options.session_token)
    session = boto3.session.Session()
    with translated(""):
        return session.client(
            "s3",
            endpoint_url=options.endpoint or None,
            region_name=options.region,
            verify=(options.ssl_ca_cert or True) if options.verify_ssl else False,
            config=_config(options, timeouts, anonymous=not keys and not options.use_iam_role),
            **keys,
        )


def _config(options: S3Options, timeouts: Timeouts, *, anonymous: bool) -> Config:
    signing = {"signature_version": UNSIGNED} if anonymous else {}
    return Config(
        connect_timeout=timeouts.connect_s,
        read_timeout=timeouts.answer_s,
        retries={"total_max_attempts": 1},
        max_pool_connections=options.max_concurrency,
        s3={"addressing_style": "path" if options.force_path_style else "auto"},
        request_checksum_calculation="when_required",  # other makers' servers know no others
        response_checksum_validation="when_required",
        **signing,
    )


@contextlib.contextmanager
def translated(name: str) -> Iterator[None]:
    try:
        yield
    except exceptions.ClientError as error:
        raise _fact(error, name) from None
    except (exceptions.ConnectTimeoutError, exceptions.ReadTimeoutError):
        raise SinkError("sink_timeout", f"S3 did not answer in time for {name!r}") from None
    except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError):
        raise SinkError("sink_auth", "no credentials for S3") from None
    except (exceptions.BotoCoreError, exceptions.HTTPClientError) as error:
        raise SinkError("sink_unavailable", f"S3: {type(error).__name__}") from None


def error_code(error: exceptions.ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _fact(error: exceptions.ClientError, name: str) -> SinkError:
    code = error_code(error)
    words = f"S3 {error.operation_name} {name!r}: {code}"
    if code in CHANGED:
        return SinkConflict(f"{name!r} is not as it was read")
    if code in _AUTH:
        return SinkError("sink_auth", words)
    if code in ("NoSuchBucket", "InvalidBucketName", "PermanentRedirect"):
        return SinkError("destination_invalid", words)
    if code in ("EntityTooLarge", "KeyTooLongError", "MetadataTooLarge"):
        return SinkError("destination_too_large", words)
    return SinkError("sink_unavailable", words, retry_after_s=_retry_after(error))


def _retry_after(error: exceptions.ClientError) -> float | None:
    headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return read_retry_after(str(headers.get("retry-after", "")), now=clock.now())
