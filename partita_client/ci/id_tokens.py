"""The OIDC token of the job itself, by which it signs in without a stored key."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from partita_client import conf
from partita_client.ci.job import GITHUB, CiJob
from partita_client.ci.web_api import WebApi
from partita_client.errors import BadConfiguration, NoConnection

_MAX_CHARACTERS: Final = 8192  # reference: control-plane 3
_GIVEN: Final = "PARTITA_ID_TOKEN"
_ADDRESS: Final = "ACTIONS_ID_TOKEN_REQUEST_URL"
_SECRET: Final = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"  # noqa: S105 - the name of a variable


def has_id_token(job: CiJob) -> bool:
    """Return whether the job has a token, or may ask for one."""
    return bool(conf.variable(_GIVEN)) or can_ask_again(job)


def can_ask_again(job: CiJob) -> bool:
    """Return whether the job may have a token as often as it asks: each is good once."""
    return job.system == GITHUB and bool(conf.variable(_ADDRESS)) and not conf.variable(_GIVEN)


def fetch_id_token(job: CiJob, audience: str) -> str:
    """Return a token; raise BadConfiguration where the job has none, NoConnection."""
    given = conf.variable(_GIVEN)
    if not given and not can_ask_again(job):
        raise BadConfiguration(*_missing_token(job))
    token = given or _ask_github(audience)
    if not token.isascii() or not token.isprintable() or " " in token:
        raise BadConfiguration("the OIDC token of the job has a blank or a line break")
    if len(token) > _MAX_CHARACTERS:
        raise BadConfiguration(f"the OIDC token of the job is longer than {_MAX_CHARACTERS}")
    return token


def _missing_token(job: CiJob) -> tuple[str]:
    if job.system == GITHUB:
        words = (
            "this job has no OIDC token; give it 'permissions: {id-token: write, contents: read}'"
        )
    else:
        words = f"{_GIVEN} is not set: the job's OIDC token (in GitLab by the keyword id_tokens)"
    return (f"{words}, or set PARTITA_TOKEN",)


def _ask_github(audience: str) -> str:
    address, _, query = conf.variable(_ADDRESS).partition("?")
    api = WebApi(url=address, headers={"Authorization": f"Bearer {conf.variable(_SECRET)}"})
    answer = api.ask("GET", f"?{query}&audience={quote(audience, safe='')}")
    api.close()
    found = answer.document.get("value") if isinstance(answer.document, dict) else None
    if not answer.is_success or not isinstance(found, str) or not found:
        why = answer.message or f"it answered {answer.status} without one"
        raise NoConnection(
            f"GitHub gave this job no OIDC token: {why}", is_permanent=not answer.may_pass
        )
    return found
