"""Replay records shared by gateways: one Lua script, 250 ms, and a pause after a failure."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from redis.exceptions import RedisError

from sync_stack.gateway.replay_memory import Found

log: Final = logging.getLogger("partita.sync.gateway")

TIMEOUT_S: Final = 0.25
PAUSE_S: Final = 5.0
_LOG_EVERY_S: Final = 60.0
# ARGV: verb, owner, milliseconds. A record is `accepted` or `r:<owner>`.
SCRIPT: Final = """
local verb, mine, ttl = ARGV[1], 'r:' .. ARGV[2], ARGV[3]
if verb == 'claim' then
  local found = 0
  for _, key in ipairs(KEYS) do
    local value = redis.call('GET', key)
    if value == 'accepted' then return 2 end
    if value and value ~= mine then found = 1 end
  end
  if found == 0 then
    for _, key in ipairs(KEYS) do redis.call('SET', key, mine, 'PX', ttl) end
  end
  return found
end
for _, key in ipairs(KEYS) do
  local value = redis.call('GET', key)
  if verb == 'accept' and (not value or value == mine) then
    redis.call('SET', key, 'accepted', 'PX', ttl)
  elseif verb == 'release' and value == mine then
    redis.call('DEL', key)
  end
end
return 0
"""


class RedisReplay:
    """Answers None while Redis cannot be asked; the caller's own records decide then."""

    def __init__(
        self, client: Any, clock: Callable[[], float], on_error: Callable[[], None]
    ) -> None:
        self._client = client
        self._script = client.register_script(SCRIPT)
        self._clock = clock
        self._on_error = on_error
        self._down_until = float("-inf")
        self._logged_at = float("-inf")

    async def claim(self, keys: Sequence[str], owner: str, lifetime_s: float) -> Found | None:
        if self._clock() < self._down_until:
            return None
        answer = await self._run("claim", keys, owner, lifetime_s)
        return None if answer is None else Found(answer)

    async def accept(self, keys: Sequence[str], owner: str, window_s: float) -> None:
        if self._clock() >= self._down_until:
            await self._run("accept", keys, owner, window_s)

    async def release(self, keys: Sequence[str], owner: str) -> None:
        """Tried also during a pause: a record left behind would hold up the redelivery."""
        await self._run("release", keys, owner, 1)

    async def close(self) -> None:
        await self._client.aclose()

    async def _run(
        self, verb: str, keys: Sequence[str], owner: str, lifetime_s: float
    ) -> int | None:
        arguments = [verb, owner, max(1, int(lifetime_s * 1000))]
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return int(await self._script(keys=list(keys), args=arguments))
        except (RedisError, OSError, TimeoutError) as error:
            self._failed(error)
            return None

    def _failed(self, error: Exception) -> None:
        self._on_error()
        now = self._clock()
        self._down_until = now + PAUSE_S
        if now - self._logged_at >= _LOG_EVERY_S:
            self._logged_at = now
            log.warning(
                "replay records cannot be shared, this process decides alone: %s",
                type(error).__name__,
                extra={"event": "replay_store_failed"},
            )
