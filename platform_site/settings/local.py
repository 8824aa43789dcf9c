"""One machine: partita.toml, then the data folder of `up`, name what the environment leaves open.

`up` keeps `<DATA_DIR>/up.env` (mode 0600: store, generated secrets), so that the other commands
work on the same store. Without that file the defaults are the ones of production.
"""

from __future__ import annotations

import sys
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from platform_site.settings import embedded, env, project
from readers.project_file import ProjectFileInvalid, project_of_working_folder

BASE_DIR = Path(__file__).resolve().parents[2]
env.load_dotenv_files(BASE_DIR / ".env", BASE_DIR.parent / ".env")
try:
    _PROJECT = project_of_working_folder()
    if _PROJECT is not None:
        project.fill_environment(_PROJECT)
except ProjectFileInvalid as error:
    raise ImproperlyConfigured(str(error)) from None
_DATA_DIR = Path(env.text("DATA_DIR", "var")).absolute()
_PASSWORD_ORIGIN = "kept"
if sys.argv[1:2] == ["up"]:
    _PASSWORD_ORIGIN = embedded.prepare(_DATA_DIR)
    embedded.note_data_dir(_DATA_DIR)
    embedded.name_own_address()
elif sys.argv[1:2] == ["suite"]:  # not the runner: it asks its own runtime
    env.load_dotenv_files(_DATA_DIR / embedded.LISTENER_FILE_NAME)
if sys.argv[1:2] in (["artifacts"], ["settings"], ["profile"], ["keys"]):
    embedded.refuse_other_folder(_DATA_DIR)
env.load_dotenv_files(_DATA_DIR / embedded.FILE_NAME)
if _PROJECT is not None:
    project.name_own_store()

from platform_site.settings.base import *  # noqa: E402 - reads the environment filled above
from platform_site.settings.base import (  # noqa: E402
    DATABASES,
    DB_DRIVER,
    FRONTEND_URLS,
    LOGGING,
    MOCK_BASE_URL,
    PUBLIC_API_URL,
    UP_HOST,
)

_ONE_THREAD = ("artifacts", "suite", "migrate", "store", "keys")
UP_PASSWORD_ORIGIN = _PASSWORD_ORIGIN
PROJECT = _PROJECT
if sys.argv[1:2] == ["up"]:  # its terminal shows the run; log and audit lines go to a file
    LOGGING["handlers"] = embedded.log_handlers(_DATA_DIR)
    SERVED_HOSTS, SERVE_ANY_ADDRESS = embedded.served_hosts(
        UP_HOST, (PUBLIC_API_URL, MOCK_BASE_URL, *FRONTEND_URLS)
    )
if sys.argv[1:2] and sys.argv[1] in _ONE_THREAD:
    # one thread needs no pool, which says 10 s later and less clearly that the store is away
    DATABASES["default"]["OPTIONS"].pop("pool", None)
if sys.argv[1:2] in (["suite"], ["mock"]) and DB_DRIVER == "mongo":
    # they go by the files where there is no store: who has not started one yet does not wait for it
    DATABASES["default"]["OPTIONS"]["serverSelectionTimeoutMS"] = 1000
