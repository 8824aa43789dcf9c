"""Operations: life cycle, commands, audit, Redis, Celery, cached reads, a store that is away."""

from __future__ import annotations

from apps.operations.commands import (
    ExitCode,
    PlatformCommand,
    VerbCommand,
    escape,
    further_verbs,
    print_json,
    print_table,
    printable,
    store_unusable,
)
from apps.operations.conf import broker_url, celery_application, db_driver, redis_url
from apps.operations.domain.lifecycle import (
    LifespanPart,
    begin_drain,
    is_draining,
    lifespan_parts,
)
from apps.operations.domain.mail import MailServer
from apps.operations.services.audit_trail import Audited, is_audited, recorded_path, trail
from apps.operations.services.cached_reads import CachedReads, generation, raise_generation
from apps.operations.services.mail import (
    MailUnavailable,
    RecipientRefused,
    mail_server,
    require_mail_server,
    send_mail,
)
from apps.operations.services.redis_client import (
    RedisAway,
    SharedRedisClient,
    redis_key,
    shared_redis,
)
from apps.operations.services.server_processes import living_servers
from apps.operations.services.store import (
    DatastoreUnavailable,
    installation_id,
    is_store_away,
    is_store_writable,
)

__all__ = [
    "Audited",
    "CachedReads",
    "DatastoreUnavailable",
    "ExitCode",
    "LifespanPart",
    "MailServer",
    "MailUnavailable",
    "PlatformCommand",
    "RecipientRefused",
    "RedisAway",
    "SharedRedisClient",
    "VerbCommand",
    "begin_drain",
    "broker_url",
    "celery_application",
    "db_driver",
    "escape",
    "further_verbs",
    "generation",
    "installation_id",
    "is_audited",
    "is_draining",
    "is_store_away",
    "is_store_writable",
    "lifespan_parts",
    "living_servers",
    "mail_server",
    "print_json",
    "print_table",
    "printable",
    "raise_generation",
    "recorded_path",
    "redis_key",
    "redis_url",
    "require_mail_server",
    "send_mail",
    "shared_redis",
    "store_unusable",
    "trail",
]
