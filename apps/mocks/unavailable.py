"""Ports of the engine in a process that has no script pool or no proxy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.mocks.domain.ports import ProxyAnswer, ProxyFailed, ScriptFailed


class NoScripts:
    async def run(
        self,
        source: str,
        *,
        defines_function: bool,
        request: Mapping[str, Any],
        state: Mapping[str, str],
    ) -> str | None:
        raise ScriptFailed("the dispatcher script is not available in this release")


class NoProxy:
    async def forward(
        self,
        url: str,
        *,
        method: str,
        headers: Mapping[str, str],
        body: bytes,
        let_through: frozenset[str],
    ) -> ProxyAnswer:
        raise ProxyFailed("proxy fallbacks are not available in this release")
