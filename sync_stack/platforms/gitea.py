"""Gitea and Forgejo: GitHub's payloads under a bare hex signature."""

from __future__ import annotations

from typing import ClassVar

from sync_stack.core.bundle.platforms import PlatformDefaults, platform_kinds
from sync_stack.core.git_platform import Proof
from sync_stack.core.signatures import hex_hmac_matches
from sync_stack.platforms.github import GitHub


class Gitea(GitHub):
    """It also sends the headers of the platforms it descends from, so it comes before them."""

    defaults: ClassVar[PlatformDefaults] = PlatformDefaults(
        endpoint="",
        event_type_header=("X-Gitea-Event", "X-Forgejo-Event"),
        git_scm_signature=("X-Forgejo-Signature", "X-Gitea-Signature"),
        delivery_header=("X-Gitea-Delivery", "X-Forgejo-Delivery"),
    )
    precedence: ClassVar[int] = 10
    clone_user: ClassVar[str] = "oauth2"
    json_setting: ClassVar[str] = "POST Content Type"

    def matches(self, proof: Proof, given: str) -> bool:
        return hex_hmac_matches(proof.keys.secrets, proof.body, given)


platform_kinds.register("gitea")(Gitea())
