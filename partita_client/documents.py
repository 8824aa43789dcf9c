"""The documents that the library returns, as on the wire (reference: control-plane 3, 9 to 12).

A server may send keys that are not listed here; they stay in the dictionaries.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class ExplainedCase(TypedDict):
    """A failed test case."""

    name: str
    classname: str
    message: str


class ExplainedLine(TypedDict):
    number: int
    text: str


class ExplainedStep(TypedDict):
    """A failed step: its causes, nearest first, its failed cases and its last lines."""

    stepId: str
    sentence: str
    mayFail: bool
    causes: list[str]
    cases: list[ExplainedCase]
    moreCases: int
    lines: list[ExplainedLine]
    wroteNothing: bool


class RunExplanation(TypedDict):
    """The verdict: why a run is as it is, in words, and the command that shows more."""

    sentence: str
    steps: list[ExplainedStep]
    moreSteps: int
    healthySteps: int
    next: NotRequired[str]


class RunListing(TypedDict):
    """A run as lists have it (Summary)."""

    id: str
    suiteId: str
    suiteTitle: str
    profile: str
    backendId: str
    backend: str
    trigger: str
    author: str
    status: str
    failing: bool
    sentence: str
    duration: str
    durationMs: int
    startedAt: str
    reason: NotRequired[str]
    finishedAt: NotRequired[str]
    queuePosition: NotRequired[int]
    rerunOf: NotRequired[str]


class RunStep(TypedDict):
    id: str
    name: str
    kind: str
    status: str
    attempt: int
    duration: str
    reason: NotRequired[str]
    detail: NotRequired[str]
    exitCode: NotRequired[int]
    waitsFor: NotRequired[str]
    missingArtifacts: NotRequired[list[dict[str, str]]]
    dependsOn: NotRequired[list[str]]
    onFailure: NotRequired[list[str]]
    startedAt: NotRequired[str]
    finishedAt: NotRequired[str]


class RunArtifact(TypedDict):
    """A file that a step exported; `expiredAt` is there when its bytes were removed."""

    id: str
    stepId: str
    path: str
    format: str
    attempt: int
    size: int
    sha256: str
    createdAt: str
    expiredAt: NotRequired[str]


class RunReport(RunListing):
    """A run with its parts (Detail); a part that was left out by `omit` is missing."""

    commit: str
    branch: str
    message: str
    lastLogId: int
    lastEventId: int
    verdict: NotRequired[RunExplanation]
    steps: NotRequired[list[RunStep]]
    artifacts: NotRequired[list[RunArtifact]]
    attempts: NotRequired[list[Any]]
    keep: NotRequired[dict[str, str]]
    queue: NotRequired[dict[str, object]]


class OutputLine(TypedDict):
    """A log line: `kind` is empty for an event, else `system`, `output`, `metric` or `user`."""

    source: str
    timestamp: str
    time: str
    level: str
    kind: str
    text: str
    attempt: NotRequired[int]
    continued: NotRequired[bool]


class StreamedLine(TypedDict):
    """A record of the log stream. `gap` stands for records that can no longer be had."""

    id: int
    line: OutputLine


class GreenDifference(TypedDict):
    kind: str
    name: str
    change: str
    where: NotRequired[str]
    before: NotRequired[str]
    after: NotRequired[str]
    beforeMs: NotRequired[int]
    afterMs: NotRequired[int]


class GreenDifferences(TypedDict):
    """What differs from the last healthy run of the suite before."""

    sentence: str
    differences: list[GreenDifference]
    moreDifferences: int
    green: NotRequired[dict[str, str]]


class ServerHealth(TypedDict):
    """`version` is missing at servers that do not tell it."""

    status: str
    time: str
    version: NotRequired[str]


class SignedInUser(TypedDict):
    userId: str
    email: str
    fullName: str
    isAdmin: bool


class WhoIsThis(TypedDict):
    """The person behind the token, the workspace that it works in, and the role there."""

    user: SignedInUser
    workspace: dict[str, str]
    role: str
    expiresAt: str


class CiSignIn(TypedDict):
    """The session of a CI job: its token, the rule that let the job in, and what it may launch."""

    token: str
    expiresAt: str
    workspaceId: str
    role: str
    suites: list[str]
    rule: str
    launchedBy: str


class DeviceCode(TypedDict):
    """The codes of a sign-in that a person confirms in a browser (RFC 8628)."""

    deviceCode: str
    userCode: str
    verificationUri: str
    verificationUriComplete: NotRequired[str]
    expiresIn: int
    interval: int


class ShellEnding(TypedDict):
    code: str
    detail: str


class RunShell(TypedDict):
    """A program on a terminal inside the environment of a run (reference: control-plane 11.7).

    `state` is `opening`, `open` or `ended`; `end` says why it has ended.
    """

    shellId: str
    executionId: str
    stepId: str
    state: str
    command: list[str]
    openedBy: str
    isYours: bool
    createdAt: str
    socket: str
    notice: NotRequired[str]
    openedAt: NotRequired[str]
    endedAt: NotRequired[str]
    exitCode: NotRequired[int]
    end: NotRequired[ShellEnding]
