"""The git program: run for one source, in an environment that nothing of the machine leaks into.

No hook, no file monitor, no submodule, no redirect, one protocol, no prompt. Credentials reach git
through its environment: never as an argument, never on disk.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_ssh_private_key,
)

from kernel import clock
from kernel.redaction import Redactor
from sync_stack.core.headers import read_retry_after
from sync_stack.core.tasks import RETRYABLE

MAX_OUTPUT: Final = 64 * 2**20
_HELPER: Final = (  # asks for no host but the source's; the values stay in the environment
    '!f() { test "$1" = get || exit 0; while read -r line; do case "$line" in host=*) '
    'h="${line#host=}";; esac; done; test "$h" = "$PARTITA_GIT_HOST" || exit 0; '
    'printf \'username=%s\\npassword=%s\\n\' "$PARTITA_GIT_USER" "$PARTITA_GIT_PASSWORD"; }; f'
)
_SETTINGS: Final = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.askPass": "",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "http.followRedirects": "false",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "protocol.version": "2",
    "safe.directory": "*",
    "transfer.fsckObjects": "true",
    "advice.detachedHead": "false",
}


class GitError(Exception):
    """One fact with a code of `sync_stack.core.tasks`; `detail` holds no credential.

    `retry_after_s`: how long the host asks to be left alone, when it said so.
    """

    def __init__(
        self, code: str, detail: str, *, file: str = "", retry_after_s: float | None = None
    ) -> None:
        if code not in RETRYABLE:
            raise ValueError(f"{code!r} is not a code of a task")
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.file = file
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositorySource:
    """A repository and how to reach it. `url` holds no credential.

    `username` and `password` are for http(s), `private_key`, `passphrase` and `known_hosts` for
    ssh. `timeout_s` bounds one network operation.
    """

    url: str
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    private_key: str = field(default="", repr=False)
    passphrase: str = field(default="", repr=False)
    known_hosts: str = field(default="", repr=False)
    verify_ssl: bool = True
    ca_cert: str = ""
    timeout_s: float = 30.0

    @property
    def scheme(self) -> str:
        return urlsplit(self.url).scheme


class Git:
    """git for one source. `folder` is a bare repository; None for questions to the remote only."""

    def __init__(self, source: RepositorySource, folder: Path | None = None) -> None:
        self._source = source
        self._folder = folder

    def run(
        self, *arguments: str, stdin: bytes = b"", limit: int = MAX_OUTPUT, offline: bool = False
    ) -> bytes:
        """Standard output, of at most `limit` bytes; `offline` asks no remote. Raises GitError."""
        with (
            _keys(self._source) as extra,
            tempfile.TemporaryFile() as errors,
            _nameless(b"") as headers,
        ):
            environment = self._environment() | extra | _trace_environment(headers)
            environment |= {"GIT_ALLOW_PROTOCOL": "none"} if offline else {}
            where = [f"--git-dir={self._folder}"] if self._folder else []
            git = [shutil.which("git") or "/usr/bin/git", "--literal-pathspecs"]
            command = [*git, "--no-replace-objects", *where, *arguments]
            program = _start(command, environment, errors)
            try:
                output = _collect(program, stdin, limit, self._source.timeout_s)
            finally:
                _end(program)
            if program.returncode:
                errors.seek(0)
                told = errors.read(65_536).decode(errors="replace")
                raise _failure(told, self._source, retry_after_s=_retry_after(Path(headers)))
            return output

    def _environment(self) -> dict[str, str]:
        source = self._source
        settings = dict(_SETTINGS)
        settings |= {"http.sslVerify": str(source.verify_ssl).lower()}
        settings |= {"http.sslCAInfo": source.ca_cert} if source.ca_cert else {}
        settings |= {"credential.helper": _HELPER} if source.password else {}
        environment = {
            "PATH": os.defpath,
            "HOME": "/nonexistent",
            "LC_ALL": "C",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ALLOW_PROTOCOL": source.scheme,
            "GIT_CONFIG_COUNT": str(len(settings)),
        }
        for number, (name, value) in enumerate(settings.items()):
            environment[f"GIT_CONFIG_KEY_{number}"] = name
            environment[f"GIT_CONFIG_VALUE_{number}"] = value
        if source.password:
            environment |= {
                "PARTITA_GIT_HOST": urlsplit(source.url).netloc.rpartition("@")[2],
                "PARTITA_GIT_USER": source.username,
                "PARTITA_GIT_PASSWORD": source.password,
            }
        return environment


@contextmanager
def _keys(source: RepositorySource) -> Iterator[dict[str, str]]:
    """What ssh needs, in files without a name; ssh opens ours, for it closes what it inherits."""
    if source.scheme != "ssh":
        yield {}
        return
    with _nameless(_open_key(source)) as key, _nameless(source.known_hosts.encode()) as hosts:
        command = (
            f"ssh -F /dev/null -o BatchMode=yes -o StrictHostKeyChecking=yes "
            f"-o UserKnownHostsFile={hosts} -o GlobalKnownHostsFile=/dev/null "
            f"-o IdentitiesOnly=yes -o IdentityAgent=none -i {key}"
        )
        yield {"GIT_SSH_COMMAND": command, "GIT_SSH_VARIANT": "ssh"}


def _trace_environment(headers: str) -> dict[str, str]:
    """Have git write the HTTP headers to `headers`: its messages hold the status only.

    git replaces the values of credentials, and writes no bodies.
    """
    return {"GIT_TRACE_CURL": headers, "GIT_TRACE_CURL_NO_DATA": "1", "GIT_TRACE_REDACT": "1"}


def _retry_after(headers: Path) -> float | None:
    """Return the seconds of the last Retry-After in a trace of git; None without one."""
    with headers.open("rb") as trace:
        trace.seek(max(0, trace.seek(0, os.SEEK_END) - 65_536))
        told = _RETRY_AFTER.findall(trace.read().decode(errors="replace"))
    return read_retry_after(told[-1].strip(), now=clock.now()) if told else None


def _open_key(source: RepositorySource) -> bytes:
    text = source.private_key.strip().encode() + b"\n"
    if not source.passphrase:
        return text
    try:
        key = load_ssh_private_key(text, source.passphrase.encode())
    except ValueError:
        raise GitError("git_auth", "the ssh key cannot be opened with its passphrase") from None
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())


@contextmanager
def _nameless(content: bytes) -> Iterator[str]:
    descriptor = os.memfd_create("partita", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, content)
        os.fchmod(descriptor, 0o600)
        yield f"/proc/{os.getpid()}/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _start(
    command: list[str], environment: dict[str, str], errors: IO[bytes]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - our own arguments, no shell
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        start_new_session=True,
    )


def _collect(program: subprocess.Popen[bytes], stdin: bytes, limit: int, timeout_s: float) -> bytes:
    """What it wrote until it ended. Raises GitError beyond the limit and the time."""
    assert program.stdin is not None
    assert program.stdout is not None
    deadline = time.monotonic() + timeout_s
    with suppress(BrokenPipeError):
        program.stdin.write(stdin)
        program.stdin.close()
    output = bytearray()
    with selectors.DefaultSelector() as ready:
        ready.register(program.stdout, selectors.EVENT_READ)
        while ready.select(max(0.0, deadline - time.monotonic())):
            chunk = os.read(program.stdout.fileno(), 1 << 16)
            if not chunk:
                try:
                    program.wait(max(0.1, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    raise GitError("git_timeout", "git did not end in time") from None
                return bytes(output)
            output += chunk
            if len(output) > limit:
                raise GitError("file_too_large", f"git gives more than {limit} bytes")
    raise GitError("git_timeout", f"git did not end within {timeout_s:g} s")


def _end(program: subprocess.Popen[bytes]) -> None:
    """Kill what still runs of the program's session, and close its pipes."""
    if program.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()
    for pipe in (program.stdin, program.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


_RETRY_AFTER: Final = re.compile(r"<= Recv header: retry-after:([^\r\n]*)", re.IGNORECASE)
_CAUSES: Final = (  # what git and curl say, in lower case; the first that fits
    (
        "commit_not_found",
        r"not our ref|unadvertised object|couldn't find remote ref|no such remote",
    ),
    (
        "git_auth",
        r"authentication failed|could not read username|could not read password|error: 40[13]\b"
        r"|permission denied|host key verification failed|access denied|invalid credentials",
    ),
    ("git_timeout", r"timed out|timeout"),
    (
        "repository_not_found",
        r"repository '.*' not found|does not appear to be a git repository|repository not found"
        r"|error: 404\b|project you were looking for could not be found",
    ),
)


def _failure(text: str, source: RepositorySource, *, retry_after_s: float | None) -> GitError:
    """The error that git's last words stand for; a network's, unless they say another thing."""
    lower = text.lower()
    code = next((code for code, words in _CAUSES if re.search(words, lower)), "git_unavailable")
    secrets = [source.password, source.passphrase, source.private_key]
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["no message"]
    telling = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1])
    detail = Redactor(filter(None, secrets)).mask(telling)[:300]
    return GitError(code, detail, retry_after_s=retry_after_s)
