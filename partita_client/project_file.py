"""partita.toml of the working folder. The wheel has `readers/project_file.py` in this place."""

from __future__ import annotations

from readers.project_file import ProjectFile, ProjectFileInvalid, project_of_working_folder

__all__ = ["ProjectFile", "ProjectFileInvalid", "project_of_working_folder"]
