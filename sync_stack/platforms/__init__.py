"""Git platforms: how each signs its deliveries, and what they say. One file a kind."""

from __future__ import annotations

from sync_stack.platforms import bitbucket, gitea, github, gitlab
from sync_stack.platforms.registry import (
    EventClass,
    GitPlatform,
    Proof,
    git_platform,
    git_platforms,
    normalize,
)

__all__ = [
    "EventClass",
    "GitPlatform",
    "Proof",
    "bitbucket",
    "git_platform",
    "git_platforms",
    "gitea",
    "github",
    "gitlab",
    "normalize",
]
