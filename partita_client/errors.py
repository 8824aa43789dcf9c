"""What can go wrong between a client and a server.

ClientError
├── ApiProblem          the server refused (RFC 9457): `status`, `code`, `errors`
├── BadConfiguration    an address, a file or a variable of the client is wrong
├── NoServer            nothing says which server is meant
├── NotPartita          what answered is not a Partita server
├── NoConnection        no connection, or it was cut more often than was tried
│   ├── UnknownHost     the name of the host is not known
│   └── NoTls           there is a host, and no TLS as https needs it
└── WaitTimeout         a wait or a watch took longer than was allowed

Each says in `advice` what to do next, and in `exit_code` how a command ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from partita_client.exit_codes import BY_HTTP_STATUS, BY_PROBLEM_CODE, ExitCode


class ClientError(Exception):
    """An error with what to do next; `is_permanent`: the same request fails again."""

    exit_code = ExitCode.ERROR

    def __init__(self, detail: str, *, advice: str = "", is_permanent: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.advice = advice
        self.is_permanent = is_permanent


class BadConfiguration(ClientError):
    """An address, a file, an option or a variable of the client is wrong."""

    exit_code = ExitCode.USAGE


class NoServer(ClientError):
    """Neither an option, a variable, a context nor a running `up` says which server is meant."""

    exit_code = ExitCode.UNAVAILABLE


class NotPartita(ClientError):
    """What answered is not a Partita server, or something between it and the client.

    `status` is that of its answer, 0 where none is known.
    """

    exit_code = ExitCode.UNAVAILABLE

    def __init__(
        self, detail: str, *, advice: str = "", status: int = 0, is_permanent: bool = False
    ) -> None:
        super().__init__(detail, advice=advice, is_permanent=is_permanent)
        self.status = status


class NoConnection(ClientError):
    """The server gives no answer, however often it was asked."""

    exit_code = ExitCode.UNAVAILABLE


class UnknownHost(NoConnection):
    """The name of the host, or of the proxy before it, is not known here."""


class NoTls(NoConnection):
    """What answers does not speak TLS, or none that this machine speaks."""


class WaitTimeout(ClientError):
    """The run goes on, but the time to wait for it is over."""

    exit_code = ExitCode.TIMEOUT


class ApiProblem(ClientError):
    """A problem document of the server (reference: control-plane 1.1)."""

    def __init__(
        self, *, status: int, code: str, detail: str, advice: str = "", document: Any = None
    ) -> None:
        super().__init__(detail, advice=advice)
        self.status = status
        self.code = code
        self.document: Mapping[str, Any] = document if isinstance(document, Mapping) else {}
        self.exit_code = BY_PROBLEM_CODE.get(code) or BY_HTTP_STATUS.get(status, ExitCode.ERROR)

    @property
    def errors(self) -> Sequence[Mapping[str, Any]]:
        """The fields or places at fault: `pointer`, `code`, `detail`, and `file`, `line`."""
        found = self.document.get("errors")
        return [each for each in found if isinstance(each, Mapping)] if found else []


_SESSION_OVER = "sign in again: partita login {url}"
_NEXT = {
    "unauthenticated": "sign in: partita login {url}",
    "token_invalid": _SESSION_OVER,
    "token_expired": _SESSION_OVER,
    "token_revoked": _SESSION_OVER,
    "execution_not_found": "`partita run list` shows the runs",
    "suite_not_found": "`partita suite list` shows the suites",
    "profile_not_in_suite": "`partita profile list SUITE` shows its profiles",
    "backend_unknown": "leave out --backend, and one is chosen",
    "backend_unavailable": "`partita doctor` shows the backends",
    "role_required": "`partita whoami` shows your role; an admin of the workspace can change it",
    "admin_required": "an administrator of the installation can do this",
    "nothing_to_rerun": "run all of it again: partita run rerun RUN",
    "execution_active": "wait for its end: partita run wait RUN",
    "execution_finished": "it has ended: partita run show RUN",
    "precondition_failed": "somebody changed it meanwhile: read it again, then repeat the change",
    "registry_not_found": "`partita settings show` shows the registries",
    "sync_in_progress": "it is being read now: try again in a minute",
    "agent_not_found": "`partita worker list` shows runners and workers",
    "agent_online": "keep new runs from it: partita worker drain ID",
    "rate_limited": "try again in a minute",
    "ci_session_limited": "the session of a CI job launches, follows, reruns and cancels runs; "
    "for anything else, use the token of a person",
    "not_kept": "keep it at the launch: partita run launch SUITE --keep 30m",
    "shells_off": "SHELL_ACCESS of the server closes shells; an administrator can open them",
    "too_many_shells": "end one on the page of its run (Shell)",
    "too_many_streams": "end another `run watch` or `run logs -f` of yours first",
}


def advice_for(code: str, url: str) -> str:
    """Return what to do after a problem of the server, empty where nothing general helps."""
    return _NEXT.get(code, "").format(url=url)
