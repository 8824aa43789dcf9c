"""S3: one object, an object for each key, or one for each source file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from sync_stack.core.bundle.datasources import (
    DatasourceKind,
    DatasourceOptions,
    UpdateStrategy,
    datasource_kinds,
)
from sync_stack.core.bundle.fields import ParsedFields, input_only, option
from sync_stack.core.bundle.secrets import SECRET, SecretRef
from sync_stack.core.bundle.values import (
    FLAG,
    NAME,
    OPTIONAL_TEXT,
    PATH_OR_PEM,
    TEXT,
    UNVERIFIED,
    URL,
    choice,
    map_of,
    text,
    whole,
)


class ConditionalWrites(StrEnum):
    AUTO = "auto"
    REQUIRED = "required"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Options(DatasourceOptions):
    """Without keys only `use_iam_role` allows the credentials of the surroundings."""

    bucket: str = option(text("a bucket", r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}"))
    endpoint: str = option(URL, "", "Of a server other than AWS", aliases="endpoint_url")
    region: str = option(NAME, "us-east-1")
    force_path_style: bool = option(FLAG, False, shown="true when `endpoint` is set")
    access_key_id: SecretRef | None = option(SECRET, None, aliases="access_key")
    secret_access_key: SecretRef | None = option(SECRET, None, aliases="secret_key")
    session_token: SecretRef | None = option(SECRET, None)
    use_iam_role: bool = option(
        FLAG, False, "Use the credentials that the host provides; without it, they are never used"
    )
    prefix: str = option(OPTIONAL_TEXT, "")
    env_as_prefix: bool = option(FLAG, False, "`<prefix><env>/`")
    one_file_per_key: ClassVar = input_only(
        FLAG, "Another way to write `update_strategy: KEY_VALUE`", shown="false"
    )
    file_pattern: str = option(NAME, "config.json", "Name of the object that holds all keys")
    object_metadata: Mapping[str, str] = option(map_of(TEXT, at_most=20), dict)
    content_type: str = option(TEXT, "")
    server_side_encryption: str = option(choice(("AES256", "aws:kms")), "", aliases="sse_algorithm")
    kms_key_id: str = option(NAME, "", "Only with aws:kms", aliases="sse_kms_key_id")
    conditional_writes: ConditionalWrites = option(
        choice(ConditionalWrites, "CONDITIONAL_WRITES_"), ConditionalWrites.AUTO
    )
    max_concurrency: int = option(whole(1, 100), 10)
    verify_ssl: bool = option(FLAG, True, UNVERIFIED)
    ssl_ca_cert: str = option(TEXT, "", PATH_OR_PEM)

    @classmethod
    def check(cls, parsed: ParsedFields) -> None:
        parsed.together("access_key_id", "secret_access_key")
        parsed.needs("session_token", "access_key_id")
        by_role = parsed.get("use_iam_role")
        if by_role and parsed.has("access_key_id"):
            message = "use_iam_role and access_key_id exclude each other"
            parsed.at("use_iam_role").error("mutually_exclusive", message)
        if not by_role and not parsed.has("access_key_id"):
            message = "access_key_id with secret_access_key, or use_iam_role: true, is required"
            parsed.at("access_key_id").error("missing_field", message)
        if parsed.has("kms_key_id") and parsed.get("server_side_encryption") != "aws:kms":
            message = "kms_key_id counts only with server_side_encryption aws:kms"
            parsed.at("kms_key_id").warn("no_effect", message)
        parsed.values.setdefault("force_path_style", parsed.has("endpoint"))

    @classmethod
    def strategies(cls, parsed: ParsedFields) -> Mapping[str, UpdateStrategy | None]:
        by_key = UpdateStrategy.KEY_VALUE if parsed.get("one_file_per_key") else None
        return {"one_file_per_key": by_key}


datasource_kinds.register("s3")(
    DatasourceKind(
        name="s3",
        options=S3Options,
        sink="sync_stack.sinks.s3.sink:S3Sink",
        default_strategy=UpdateStrategy.DOCUMENT,
        fencing=False,
        records={
            UpdateStrategy.KEY_VALUE: "one object per key",
            UpdateStrategy.DOCUMENT: "one object",
            UpdateStrategy.FILE: "`<path>.json` per source file",
        },
    )
)
