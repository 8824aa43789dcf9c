"""Artifacts as objects of an S3 bucket. django-storages opens the connection.

Imported only where ARTIFACT_STORAGE names a bucket: boto3 takes long to import. Credentials come
from AWS's own chain: variables, profile, or the role of the host.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from threading import Lock
from typing import Any, Final

from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    HTTPClientError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
    ProfileNotFound,
    ReadTimeoutError,
)
from botocore.exceptions import ConnectionError as BotoConnectionError
from django.utils.deconstruct import deconstructible
from storages.backends.s3 import S3Storage

from apps.executions.domain.artifact_storage import (
    CHUNK_BYTES,
    ArtifactLost,
    FoundObject,
    StorageMisconfigured,
    StorageUnavailable,
    StorageUnreachable,
    is_object_name,
)

_ABSENT: Final = frozenset({"NoSuchKey", "404", "NotFound"})
_TO_MEND: Final = {
    "NoSuchBucket": "the bucket does not exist",
    "InvalidBucketName": "the bucket does not exist",
    "PermanentRedirect": "the bucket is in another region",
    "301": "the bucket is in another region",
    "AuthorizationHeaderMalformed": "the bucket is in another region",
    "AccessDenied": "access to the bucket is denied",
    "403": "access to the bucket is denied",
    "InvalidAccessKeyId": "the access key is not known",
    "SignatureDoesNotMatch": "the secret key does not match the access key",
    "ExpiredToken": "the credentials have expired",
}
_NOT_VALID: Final = "its endpoint, region or bucket is not valid"
_MISCONFIGURED: Final[dict[tuple[type[BotoCoreError], ...], str]] = {
    (NoCredentialsError, PartialCredentialsError): "no AWS credentials were found",
    (ProfileNotFound,): "AWS_PROFILE names no profile",
    (ParamValidationError,): _NOT_VALID,
}


@deconstructible(path="apps.executions.storages.s3.BucketStorage")
class BucketStorage(S3Storage):
    """`location` is the prefix of every key."""

    def __init__(self, *, addressing_style: str, **settings: Any) -> None:
        limits = Config(
            connect_timeout=2,
            read_timeout=5,
            retries={"total_max_attempts": 2, "mode": "standard"},
            max_pool_connections=16,
            s3={"addressing_style": addressing_style},
            request_checksum_calculation="when_required",  # other makers' servers know no others
            response_checksum_validation="when_required",
        )
        keys = dict.fromkeys(("access_key", "secret_key", "security_token", "session_profile"))
        super().__init__(client_config=limits, default_acl=None, **keys, **settings)
        self._lock = Lock()

    def write(self, name: str, body: bytes) -> None:
        key = self._key(name)
        with _translate_errors():
            self._client.put_object(
                Bucket=self.bucket_name,
                Key=key,
                Body=body,
                ContentType="application/octet-stream",
            )

    def read(self, name: str) -> Iterator[bytes]:
        key = self._key(name)
        with _translate_errors():
            try:
                found = self._client.get_object(Bucket=self.bucket_name, Key=key)
            except ClientError as error:
                if _code_of(error) in _ABSENT:
                    raise ArtifactLost from None
                raise
            with closing(found["Body"]) as body:
                yield from body.iter_chunks(CHUNK_BYTES)

    def remove(self, name: str) -> None:
        if not is_object_name(name):
            return
        with _translate_errors():
            self._client.delete_object(Bucket=self.bucket_name, Key=self._key(name))

    def check(self) -> None:
        with _translate_errors():
            try:
                self._client.head_bucket(Bucket=self.bucket_name)
            except ClientError as error:
                if _code_of(error) in _ABSENT:
                    raise StorageMisconfigured(_TO_MEND["NoSuchBucket"]) from None
                raise

    def list_objects(self, folder: str, after: str, limit: int) -> Sequence[FoundObject]:
        root = f"{self.location}/" if self.location else ""
        with _translate_errors():
            page = self._client.list_objects_v2(
                Bucket=self.bucket_name,
                Prefix=f"{root}{folder}/",
                StartAfter=f"{root}{after}" if after else "",
                MaxKeys=limit,
            )
        return [
            FoundObject(each["Key"].removeprefix(root), each["LastModified"])
            for each in page.get("Contents", ())
        ]

    def _key(self, name: str) -> str:
        if not is_object_name(name):
            raise ArtifactLost
        return f"{self.location}/{name}" if self.location else name

    @property
    def _client(self) -> Any:
        """Return the client, which is made once: all threads may use it."""
        with self._lock:
            return self._made_client

    @cached_property
    def _made_client(self) -> Any:
        with _translate_errors():
            try:
                return self.connection.meta.client
            except ValueError as error:
                raise StorageMisconfigured(_NOT_VALID) from error


def _code_of(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Raise StorageUnavailable for what boto3 raises, without addresses and credentials."""
    try:
        yield
    except ClientError as error:
        code = _code_of(error)
        if code in _TO_MEND:
            raise StorageMisconfigured(_TO_MEND[code]) from error
        raise StorageUnavailable(f"it refused the request ({code})") from error
    except BotoCoreError as error:
        raise _unavailable(error) from error


def _unavailable(error: BotoCoreError) -> StorageUnavailable:
    for kinds, sentence in _MISCONFIGURED.items():
        if isinstance(error, kinds):
            return StorageMisconfigured(sentence)
    if isinstance(error, (ConnectTimeoutError, ReadTimeoutError)):
        return StorageUnreachable("it did not answer in time")
    if isinstance(error, (BotoConnectionError, HTTPClientError)):
        return StorageUnreachable(f"it cannot be reached ({type(error).__name__})")
    return StorageUnavailable(f"the request failed ({type(error).__name__})")
