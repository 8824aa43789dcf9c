"""Objects of one bucket with their markers, and the client with its errors as facts of a sink."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final
from urllib.parse import quote, unquote
from uuid import uuid4

import boto3
from botocore import UNSIGNED, exceptions
from botocore.config import Config

from kernel import clock
from sync_stack.core.headers import read_retry_after
from sync_stack.core.sink import SinkConflict, SinkError, TargetMarker
from sync_stack.sinks.limits import Deadline, Timeouts
from sync_stack.sinks.marks import mark_fields, mark_from, refuse_stale
from sync_stack.sinks.open_sinks import Resolve, SharedClient
from sync_stack.sinks.s3 import ConditionalWrites, S3Options

CHANGED: Final = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "412"})
ABSENT: Final = frozenset({"NoSuchKey", "404", "NotFound"})
UNSUPPORTED: Final = frozenset({"NotImplemented", "501"})
_AUTH: Final = frozenset(
    {
        *("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken"),
        *("InvalidToken", "AccountProblem", "AllAccessDisabled", "401", "403"),
    }
)
MAX_BYTES: Final = 64 * 2**20
_PREFIX: Final = "partita-"
_SAFE: Final = "-._~/:@ ,"


def connect(options: S3Options, timeouts: Timeouts, resolve: Resolve) -> Any:
    """A client that tries nothing twice. Credentials of the surroundings only with use_iam_role."""
    keys: dict[str, str] = {}
    if options.access_key_id and options.secret_access_key:
        keys["aws_access_key_id"] = resolve(options.access_key_id)
        keys["aws_secret_access_key"] = resolve(options.secret_access_key)
        if options.session_token:
            keys["aws_session_token"] = resolve(options.session_token)
    session = boto3.session.Session()
    with translate_errors(""):
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
def translate_errors(name: str) -> Iterator[None]:
    try:
        yield
    except exceptions.ClientError as error:
        raise _fact(error, name) from None
    except (exceptions.ConnectTimeoutError, exceptions.ReadTimeoutError):
        raise SinkError("sink_timeout", f"S3 did not answer in time for {name!r}") from None
    except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError):
        raise SinkError("sink_auth", "no S3 credentials found") from None
    except (exceptions.BotoCoreError, exceptions.HTTPClientError) as error:
        raise SinkError("sink_unavailable", f"S3: {type(error).__name__}") from None


def error_code(error: exceptions.ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _fact(error: exceptions.ClientError, name: str) -> SinkError:
    code = error_code(error)
    words = f"S3 {error.operation_name} {name!r}: {code}"
    if code in CHANGED:
        return SinkConflict(f"{name!r} changed after it was read")
    if code in _AUTH:
        return SinkError("sink_auth", words)
    if code in ("NoSuchBucket", "InvalidBucketName", "PermanentRedirect"):
        return SinkError("destination_invalid", words)
    if code in ("EntityTooLarge", "KeyTooLongError", "MetadataTooLarge"):
        return SinkError("destination_too_large", words)
    headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    retry_after_s = read_retry_after(str(headers.get("retry-after", "")), now=clock.now())
    return SinkError("sink_unavailable", words, retry_after_s=retry_after_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What is known of an object without its body."""

    etag: str
    mark: TargetMarker | None

    @property
    def version(self) -> str:
        """The tag, and the generation: the server compares the first, we the second."""
        return f"{self.etag}#{self.mark.generation if self.mark else 0}"


class Objects:
    """May be used by several threads; the client is made at first use."""

    def __init__(self, options: S3Options, timeouts: Timeouts, resolve: Resolve) -> None:
        self._options = options
        self._client = SharedClient[Any](partial(connect, options, timeouts, resolve))

    def get(self, name: str) -> tuple[Head, bytes] | None:
        """Return the head and body of an object; None when there is none."""
        with translate_errors(name):
            try:
                found = self._client().get_object(Bucket=self._options.bucket, Key=name)
            except exceptions.ClientError as error:
                if error_code(error) in ABSENT:
                    return None
                raise
            with found["Body"] as body:
                content = body.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise SinkError("destination_too_large", f"{name!r} is larger than {MAX_BYTES} bytes")
        return _head(found), content

    def head(self, name: str) -> Head | None:
        with translate_errors(name):
            try:
                return _head(self._client().head_object(Bucket=self._options.bucket, Key=name))
            except exceptions.ClientError as error:
                if error_code(error) in ABSENT:
                    return None
                raise

    def names(self, prefix: str, deadline: Deadline) -> Iterator[str]:
        """Yield the name of every object below a prefix."""
        pages = self._client().get_paginator("list_objects_v2")
        with translate_errors(prefix):
            for page in pages.paginate(Bucket=self._options.bucket, Prefix=prefix):
                deadline.check()
                yield from (entry["Key"] for entry in page.get("Contents", ()))

    def put(
        self,
        name: str,
        body: bytes,
        metadata: Mapping[str, str],
        *,
        version: str,
        generation: int,
        content_type: str,
    ) -> None:
        """Only over the object that was read (`version`, "" for none) and no younger generation."""
        etag, _, seen = version.rpartition("#")
        refuse_stale(int(seen or 0), generation)
        condition: dict[str, str] = {"IfMatch": etag} if etag else {"IfNoneMatch": "*"}
        if not self.is_conditional:
            self.refuse_changed(name, version, generation)
            condition = {}
        try:
            with translate_errors(name):
                self._client().put_object(
                    Bucket=self._options.bucket,
                    Key=name,
                    Body=body,
                    ContentType=self._options.content_type or content_type,
                    Metadata={**self._options.object_metadata, **metadata},
                    **self._encryption(),
                    **condition,
                )
        except SinkConflict:
            self.refuse_changed(name, "", generation)
            raise

    def refuse_changed(self, name: str, version: str, generation: int) -> None:
        """Raises `stale_generation` before SinkConflict."""
        found = self.head(name)
        refuse_younger(found, generation)
        if (found.version if found else "") != version:
            raise SinkConflict(f"{name!r} changed after it was read")

    def delete(self, name: str) -> None:
        with translate_errors(name):
            self._client().delete_object(Bucket=self._options.bucket, Key=name)

    def _encryption(self) -> dict[str, str]:
        options = self._options
        if not options.server_side_encryption:
            return {}
        key = {"SSEKMSKeyId": options.kms_key_id} if options.kms_key_id else {}
        return {"ServerSideEncryption": options.server_side_encryption, **key}

    @cached_property
    def is_conditional(self) -> bool:
        """Whether the server compares before it writes; `auto` asks it once."""
        if self._options.conditional_writes is ConditionalWrites.OFF:
            return False
        supported = self._probe()
        if not supported and self._options.conditional_writes is ConditionalWrites.REQUIRED:
            raise SinkError(
                "destination_invalid", "the S3 server does not support conditional writes"
            )
        return supported

    def _probe(self) -> bool:
        """Ask to replace an object that does not exist: whoever compares refuses."""
        name = f".partita-probe-{uuid4().hex}"
        with translate_errors(name):
            try:
                self._client().put_object(
                    Bucket=self._options.bucket,
                    Key=name,
                    Body=b"",
                    IfMatch='"00000000000000000000000000000000"',
                    **self._encryption(),
                )
            except exceptions.ClientError as error:
                if error_code(error) in CHANGED | ABSENT:
                    return True
                if error_code(error) in UNSUPPORTED:
                    return False
                raise
        self.delete(name)
        return False

    def close(self) -> None:
        self._client.close()


def metadata_of(mark: TargetMarker, body: bytes, *, file: str) -> dict[str, str]:
    """Return the metadata of an object; values are percent-encoded for headers."""
    fields = {name: str(value) for name, value in mark_fields(mark, file=file).items()}
    tags = "&".join(f"{quote(k)}={quote(v)}" for k, v in sorted(mark.tags.items()))
    fields |= {"tags": tags, "sha256": hashlib.sha256(body).hexdigest()}
    return {
        f"{_PREFIX}{name.replace('_', '-')}": quote(value, safe=_SAFE)
        for name, value in fields.items()
        if value
    }


def _head(found: Mapping[str, Any]) -> Head:
    fields = {
        name.lower().removeprefix(_PREFIX).replace("-", "_"): unquote(value)
        for name, value in found.get("Metadata", {}).items()
        if name.lower().startswith(_PREFIX)
    }
    pairs = (pair.partition("=") for pair in fields.pop("tags", "").split("&") if pair)
    tags = {unquote(name): unquote(value) for name, _, value in pairs}
    return Head(etag=str(found["ETag"]), mark=mark_from({**fields, "tags": tags}))


def refuse_younger(found: Head | None, generation: int) -> None:
    """Raises `stale_generation` for an object that a higher generation wrote."""
    refuse_stale(found.mark.generation if found and found.mark else 0, generation)
