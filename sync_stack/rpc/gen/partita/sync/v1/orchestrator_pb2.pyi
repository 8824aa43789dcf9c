import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TaskState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_STATE_UNSPECIFIED: _ClassVar[TaskState]
    TASK_STATE_PENDING: _ClassVar[TaskState]
    TASK_STATE_RUNNING: _ClassVar[TaskState]
    TASK_STATE_SUCCEEDED: _ClassVar[TaskState]
    TASK_STATE_FAILED: _ClassVar[TaskState]
    TASK_STATE_RETRYING: _ClassVar[TaskState]
    TASK_STATE_DEAD: _ClassVar[TaskState]
TASK_STATE_UNSPECIFIED: TaskState
TASK_STATE_PENDING: TaskState
TASK_STATE_RUNNING: TaskState
TASK_STATE_SUCCEEDED: TaskState
TASK_STATE_FAILED: TaskState
TASK_STATE_RETRYING: TaskState
TASK_STATE_DEAD: TaskState

class ProcessWebhookRequest(_message.Message):
    __slots__ = ("platform", "datasource", "raw_payload", "headers", "received_at", "event", "delivery_id", "idempotency_key", "correlation_id", "payload_sha256", "signature_verified")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PLATFORM_FIELD_NUMBER: _ClassVar[int]
    DATASOURCE_FIELD_NUMBER: _ClassVar[int]
    RAW_PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_AT_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_ID_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_SHA256_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_VERIFIED_FIELD_NUMBER: _ClassVar[int]
    platform: str
    datasource: str
    raw_payload: bytes
    headers: _containers.ScalarMap[str, str]
    received_at: _timestamp_pb2.Timestamp
    event: str
    delivery_id: str
    idempotency_key: str
    correlation_id: str
    payload_sha256: str
    signature_verified: bool
    def __init__(self, platform: _Optional[str] = ..., datasource: _Optional[str] = ..., raw_payload: _Optional[bytes] = ..., headers: _Optional[_Mapping[str, str]] = ..., received_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., event: _Optional[str] = ..., delivery_id: _Optional[str] = ..., idempotency_key: _Optional[str] = ..., correlation_id: _Optional[str] = ..., payload_sha256: _Optional[str] = ..., signature_verified: _Optional[bool] = ...) -> None: ...

class ProcessWebhookResponse(_message.Message):
    __slots__ = ("task_id", "message", "state", "duplicate")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    message: str
    state: TaskState
    duplicate: bool
    def __init__(self, task_id: _Optional[str] = ..., message: _Optional[str] = ..., state: _Optional[_Union[TaskState, str]] = ..., duplicate: _Optional[bool] = ...) -> None: ...

class ProcessWebhookBatch(_message.Message):
    __slots__ = ("webhooks",)
    WEBHOOKS_FIELD_NUMBER: _ClassVar[int]
    webhooks: _containers.RepeatedCompositeFieldContainer[ForwardedWebhook]
    def __init__(self, webhooks: _Optional[_Iterable[_Union[ForwardedWebhook, _Mapping]]] = ...) -> None: ...

class ForwardedWebhook(_message.Message):
    __slots__ = ("request", "traceparent")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    request: ProcessWebhookRequest
    traceparent: str
    def __init__(self, request: _Optional[_Union[ProcessWebhookRequest, _Mapping]] = ..., traceparent: _Optional[str] = ...) -> None: ...

class ProcessWebhookBatchResult(_message.Message):
    __slots__ = ("results", "draining")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[ProcessWebhookResult]
    draining: bool
    def __init__(self, results: _Optional[_Iterable[_Union[ProcessWebhookResult, _Mapping]]] = ..., draining: _Optional[bool] = ...) -> None: ...

class ProcessWebhookResult(_message.Message):
    __slots__ = ("idempotency_key", "code", "detail", "response")
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    idempotency_key: str
    code: int
    detail: str
    response: ProcessWebhookResponse
    def __init__(self, idempotency_key: _Optional[str] = ..., code: _Optional[int] = ..., detail: _Optional[str] = ..., response: _Optional[_Union[ProcessWebhookResponse, _Mapping]] = ...) -> None: ...

class TriggerSyncRequest(_message.Message):
    __slots__ = ("datasource", "platform", "tenant", "env", "reason", "rule_id", "repo", "ref", "commit", "destination_id", "generation", "delivery_id", "idempotency_key", "correlation_id")
    DATASOURCE_FIELD_NUMBER: _ClassVar[int]
    PLATFORM_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RULE_ID_FIELD_NUMBER: _ClassVar[int]
    REPO_FIELD_NUMBER: _ClassVar[int]
    REF_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_ID_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    datasource: str
    platform: str
    tenant: str
    env: str
    reason: str
    rule_id: str
    repo: str
    ref: str
    commit: str
    destination_id: str
    generation: int
    delivery_id: str
    idempotency_key: str
    correlation_id: str
    def __init__(self, datasource: _Optional[str] = ..., platform: _Optional[str] = ..., tenant: _Optional[str] = ..., env: _Optional[str] = ..., reason: _Optional[str] = ..., rule_id: _Optional[str] = ..., repo: _Optional[str] = ..., ref: _Optional[str] = ..., commit: _Optional[str] = ..., destination_id: _Optional[str] = ..., generation: _Optional[int] = ..., delivery_id: _Optional[str] = ..., idempotency_key: _Optional[str] = ..., correlation_id: _Optional[str] = ...) -> None: ...

class TriggerSyncResponse(_message.Message):
    __slots__ = ("task_id", "message", "state", "duplicate")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    message: str
    state: TaskState
    duplicate: bool
    def __init__(self, task_id: _Optional[str] = ..., message: _Optional[str] = ..., state: _Optional[_Union[TaskState, str]] = ..., duplicate: _Optional[bool] = ...) -> None: ...

class GetTaskRequest(_message.Message):
    __slots__ = ("task_id",)
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    def __init__(self, task_id: _Optional[str] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("task_id", "state", "message", "created_at", "finished_at", "duration_ms", "error", "kind", "attempt", "max_attempts", "started_at", "next_attempt_at", "correlation_id", "delivery_id", "idempotency_key", "targets")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    NEXT_ATTEMPT_AT_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_ID_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    state: TaskState
    message: str
    created_at: _timestamp_pb2.Timestamp
    finished_at: _timestamp_pb2.Timestamp
    duration_ms: int
    error: TaskError
    kind: str
    attempt: int
    max_attempts: int
    started_at: _timestamp_pb2.Timestamp
    next_attempt_at: _timestamp_pb2.Timestamp
    correlation_id: str
    delivery_id: str
    idempotency_key: str
    targets: _containers.RepeatedCompositeFieldContainer[TaskTarget]
    def __init__(self, task_id: _Optional[str] = ..., state: _Optional[_Union[TaskState, str]] = ..., message: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., finished_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., duration_ms: _Optional[int] = ..., error: _Optional[_Union[TaskError, _Mapping]] = ..., kind: _Optional[str] = ..., attempt: _Optional[int] = ..., max_attempts: _Optional[int] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., next_attempt_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., correlation_id: _Optional[str] = ..., delivery_id: _Optional[str] = ..., idempotency_key: _Optional[str] = ..., targets: _Optional[_Iterable[_Union[TaskTarget, _Mapping]]] = ...) -> None: ...

class TaskError(_message.Message):
    __slots__ = ("code", "detail", "retryable", "file", "line", "column")
    CODE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    code: str
    detail: str
    retryable: bool
    file: str
    line: int
    column: int
    def __init__(self, code: _Optional[str] = ..., detail: _Optional[str] = ..., retryable: _Optional[bool] = ..., file: _Optional[str] = ..., line: _Optional[int] = ..., column: _Optional[int] = ...) -> None: ...

class TaskTarget(_message.Message):
    __slots__ = ("rule_id", "repo", "ref", "env", "datasource", "destination", "commit", "generation", "outcome", "sync_mode", "written", "pruned", "unchanged", "restored", "error")
    RULE_ID_FIELD_NUMBER: _ClassVar[int]
    REPO_FIELD_NUMBER: _ClassVar[int]
    REF_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    DATASOURCE_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    SYNC_MODE_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    PRUNED_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    RESTORED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    rule_id: str
    repo: str
    ref: str
    env: str
    datasource: str
    destination: str
    commit: str
    generation: int
    outcome: str
    sync_mode: str
    written: int
    pruned: int
    unchanged: int
    restored: int
    error: TaskError
    def __init__(self, rule_id: _Optional[str] = ..., repo: _Optional[str] = ..., ref: _Optional[str] = ..., env: _Optional[str] = ..., datasource: _Optional[str] = ..., destination: _Optional[str] = ..., commit: _Optional[str] = ..., generation: _Optional[int] = ..., outcome: _Optional[str] = ..., sync_mode: _Optional[str] = ..., written: _Optional[int] = ..., pruned: _Optional[int] = ..., unchanged: _Optional[int] = ..., restored: _Optional[int] = ..., error: _Optional[_Union[TaskError, _Mapping]] = ...) -> None: ...

class PingRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PingResponse(_message.Message):
    __slots__ = ("version", "ready", "detail", "time")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    version: str
    ready: bool
    detail: str
    time: _timestamp_pb2.Timestamp
    def __init__(self, version: _Optional[str] = ..., ready: _Optional[bool] = ..., detail: _Optional[str] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...
