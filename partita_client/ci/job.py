"""Which CI system this is, and what it says about the job."""

from __future__ import annotations

import json
import re
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from partita_client import conf

GITHUB: Final = "github"
GITLAB: Final = "gitlab"
OTHER: Final = "other"
_EVENT_MAX_BYTES: Final = 32 * 2**20
_KEY_CHARACTERS: Final = 117  # the server takes 128: a dash and ten digits follow
_NAME_CHARACTERS: Final = 300  # of author, commit and branch (reference: control-plane 11)
_MESSAGE_CHARACTERS: Final = 10_000
# the first of the variables that is set: GitHub, GitLab, Jenkins, Buildkite, CircleCI
_VARIABLES: Final = {
    "author": (
        "GITHUB_ACTOR", "GITLAB_USER_LOGIN", "CHANGE_AUTHOR", "BUILDKITE_BUILD_AUTHOR",
        "CIRCLE_USERNAME",
    ),
    "commit": ("GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT", "BUILDKITE_COMMIT", "CIRCLE_SHA1"),
    "branch": (
        "GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME", "CHANGE_BRANCH", "GIT_BRANCH",
        "BUILDKITE_BRANCH", "CIRCLE_BRANCH",
    ),
    "message": ("CI_COMMIT_MESSAGE", "BUILDKITE_MESSAGE"),
    "page": ("CI_JOB_URL", "BUILD_URL", "BUILDKITE_BUILD_URL", "CIRCLE_BUILD_URL"),
}  # fmt: skip
# a variable that no other job and no other attempt of this job has
_NAMES: Final = {
    "gitlab": "CI_JOB_ID",
    "jenkins": "BUILD_TAG",
    "buildkite": "BUILDKITE_JOB_ID",
    "circleci": "CIRCLE_WORKFLOW_JOB_ID",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CiJob:
    """`name` tells the job and its attempt from all others; `event` is what GitHub started it by.

    Texts that the CI system does not say are empty; a job without a name finds no run again.
    """

    system: str
    name: str
    author: str = ""
    commit: str = ""
    branch: str = ""
    message: str = ""
    page: str = ""
    event: Mapping[str, Any] = field(default_factory=dict)

    def idempotency_key(self, suite: str, profile: str, backend: str) -> str:
        """Return the key of the run that this job launches.

        Its last part tells apart the legs of a matrix, whose jobs have one name, and jobs whose
        names differ behind what the key has room for, as by the number of a Jenkins build.
        """
        own_name = self.name or uuid.uuid4().hex
        name = re.sub(r"[^!-~]", "-", f"{own_name}-{suite}")[:_KEY_CHARACTERS]
        leg = "\n".join((own_name, suite, profile, backend))
        return f"{name}-{zlib.crc32(leg.encode('utf-8', 'replace'))}"


def read_job() -> CiJob:
    """Return what the variables of the CI system say."""
    found = {name: _first_of(variables) for name, variables in _VARIABLES.items()}
    event: Mapping[str, Any] = {}
    system = OTHER
    if conf.variable("GITHUB_ACTIONS") == "true":
        system, event = GITHUB, _read_event()
        found["message"] = _message_of(event)
        found["page"] = _page_on_github()
    elif conf.variable("GITLAB_CI") == "true" or conf.variable("CI_JOB_ID"):
        system = GITLAB
    return CiJob(
        system=system,
        name=_name_job(system),
        author=found["author"][:_NAME_CHARACTERS],
        commit=found["commit"][:_NAME_CHARACTERS],
        branch=found["branch"][:_NAME_CHARACTERS],
        message=found["message"][:_MESSAGE_CHARACTERS],
        page=found["page"],
        event=event,
    )


def _first_of(variables: tuple[str, ...]) -> str:
    return next(filter(None, map(conf.variable, variables)), "")


def _name_job(system: str) -> str:
    if system == GITHUB:
        attempt, job = conf.variable("GITHUB_RUN_ATTEMPT"), conf.variable("GITHUB_JOB")
        return f"github-{conf.variable('GITHUB_RUN_ID')}-{attempt or 1}-{job or 'job'}"
    for name, variable in _NAMES.items():
        if found := conf.variable(variable):
            return f"{name}-{found}"
    return ""


def _page_on_github() -> str:
    server = conf.variable("GITHUB_SERVER_URL") or "https://github.com"
    repository, run = conf.variable("GITHUB_REPOSITORY"), conf.variable("GITHUB_RUN_ID")
    return f"{server}/{repository}/actions/runs/{run}"


def _read_event() -> Mapping[str, Any]:
    """Return the event that started the job, empty where it cannot be read."""
    try:
        with Path(conf.variable("GITHUB_EVENT_PATH") or "/dev/null").open("rb") as file:
            document = json.loads(file.read(_EVENT_MAX_BYTES))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _message_of(event: Mapping[str, Any]) -> str:
    commit = event.get("head_commit")
    return str(commit.get("message") or "") if isinstance(commit, dict) else ""


def event_member(event: Mapping[str, Any], *names: str) -> str:
    """Return a text or number in an event, such as that at `pull_request`, `number`; else empty."""
    found: Any = event
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return str(found) if isinstance(found, str | int) else ""
