"""Gitea and Forgejo: GitHub's payloads under a bare hex signature."""

from __future__ import annotations

from typing import ClassVar

from sync_stack.core.signatures import hex_hmac_matches
from sync_stack.platforms.github import GitHub
from sync_stack.platforms.registry import Proof, git_platforms


class Gitea(GitHub):
    json_setting: ClassVar[str] = "POST Content Type"

    def matches(self, proof: Proof, given: str) -> bool:
        return hex_hmac_matches(proof.keys.secrets, proof.body, given)


git_platforms.register("gitea")(Gitea())
