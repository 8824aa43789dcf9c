"""Records and counters in Redis, for all processes: each operation is one script.

A space is a hash: `r:<key>` a record (version, time in ms, surface, fields as JSON, on a line
each), `c:<surface>` and, on the next line, the operation a counter, `f` the floor of versions, `s`
the bytes of all records; a sorted set beside it has the keys by their last change. A reset of the
space deletes both. The numbers of the resets that were applied have a hash of their own, which
outlives them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from kernel.redis_breaker import RedisUnavailable
from mocks.model.ports import Counter, StateRecord, StateStore
from mocks.redis_link import RedisLink
from mocks.state.memory import MemoryState, StateLimits, record_size

T = TypeVar("T")
# KEYS: hash, order. ARGV: life in ms, key.
_READ: Final = """
local found = redis.call('HGET', KEYS[1], 'r:' .. ARGV[2])
if redis.call('PEXPIRE', KEYS[1], ARGV[1]) == 1 then redis.call('PEXPIRE', KEYS[2], ARGV[1]) end
return found
"""
_REMOVE: Final = """
local function remove(key)
  local record = redis.call('HGET', KEYS[1], 'r:' .. key)
  if not record then return 0 end
  local version = tonumber(string.match(record, '^%d+'))
  if version > tonumber(redis.call('HGET', KEYS[1], 'f') or '0') then
    redis.call('HSET', KEYS[1], 'f', version)
  end
  redis.call('HINCRBY', KEYS[1], 's', -(#record + #key))
  redis.call('HDEL', KEYS[1], 'r:' .. key)
  redis.call('ZREM', KEYS[2], key)
  return 1
end
"""
# ARGV: life in ms, key, expected version, surface, fields or "", most records, most bytes.
_CHANGE: Final = (
    _REMOVE
    + """
local before = redis.call('HGET', KEYS[1], 'r:' .. ARGV[2])
local version = 0
local surface = ARGV[4]
if before then
  version, surface = string.match(before, '^(%d+)\\n%d+\\n([^\\n]*)\\n')
  version = tonumber(version)
end
if version ~= tonumber(ARGV[3]) then return 0 end
if ARGV[5] == '' then
  remove(ARGV[2])
else
  if before then
    redis.call('HINCRBY', KEYS[1], 's', -(#before + #ARGV[2]))
  else
    version = tonumber(redis.call('HGET', KEYS[1], 'f') or '0')
  end
  local time = redis.call('TIME')
  local ms = time[1] .. string.sub(string.format('%06d', time[2]), 1, 3)
  local record = (version + 1) .. '\\n' .. ms .. '\\n' .. surface .. '\\n' .. ARGV[5]
  redis.call('HSET', KEYS[1], 'r:' .. ARGV[2], record)
  local bytes = redis.call('HINCRBY', KEYS[1], 's', #record + #ARGV[2])
  local turn = redis.call('HINCRBY', KEYS[1], 't', 1)
  redis.call('ZADD', KEYS[2], turn, ARGV[2])
  local records = redis.call('ZCARD', KEYS[2])
  while records > 1 and (records > tonumber(ARGV[6]) or bytes > tonumber(ARGV[7])) do
    remove(redis.call('ZRANGE', KEYS[2], 0, 0)[1])
    bytes = tonumber(redis.call('HGET', KEYS[1], 's'))
    records = records - 1
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[1])
return 1
"""
)
# ARGV: life in ms, field of the counter.
_DRAW: Final = """
local value = redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[1])
return value - 1
"""
_ALL: Final = "return redis.call('HGETALL', KEYS[1])"
_RESET: Final = (
    _REMOVE
    + """
local function reset(surface, key)
  local removed = 0
  if key ~= '' then
    local record = redis.call('HGET', KEYS[1], 'r:' .. key)
    if not record then return 0 end
    local its = string.match(record, '^%d+\\n%d+\\n([^\\n]*)\\n')
    if surface == '' or its == surface then removed = remove(key) end
    return removed
  end
  if surface == '' then
    removed = redis.call('ZCARD', KEYS[2])
    for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
      if string.sub(name, 1, 2) == 'c:' then removed = removed + 1 end
    end
    redis.call('DEL', KEYS[1], KEYS[2])
    return removed
  end
  for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
    local kind = string.sub(name, 1, 2)
    if kind == 'c:' and string.sub(name, 3, 3 + #surface) == surface .. '\\n' then
      removed = removed + redis.call('HDEL', KEYS[1], name)
    elseif kind == 'r:' then
      local record = redis.call('HGET', KEYS[1], name)
      if string.match(record, '^%d+\\n%d+\\n([^\\n]*)\\n') == surface then
        removed = removed + remove(string.sub(name, 3))
      end
    end
  end
  return removed
end
"""
)
_RESET_NOW: Final = _RESET + "return reset(ARGV[2], ARGV[3])"
# KEYS: hash, order, numbers of resets. ARGV: life of these in ms (0: for good), surface and number
# in turn.
_APPLY_RESETS: Final = (
    _RESET
    + """
for i = 2, #ARGV, 2 do
  local known = tonumber(redis.call('HGET', KEYS[3], ARGV[i]) or '0')
  if known < tonumber(ARGV[i + 1]) then
    redis.call('HSET', KEYS[3], ARGV[i], ARGV[i + 1])
    reset(ARGV[i], '')
  end
end
if ARGV[1] == '0' then redis.call('PERSIST', KEYS[3])
else redis.call('PEXPIRE', KEYS[3], ARGV[1]) end
return 1
"""
)
_RESETS_OF_RUNS: Final = 7  # times the life of an idle space: longer than any run


class RedisState:
    """Raises RedisUnavailable from every method while Redis does not answer."""

    waits = True

    def __init__(self, link: RedisLink, limits: StateLimits | None = None) -> None:
        self.link = link
        self._limits = limits or StateLimits()
        self._life_ms = round(self._limits.idle_s * 1000)

    async def read(self, space: str, key: str) -> StateRecord | None:
        found = await self.link.run(_READ, self._of(space), (self._life_ms, key))
        return None if found is None else _record(key, found)

    async def change(
        self,
        space: str,
        key: str,
        surface_id: str,
        *,
        version: int,
        fields: Mapping[str, str] | None,
    ) -> bool:
        text = ""
        if fields is not None:
            record_size(key, fields)
            text = json.dumps(dict(fields), ensure_ascii=True)
        limits = self._limits
        arguments = (
            *(self._life_ms, key, version, surface_id, text),
            *(limits.records, limits.bytes),
        )
        return bool(await self.link.run(_CHANGE, self._of(space), arguments))

    async def draw(self, space: str, surface_id: str, operation_id: str) -> int:
        field = f"c:{surface_id}\n{operation_id}"
        return int(await self.link.run(_DRAW, self._of(space), (self._life_ms, field)))

    async def records(self, space: str, *, key: str = "") -> Sequence[StateRecord]:
        if key:
            found = await self.read(space, key)
            return [] if found is None else [found]
        everything = await self._everything(space)
        names = sorted(name for name in everything if name.startswith("r:"))
        return [_record(name[2:], everything[name]) for name in names]

    async def counters(self, space: str) -> Sequence[Counter]:
        everything = await self._everything(space)
        listed = []
        for name in sorted(name for name in everything if name.startswith("c:")):
            surface_id, _, operation_id = name[2:].partition("\n")
            value = int(everything[name])
            listed.append(Counter(surface_id=surface_id, operation_id=operation_id, value=value))
        return listed

    async def reset(self, space: str, *, surface_id: str = "", key: str = "") -> int:
        arguments = (self._life_ms, surface_id, key)
        return int(await self._run_apart(_RESET_NOW, space, arguments))

    def apply_resets(self, space: str, resets: Mapping[str, int]) -> None:
        """Empty surfaces whose number of resets is new; called on threads.

        The numbers must outlive the state: a process that starts applies those of the store again.
        """
        pairs = [part for surface, number in resets.items() for part in (surface, number)]
        keys = (*self._of(space), self.link.key("resets", space))
        life_ms = self._life_ms * _RESETS_OF_RUNS if "@" in space else 0
        self.link.run_from_thread(_APPLY_RESETS, keys, (life_ms, *pairs))

    async def _everything(self, space: str) -> dict[str, bytes]:
        found = await self._run_apart(_ALL, space, ())
        pairs = zip(found[::2], found[1::2], strict=True)
        return {name.decode(): value for name, value in pairs}

    async def _run_apart(self, script: str, space: str, arguments: Sequence[str | int]) -> Any:
        """Run what takes long, or has a large answer, beside the connection of calls."""
        return await asyncio.to_thread(
            self.link.run_from_thread, script, self._of(space), arguments
        )

    def _of(self, space: str) -> tuple[str, str]:
        return (self.link.key("state", space), self.link.key("order", space))


def _record(key: str, value: bytes) -> StateRecord:
    version, changed_ms, surface_id, fields = value.decode().split("\n", 3)
    return StateRecord(
        key=key,
        surface_id=surface_id,
        fields=json.loads(fields),
        version=int(version),
        updated_at=datetime.fromtimestamp(int(changed_ms) / 1000, UTC),
    )


class SharedState:
    """Redis for all processes and, while it is away, the memory of this one.

    When Redis has been back, the memory begins empty the next time: its old state is no longer so.
    """

    waits = True

    def __init__(self, shared: RedisState, own: MemoryState) -> None:
        self.shared = shared
        self._own = own
        self._of_return = 0

    @property
    def own(self) -> MemoryState:
        returns = self.shared.link.returns
        if returns != self._of_return:
            self._of_return = returns
            self._own.clear()
        return self._own

    async def _ask(self, ask: Callable[[StateStore], Awaitable[T]]) -> T:
        try:
            return await ask(self.shared)
        except RedisUnavailable:
            return await ask(self.own)

    async def read(self, space: str, key: str) -> StateRecord | None:
        return await self._ask(lambda state: state.read(space, key))

    async def change(
        self,
        space: str,
        key: str,
        surface_id: str,
        *,
        version: int,
        fields: Mapping[str, str] | None,
    ) -> bool:
        return await self._ask(
            lambda state: state.change(space, key, surface_id, version=version, fields=fields)
        )

    async def draw(self, space: str, surface_id: str, operation_id: str) -> int:
        return await self._ask(lambda state: state.draw(space, surface_id, operation_id))

    async def records(self, space: str, *, key: str = "") -> Sequence[StateRecord]:
        return await self._ask(lambda state: state.records(space, key=key))

    async def counters(self, space: str) -> Sequence[Counter]:
        return await self._ask(lambda state: state.counters(space))

    async def reset(self, space: str, *, surface_id: str = "", key: str = "") -> int:
        """Remove here and there: what was kept while Redis was away must not come back."""
        here = await self.own.reset(space, surface_id=surface_id, key=key)
        try:
            return await self.shared.reset(space, surface_id=surface_id, key=key)
        except RedisUnavailable:
            return here

    def apply_resets(self, space: str, resets: Mapping[str, int]) -> bool:
        """Return False while Redis is away: to be repeated when it is back."""
        self.own.apply_resets(space, resets)
        try:
            self.shared.apply_resets(space, resets)
        except RedisUnavailable:
            return False
        return True
