"""One machine: what `up` wrote into the data folder fills in what the environment leaves open.

`up` keeps `<DATA_DIR>/up.env` (mode 0600: store, generated secrets), so that the other commands
work on the same store. Without that file the defaults are the ones of production.
"""

from __future__ import annotations

import sys
from pathlib import Path

from platform_site.settings import embedded, env

BASE_DIR = Path(__file__).resolve().parents[2]
env.load_dotenv_files(BASE_DIR / ".env", BASE_DIR.parent / ".env")
_DATA_DIR = Path(env.text("DATA_DIR", "var")).absolute()
_PASSWORD_ORIGIN = "kept"
if sys.argv[1:2] == ["up"]:
    _PASSWORD_ORIGIN = embedded.prepare(_DATA_DIR)
    embedded.name_own_address()
elif sys.argv[1:2] in (["run"], ["suite"], ["worker"]):  # not the runner: it asks its own runtime
    env.load_dotenv_files(_DATA_DIR / embedded.LISTENER_FILE_NAME)
env.load_dotenv_files(_DATA_DIR / embedded.FILE_NAME)

from platform_site.settings.base import *  # noqa: E402 - reads the environment filled above
from platform_site.settings.base import DATABASES, LOGGING  # noqa: E402

UP_PASSWORD_ORIGIN = _PASSWORD_ORIGIN
if sys.argv[1:2] == ["up"]:  # its terminal shows the run; log and audit lines go to a file
    LOGGING["handlers"] = embedded.log_handlers(_DATA_DIR)
if sys.argv[1:2] in (["run"], ["suite"], ["worker"], ["migrate"]):
    # one thread needs no pool, which says 10 s later and less clearly that the store is away
    DATABASES["default"]["OPTIONS"].pop("pool", None)
