"""The settings of pages and of `up`, read when asked."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from django.conf import settings

EXAMPLES = Path(settings.BASE_DIR) / "examples"


def host() -> str:
    """`up` listens on loopback unless HOST names another address."""
    return str(settings.UP_HOST)


def port() -> int:
    return int(settings.PORT)


def base_url() -> str:
    return str(settings.PUBLIC_API_URL)


def data_dir() -> Path:
    return Path(settings.DATA_DIR)


def listener_file() -> Path:
    """Where `up` writes its address for the other commands."""
    return Path(settings.UP_LISTENER_FILE)


def command_line() -> str:
    """How a shell in the current folder calls `manage.py` on this data folder."""
    words = [_shown(Path(sys.executable)), _shown(Path(settings.BASE_DIR) / "manage.py")]
    default = Path("var").absolute()
    place = "" if data_dir() == default else f"DATA_DIR={shlex.quote(_shown(data_dir()))} "
    return place + shlex.join(words)


def _shown(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def demo_suite() -> str:
    """The suite that `up` launches; empty with UP_DEMO=0."""
    return "hello" if settings.UP_DEMO else ""


def example_suites() -> list[str]:
    """Suites of the examples, whose images `up` may build."""
    return sorted(path.name for path in (EXAMPLES / "oci-suites").iterdir() if path.is_dir())


def image_builder() -> Path:
    return EXAMPLES / "images" / "build"


def offers_password() -> bool:
    """Whether the sign-in page has a form for mail and password."""
    return bool(settings.AUTH_PASSWORD_LOGIN_ENABLED)


def offers_sign_up() -> bool:
    return bool(settings.AUTH_SIGNUP_ENABLED)


def runs_processes() -> bool:
    """Whether steps of the local backends run as processes: images cannot be run then."""
    return bool(settings.LOCAL_RUNTIME == "process")


def use_runtime(name: str) -> None:
    """From now on backends of type `local` run on this runtime, in this process."""
    settings.LOCAL_RUNTIME = name
