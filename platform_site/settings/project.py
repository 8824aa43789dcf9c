"""partita.toml of the working folder names what the environment leaves open.

Paths that are relative by default are then below the folder of that file, so that a command does
the same in each folder of the repository.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from platform_site.settings import env
from readers.project_file import FILE_NAME, ProjectFile, ProjectFileInvalid

_WITHOUT_SUITES: Final = (["init"], ["suite", "new"])  # they make what may be missing

_STORE_KEYS: Final = (
    "DB_DRIVER",
    "MONGO_URI",
    "MONGO_URI_FILE",
    "POSTGRES_DSN",
    "POSTGRES_DSN_FILE",
)


def fill_environment(project: ProjectFile) -> None:
    """Set the variables that the environment leaves open; raise ProjectFileInvalid.

    It is raised where the folder of the suites is missing, which is most likely misspelled.
    """
    folders = {
        "DATA_DIR": project.folder / "var",
        "SUITES_DIR": project.suites,
        "MODULES_DIR": project.modules,
        "PLATFORM_SETTINGS_FILE": project.folder / "configuration.yaml",
        "PROFILES_FILE": project.folder / "svc-profiles.yaml",
    }
    _require_folder(project)
    for name, path in folders.items():
        if path is not None and not env.text(name):
            os.environ[name] = str(path)


def name_own_store() -> None:
    """Set the store of a first `up` where the environment and the data folder name none.

    A command before that `up` then does not wait for a MongoDB that nobody has. Where the address
    of a store is set, the drivers read it as they do elsewhere.
    """
    if not any(env.text(name) for name in _STORE_KEYS):
        os.environ["DB_DRIVER"] = "sqlite"


def _require_folder(project: ProjectFile) -> None:
    makes_suites = any(sys.argv[1 : 1 + len(words)] == words for words in _WITHOUT_SUITES)
    if env.text("SUITES_DIR") or makes_suites or project.suites.is_dir():
        return
    shown = project.suites.relative_to(project.folder)
    raise ProjectFileInvalid(
        f"{project.place_of('suites')}: suites = {str(shown)!r}, and there is no such folder "
        f"beside {FILE_NAME}; `partita suite new {project.suites}/NAME` makes it with a suite"
    )
