"""Tests: SQLite in a file unless TEST_DB_DRIVER says otherwise, fixed secrets, quick hashing."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

os.environ.setdefault("DB_DRIVER", os.environ.get("TEST_DB_DRIVER", "sqlite"))
os.environ.setdefault("JWT_SECRET", "a-secret-for-tests-only-0123456789abcdef")
os.environ.setdefault("AGENT_SHARED_SECRET", "an-agent-secret-for-tests-0123456789")

from platform_site.settings.base import *
from platform_site.settings.base import DATABASES, DB_DRIVER, LOG_HANDLERS

# that of `make test` ends with it, also with what a killed process leaves beside its store
_folder = Path(os.environ.get("PARTITA_TEST_FOLDER") or tempfile.gettempdir())
if DB_DRIVER == "sqlite":  # a file, not memory: threads must see one another's commits
    _file = _folder / f"partita-test-{os.getpid()}.sqlite3"  # one a test run
    DATABASES["default"]["TEST"] = {"NAME": str(_file)}
    # nothing of it outlives the machine: no commit or checkpoint waits for the disk
    _options = DATABASES["default"]["OPTIONS"]
    _options["init_command"] = f"{_options['init_command']}PRAGMA synchronous=OFF;"
PROFILES_FILE = _folder / f"partita-test-{os.getpid()}-profiles" / "none.yaml"
DOCUMENTATION_DIR = _folder / "documentation-that-was-not-built"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
AUDIT_ROWS = False  # its thread would write beside the test's transaction
AUTH_SIGNUP_ENABLED = True  # also beside an administrator
# a command in the process of the tests sets Django up again while its test captures `sys.stderr`:
# lines of later tests must not go to the file that ended with that test
for _handler in LOG_HANDLERS.values():
    _handler["stream"] = "ext://sys.__stderr__"
