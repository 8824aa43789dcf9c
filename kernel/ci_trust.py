"""Trust in CI jobs: rules on the claims of a job's own OIDC token, and which rule lets a job in.

A pattern is a text in which `*` stands for letters other than `/`, and `**` for any letters. Texts
are compared as they are written. (reference: control-plane 3)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

MAX_LABEL: Final = 300
_MAX_SHOWN: Final = 200
_MAX_CLAIM: Final = 1000  # letters of a claim that are looked at; a longer one fits no pattern
_TOKENS: Final = re.compile(r"\*\*|\*|[^*]", re.DOTALL)
_CLAIM: Final = re.compile(r"([A-Za-z0-9_.:/-]{1,100})=(.+)")
_SUITES: Final = re.compile(r"\*|[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}\*?")
# What somebody without the right to push can start, or what runs on the code that they offer.
_OF_OTHERS: Final = frozenset(
    {
        "pull_request",
        "pull_request_target",
        "pull_request_review",
        "pull_request_review_comment",
        "issue_comment",
        "workflow_run",
        "merge_request_event",
        "external_pull_request_event",
    }
)
_REFS_OF_OTHERS: Final = ("refs/pull/", "refs/merge-requests/")

# Claims that say who owns the code; the subject may begin with their names, or with _SUBJECTS.
_OWNERS: Final = frozenset(
    {
        *("repository", "repository_id", "repository_owner", "repository_owner_id"),  # GitHub
        *("project_path", "project_id", "namespace_path", "namespace_id"),  # GitLab
        *("organization_slug", "organization_id"),  # Buildkite
        *("workspaceUuid", "repositoryUuid"),  # Bitbucket
    }
)
_SUBJECTS: Final = frozenset({"repo", "org", "organization", "enterprise"})
# What a repository of anybody can have its subject begin with (GitHub: include_claim_keys).
_OF_ANYBODY: Final = frozenset(
    {
        *("actor", "actor_id", "context", "environment", "event_name", "pipeline_source"),
        *("base_ref", "head_ref", "ref", "ref_path", "ref_protected", "ref_type", "sha"),
        *("repository_visibility", "runner_environment", "visibility"),
        *("job_workflow_ref", "job_workflow_sha", "workflow", "workflow_ref", "workflow_sha"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustRule:
    """An entry of `ciTrust`: which jobs of an issuer get a session, and what the session may do.

    A job must fit one pattern of each list that is not empty; branches and tags count as one list.
    `claims` are texts `name=pattern`; of two with one name, either may fit. `suites` are ids, or
    beginnings of ids with a `*` behind them. A session ends after `expires_minutes`.
    """

    name: str
    issuer: str
    audience: str
    repositories: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    workspace: str
    role: str = "runner"
    suites: tuple[str, ...] = ()
    allow_forks: bool = False
    expires_minutes: int = 60
    allow_local_network: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobClaims:
    """What a verified token says of its job; texts that it does not say are empty.

    `branch` and `tag` are empty for what `is_of_others`: the pull request of a fork, or what cannot
    be told from one. `audiences` are those that the token was made for. `texts` are all claims that
    are texts, numbers or flags.
    """

    issuer: str
    subject: str
    audiences: tuple[str, ...]
    repository: str
    branch: str
    tag: str
    environment: str
    is_of_others: bool
    label: str
    texts: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustMiss:
    """The rule that came nearest to let a job in, and the first claim that did not fit it."""

    rule: str
    claim: str
    detail: str

    def __str__(self) -> str:
        return f"rule {self.rule}: {self.detail}" if self.rule else self.detail


def matches_pattern(pattern: str, text: str) -> bool:
    """Return whether a text fits; the work grows with the product of both lengths, never more."""
    tokens = _TOKENS.findall(pattern)
    if len(text) > _MAX_CLAIM:
        return False
    places = _after_stars({0}, tokens)
    for letter in text:
        stay = {at for at in places if at < len(tokens) and _takes(tokens[at], letter)}
        places = _after_stars({at if tokens[at][0] == "*" else at + 1 for at in stay}, tokens)
    return len(tokens) in places


def _takes(part: str, letter: str) -> bool:
    return part == "**" or (part == "*" and letter != "/") or part == letter != "*"


def _after_stars(places: set[int], tokens: Sequence[str]) -> set[int]:
    """Return the places with those behind a star, which may stand for nothing."""
    reached = set[int]()
    for place in places:
        at = place
        reached.add(at)
        while at < len(tokens) and tokens[at][0] == "*":
            at += 1
            reached.add(at)
    return reached


def reaches_suite(suites: Sequence[str], suite_id: str) -> bool:
    """Return whether a suite is one of these ids or begins like one with a `*`."""
    return any(
        suite_id.startswith(each[:-1]) if each.endswith("*") else suite_id == each
        for each in suites
    )


def pattern_rule(text: str) -> str:
    """Return what a pattern breaks, or "": an empty one would leave its list without a limit."""
    return "" if text else "must not have an empty text"


def repository_rule(pattern: str) -> str:
    """Return what a pattern of repositories breaks, or "": it names whose repositories are meant.

    Else a rule would let in everybody who has an account at the issuer.
    """
    owner, slash, rest = pattern.partition("/")
    if not slash or not owner or not rest or "*" in owner:
        return "must begin with an owner or group, as in acme/shop or acme/*"
    return ""


def claim_rule(text: str) -> str:
    """Return what a text `name=pattern` breaks, or ""."""
    return "" if _CLAIM.fullmatch(text) else "must be name=pattern, as in runner_environment=self-*"


def suite_rule(text: str) -> str:
    """Return what a text that names suites breaks, or ""."""
    if _SUITES.fullmatch(text):
        return ""
    return "must be the id of a suite, the beginning of one followed by *, or *"


def is_bound(rule: TrustRule) -> bool:
    """Return whether a rule says whose jobs it means, by repositories or by a claim of an owner.

    Of several patterns of one claim each must say it, as any of them may fit.
    """
    if rule.repositories:
        return not any(repository_rule(each) for each in rule.repositories)
    return any(
        all(_names_owner(name, each) for each in patterns)
        for name, patterns in _claims_by_name(rule).items()
    )


def _names_owner(claim: str, pattern: str) -> bool:
    """Return whether nobody but an owner, whom the pattern names, gets such a claim."""
    if claim == "sub":
        return _is_subject_of_owner(pattern)
    if claim in {"repository", "project_path"}:
        return not repository_rule(pattern)
    return (claim in _OWNERS or "/" in claim) and _begins_with_name(pattern)


def _is_subject_of_owner(pattern: str) -> bool:
    """Look at `repo:acme/**`, `https://jenkins.example/job/**`, `project-7:*`."""
    _, is_address, place = pattern.partition("://")
    if is_address:
        return _begins_with_name(place)
    kind, *rest = re.split("[:/]", pattern, maxsplit=1)
    if kind in _OF_ANYBODY:
        return False
    return _begins_with_name("".join(rest) if kind in _OWNERS | _SUBJECTS else pattern)


def _begins_with_name(pattern: str) -> bool:
    name = re.split("[:/]", pattern, maxsplit=1)[0]
    return bool(name) and "*" not in name


def read_job(claims: Mapping[str, Any]) -> JobClaims:
    """Return what the verified claims of GitHub, GitLab or another issuer say of the job."""
    texts = {name: text for name, value in claims.items() if (text := _text(value))}
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    repository = texts.get("repository") or texts.get("project_path", "")
    is_of_others = _is_of_others(texts, repository)
    branch, tag = ("", "") if is_of_others else _branch_and_tag(texts)
    return JobClaims(
        issuer=texts.get("iss", ""),
        subject=texts.get("sub", ""),
        audiences=tuple(_text(each) for each in audiences),
        repository=repository,
        branch=branch,
        tag=tag,
        environment=texts.get("environment", ""),
        is_of_others=is_of_others,
        label=_label(texts),
        texts=texts,
    )


def find_rule(rules: Sequence[TrustRule], job: JobClaims) -> TrustRule | TrustMiss:
    """Return the first rule that lets the job in, else the nearest: which it failed last.

    The rules are those of the token's issuer.
    """
    nearest = -1, TrustMiss(rule="", claim="iss", detail="no rule trusts this issuer")
    for rule in rules:
        checks = list(_checks(rule, job))
        failed = next((at for at, (_, detail) in enumerate(checks) if detail), None)
        if failed is None:
            return rule
        if failed > nearest[0]:
            claim, detail = checks[failed]
            nearest = failed, TrustMiss(rule=rule.name, claim=claim, detail=detail)
    return nearest[1]


def _checks(rule: TrustRule, job: JobClaims) -> Iterator[tuple[str, str]]:
    """Yield each claim that a rule looks at, with a sentence where it does not fit, else ""."""
    audience = _quote(", ".join(job.audiences))
    is_for_us = job.audiences == (rule.audience,)
    yield "aud", "" if is_for_us else f"the audience is {audience}, not {rule.audience} alone"
    yield "repository", _miss("repository", job.repository, rule.repositories)
    event = job.texts.get("event_name") or job.texts.get("pipeline_source", "")
    is_kept_out = job.is_of_others and not rule.allow_forks
    of_fork = f"{_quote(event)} may run the code of a fork, and allowForks is false"
    yield "fork", of_fork if is_kept_out else ""
    is_on_ref = _fits_any(rule.branches, job.branch) or _fits_any(rule.tags, job.tag)
    wanted = (*rule.branches, *(f"tag {each}" for each in rule.tags))
    yield "ref", "" if is_on_ref else _miss("ref", job.texts.get("ref", ""), wanted, fits=False)
    yield "environment", _miss("environment", job.environment, rule.environments)
    for name, patterns in _claims_by_name(rule).items():
        yield name, _miss(name, job.texts.get(name, ""), patterns)


def _miss(claim: str, text: str, patterns: Sequence[str], *, fits: bool | None = None) -> str:
    """Return what is wrong with a claim, "" where it fits a pattern or there are none."""
    if not patterns or (_fits_any(patterns, text) if fits is None else fits):
        return ""
    return f"{claim} {_quote(text)} is none of {', '.join(patterns)}"


def _claims_by_name(rule: TrustRule) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, pattern in _claim_patterns(rule):
        found[name] = (*found.get(name, ()), pattern)
    return found


def _claim_patterns(rule: TrustRule) -> Iterator[tuple[str, str]]:
    for each in rule.claims:
        name, _, pattern = each.partition("=")
        yield name, pattern


def _fits_any(patterns: Sequence[str], text: str) -> bool:
    return bool(text) and any(matches_pattern(each, text) for each in patterns)


def _is_of_others(texts: Mapping[str, str], repository: str) -> bool:
    """Return whether the code may be a fork's.

    The tokens of GitHub and GitLab do not say where the head of a pull request is, so one counts
    as a fork's unless another issuer's claims name this repository as its head.
    """
    events = {texts.get("event_name", ""), texts.get("pipeline_source", "")}
    refs = (texts.get("ref", ""), texts.get("ref_path", ""))
    if not events & _OF_OTHERS and not any(ref.startswith(_REFS_OF_OTHERS) for ref in refs):
        return False
    head = texts.get("head_repository") or texts.get("source_project_path", "")
    return not head or head != repository


def _branch_and_tag(texts: Mapping[str, str]) -> tuple[str, str]:
    """Return the branch or the tag that the job runs for; a ref of neither kind gives none."""
    ref, kind = texts.get("ref", ""), texts.get("ref_type", "")
    if ref.startswith("refs/heads/"):
        return ref.removeprefix("refs/heads/"), ""
    if ref.startswith("refs/tags/"):
        return "", ref.removeprefix("refs/tags/")
    if ref.startswith("refs/"):
        return "", ""
    return (ref if kind == "branch" else ""), (ref if kind == "tag" else "")


def _label(texts: Mapping[str, str]) -> str:
    """Return the job in words, such as `github: acme/shop@refs/heads/main by workflow CI`."""
    ref = texts.get("ref", "")
    if "repository" in texts and "workflow" in texts:
        label = f"github: {texts['repository']}@{ref} by workflow {texts['workflow']}"
    elif "project_path" in texts:
        label = f"gitlab: {texts['project_path']}@{ref} by job {texts.get('job_id', '')}"
    else:
        label = f"{urlsplit(texts.get('iss', '')).hostname or 'ci'}: {texts.get('sub', '')}"
    return _printable(label)[:MAX_LABEL]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int) else ""


def _quote(text: str) -> str:
    return f'"{_printable(text)[:_MAX_SHOWN]}"'


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
