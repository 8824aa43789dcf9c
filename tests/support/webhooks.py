"""Deliveries as Git platforms send them: examples of GitHub, and payloads after the docs."""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import json
import time
from dataclasses import asdict
from typing import Any

from sync_stack.core.bundle.platforms import Flavor, Platform, platform_kinds
from sync_stack.core.bundle.secrets import SecretRef
from tests.support.npm import npm_package

PACKAGE = "@octokit/webhooks-examples"
VERSION = "7.6.1"
C1, C2, ZERO = "1" * 40, "2" * 40, "0" * 40


@functools.cache
def github_examples() -> list[tuple[str, dict[str, Any]]]:
    """(event, payload) of GitHub's push and pull_request examples, fetched once with npm."""
    folder = npm_package(PACKAGE, VERSION)
    index = folder / "node_modules" / PACKAGE / "api.github.com" / "index.json"
    events = json.loads(index.read_text())
    return [
        (event["name"], example)
        for event in events
        if event["name"] in {"push", "pull_request"}
        for example in event["examples"]
    ]


def platform(kind: str = "github", *, secret: str | None = "s3cret-key", **fields: Any) -> Platform:
    """A platform of the bundle with the names of its kind."""
    known = platform_kinds[kind]
    facts = known.flavors.get(fields.get("flavor", Flavor.CLOUD), known.defaults)
    named = {
        **asdict(facts),
        "name": kind,
        "endpoint": facts.endpoint or f"https://{kind}.example",
        "secret": SecretRef(value=secret) if secret else None,
    }
    return Platform(kind=kind, **{**named, **fields})


def hex_hmac(secret: str, body: bytes) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def signed(
    body: bytes,
    *,
    kind: str = "github",
    event: str = "push",
    secret: str = "s3cret-key",
    delivery: str = "d-1",
    datacenter: bool = False,
) -> dict[str, str]:
    """The headers of a delivery of that platform."""
    proof = hex_hmac(secret, body)
    own = {
        "github": {
            "X-GitHub-Event": event,
            "X-GitHub-Delivery": delivery,
            "X-Hub-Signature-256": f"sha256={proof}",
        },
        "gitea": {
            "X-Gitea-Event": event,
            "X-GitHub-Event": event,
            "X-Gitea-Delivery": delivery,
            "X-Gitea-Signature": proof,
        },
        "gitlab": {
            "X-Gitlab-Event": event,
            "X-Gitlab-Event-UUID": delivery,
            "X-Gitlab-Token": secret,
        },
        "bitbucket": {
            "X-Event-Key": event,
            "X-Request-Id" if datacenter else "X-Request-UUID": delivery,
            "X-Hub-Signature": f"sha256={proof}",
        },
    }[kind]
    return {"Content-Type": "application/json", **{k: v for k, v in own.items() if v}}


def gitlab_signed(
    body: bytes, *, key: bytes, delivery: str = "msg-1", at: float | None = None
) -> dict[str, str]:
    """As GitLab's signing tokens do: Standard Webhooks."""
    moment = str(int(time.time() if at is None else at))
    signed_text = b".".join((delivery.encode(), moment.encode(), body))
    proof = base64.b64encode(hmac.digest(key, signed_text, "sha256")).decode()
    return {
        "Content-Type": "application/json",
        "X-Gitlab-Event": "Push Hook",
        "webhook-id": delivery,
        "webhook-timestamp": moment,
        "webhook-signature": f"v1,{proof}",
    }


def github_push(repo: str = "acme/shop", ref: str = "refs/heads/main", **more: Any) -> bytes:
    payload = {
        "ref": ref,
        "before": C1,
        "after": C2,
        "repository": {"full_name": repo},
        "commits": [{"added": ["a.yaml"], "modified": ["b.yaml"], "removed": []}],
    }
    return json.dumps(payload | more).encode()


def gitlab_push(**more: Any) -> dict[str, Any]:
    """docs.gitlab.com: push events."""
    return {
        "object_kind": "push",
        "before": C1,
        "after": C2,
        "ref": "refs/heads/main",
        "checkout_sha": C2,
        "project": {"path_with_namespace": "group/sub/shop", "default_branch": "main"},
        "commits": [{"id": C2, "added": ["a.yaml"], "modified": [], "removed": ["b.yaml"]}],
    } | more


def gitlab_merge_request(**attributes: Any) -> dict[str, Any]:
    """docs.gitlab.com: merge request events."""
    return {
        "object_kind": "merge_request",
        "project": {"path_with_namespace": "group/shop"},
        "object_attributes": {
            "iid": 7,
            "action": "open",
            "source_project_id": 1,
            "target_project_id": 1,
            "last_commit": {"id": C2},
            "updated_at": "2024-05-01 10:00:00 UTC",
        }
        | attributes,
    }


def cloud_push(*changes: dict[str, Any]) -> dict[str, Any]:
    """support.atlassian.com: event payloads, repo:push."""
    default = {
        "old": {"type": "branch", "name": "main", "target": {"hash": C1}},
        "new": {"type": "branch", "name": "main", "target": {"hash": C2}},
        "forced": False,
    }
    return {
        "repository": {"full_name": "acme/shop"},
        "push": {"changes": list(changes) or [default]},
    }


def cloud_pull_request(source: str = "acme/shop") -> dict[str, Any]:
    return {
        "repository": {"full_name": "acme/shop"},
        "pullrequest": {
            "id": 9,
            "updated_on": "2024-05-01T10:00:00.123456+00:00",
            "source": {
                "branch": {"name": "feature/x"},
                "commit": {"hash": "2" * 12},
                "repository": {"full_name": source},
            },
            "destination": {"repository": {"full_name": "acme/shop"}},
        },
    }


def _server_repository(key: str = "PRJ") -> dict[str, Any]:
    return {"slug": "shop", "project": {"key": key}}


def datacenter_push(kind: str = "UPDATE") -> dict[str, Any]:
    """confluence.atlassian.com: event payload, repo:refs_changed."""
    ref = {"id": "refs/heads/main", "displayId": "main", "type": "BRANCH"}
    return {
        "date": "2017-09-19T09:58:11+1000",
        "repository": _server_repository(),
        "changes": [
            {
                "ref": ref,
                "refId": ref["id"],
                "fromHash": ZERO if kind == "ADD" else C1,
                "toHash": ZERO if kind == "DELETE" else C2,
                "type": kind,
            }
        ],
    }


def datacenter_pull_request(source_project: str = "PRJ") -> dict[str, Any]:
    return {
        "date": "2017-09-19T09:58:11+1000",
        "pullRequest": {
            "id": 3,
            "fromRef": {"latestCommit": C2, "repository": _server_repository(source_project)},
            "toRef": {"latestCommit": C1, "repository": _server_repository()},
        },
    }
