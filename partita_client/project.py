"""The repository in which a command is typed, for the parts of the client that go by it."""

from __future__ import annotations

from partita_client.errors import BadConfiguration
from partita_client.project_file import ProjectFile, ProjectFileInvalid, project_of_working_folder


def find_project() -> ProjectFile | None:
    """Return what the partita.toml of the working folder says, None without one.

    Raise BadConfiguration.
    """
    try:
        return project_of_working_folder()
    except ProjectFileInvalid as error:
        raise BadConfiguration(
            str(error), advice="fix the file, or name a server for this command: --server URL"
        ) from None
