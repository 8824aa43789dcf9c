"""Secrets in files of one folder, as Kubernetes and Docker mount them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from apps.platform_settings import conf
from apps.platform_settings.domain.secrets import (
    ManagerFailed,
    NoSuchValue,
    SecretManagers,
    field_of_json,
    secret_path,
    secret_providers,
)

MAX_BYTES: Final = 64 * 2**10


class Files:
    """`ref` is a path below SECRET_FILES_DIR, with `#field` for a key of a JSON object.

    Links are followed inside the folder only: Kubernetes makes the files of a secret that way.
    """

    names = ("file",)
    title = "Files of SECRET_FILES_DIR"

    def takes(self, provider: str, ref: str) -> bool:
        return False

    def value(self, _managers: SecretManagers, ref: str) -> str:
        located, folder = secret_path(ref), _folder()
        text = _read(folder, located.path)
        value = field_of_json(text, located.field)
        if not value:
            raise NoSuchValue("the file is empty")
        return value

    def check(self, _managers: SecretManagers) -> str:
        try:
            count = sum(entry.is_file() for entry in os.scandir(_folder()))
        except OSError as error:
            raise ManagerFailed(f"SECRET_FILES_DIR cannot be read: {error.strerror}") from None
        return f"{count} files"


def _folder() -> Path:
    folder = conf.secret_files_folder()
    if folder is None:
        raise ManagerFailed("SECRET_FILES_DIR is not set")
    return folder


def _read(folder: Path, path: str) -> str:
    """Return the text of a regular file inside the folder, without the end of its last line."""
    try:
        root = folder.resolve(strict=True)
        file = (root / path).resolve(strict=True)
        if not file.is_relative_to(root):
            raise NoSuchValue("the path leads out of the folder")
        content = _content(file)
    except (FileNotFoundError, NotADirectoryError):
        raise NoSuchValue("there is no such file") from None
    except (OSError, RuntimeError, ValueError) as error:
        raise ManagerFailed(f"the file cannot be read ({type(error).__name__})") from None
    try:
        return content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise NoSuchValue("the file is not text") from None


def _content(file: Path) -> bytes:
    # a pipe would wait for a writer, and a link may have come in between
    handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as opened:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise NoSuchValue("this is not a file")
        content = opened.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise NoSuchValue(f"the file is larger than {MAX_BYTES} bytes")
    return content


secret_providers.register("file")(Files())
