"""What Redis does in one step: check the generation, then apply a batch.

KEYS[1] is the metadata hash, the others are the keys that operations name by number. ARGV[1] is
the generation, ARGV[2] the metadata as a JSON map of texts, ARGV[3] the number of operations; then
seven each: kind, number of the key, name, value, version, owner, ttl in ms.

`version` is the SHA-1 of a whole record as it was read, "" when there was none, "-" where none is
compared; "!" and, where none is compared, "!-" stand for a key that held another type of value when
it was read: no other version replaces such a key. All are compared before the first change. `owner`
is the record's marker, "" removes it, "-" leaves it.

The metadata of a hash or JSON text of which nothing is left goes after an hour, far longer than an
attempt may take: until then a late writer of an older generation is still refused.

(reference: sync-stack 5, redis)
"""

from __future__ import annotations

from typing import Final

APPLY: Final = """
local meta, mine = KEYS[1], tonumber(ARGV[1])
local seen = tonumber(redis.call('HGET', meta, 'generation') or '0')
if seen > mine then return 'stale:' .. seen end
local count = tonumber(ARGV[3])
local at = function(i, n) return ARGV[3 + (i - 1) * 7 + n] end
local mistyped = function(kind, key)
  local found = redis.call('TYPE', key)['ok']
  return found ~= 'none' and found ~= ((kind == 'hset' or kind == 'hdel') and 'hash' or 'string')
end
for i = 1, count do
  local kind, key, name, version = at(i, 1), KEYS[tonumber(at(i, 2))], at(i, 3), at(i, 5)
  if mistyped(kind, key) then
    if string.sub(version, 1, 1) ~= '!' then return 'conflict:' .. name end
  elseif version ~= '-' and version ~= '!-' then
    if version == '!' then version = '' end
    local old
    if kind == 'hset' or kind == 'hdel' then old = redis.call('HGET', key, name)
    else old = redis.call('GET', key) end
    local found = old and redis.sha1hex(old) or ''
    if found ~= version and not ((kind == 'hdel' or kind == 'del') and not old) then
      return 'conflict:' .. name
    end
  end
end
for i = 1, count do
  local kind, key, name, value = at(i, 1), KEYS[tonumber(at(i, 2))], at(i, 3), at(i, 4)
  local owner, ttl = at(i, 6), at(i, 7)
  if mistyped(kind, key) then redis.call('DEL', key) end
  if kind == 'hset' then redis.call('HSET', key, name, value)
  elseif kind == 'hdel' then redis.call('HDEL', key, name)
  elseif kind == 'del' then redis.call('DEL', key)
  elseif ttl ~= '0' then redis.call('SET', key, value, 'PX', ttl)
  else redis.call('SET', key, value) end
  if owner == '' then redis.call('HDEL', meta, 'record:' .. name)
  elseif owner ~= '-' then redis.call('HSET', meta, 'record:' .. name, owner) end
end
local gone = count > 0
for i = 1, count do
  local kind, key = at(i, 1), KEYS[tonumber(at(i, 2))]
  local whole = kind == 'hdel' or (kind == 'del' and at(i, 6) ~= '-')
  gone = gone and whole and redis.call('EXISTS', key) == 0
end
redis.call('HSET', meta, 'generation', ARGV[1])
if gone then redis.call('EXPIRE', meta, 3600) else redis.call('PERSIST', meta) end
for name, value in pairs(cjson.decode(ARGV[2])) do redis.call('HSET', meta, name, value) end
return 'ok'
"""

FENCE: Final = """
local seen = tonumber(redis.call('HGET', KEYS[1], 'generation') or '0')
if tonumber(ARGV[1]) > seen then redis.call('HSET', KEYS[1], 'generation', ARGV[1]) end
return 'ok'
"""
