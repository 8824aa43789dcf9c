"""Operations: life cycle, commands, audit, Redis, Celery, cached reads, a store that is away."""

from __future__ import annotations

from apps.operations.commands import (
    LIST_OUTPUTS,
    CommandOptions,
    PlatformCommand,
    VerbCommand,
    confirm,
    escape,
    print_json,
    print_list,
    print_table,
    printable,
    report_diagnostics,
    store_unusable,
)
from apps.operations.conf import broker_url, celery_application, db_driver, redis_url
from apps.operations.domain.encrypted_rows import EncryptedRow, EncryptedText
from apps.operations.domain.lifecycle import (
    LifespanPart,
    begin_drain,
    is_draining,
    lifespan_parts,
)
from apps.operations.domain.mail import MailServer
from apps.operations.domain.store_archive import BackupManifest, TableSummary
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
    SharedRedisClient,
    redis_key,
    shared_redis,
)
from apps.operations.services.server_processes import living_servers
from apps.operations.services.store import (
    HALF_RESTORED,
    DatastoreUnavailable,
    installation_id,
    is_half_restored,
    is_store_away,
    is_store_writable,
    require_whole_store,
)
from apps.operations.services.store_backup import StoreConflict, key_fingerprints, write_backup
from apps.operations.services.store_restore import restore, verify_backup
from kernel.commands import ExitCode
