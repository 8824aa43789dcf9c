"""A process of clients: `python -m tests.contracts.mock_state.clients <redis> <prefix> <seed>`."""

from __future__ import annotations

import asyncio
import json
import sys

from mocks.redis_link import RedisLink
from mocks.state.redis import RedisState
from tests.contracts.mock_state.test_state import Client


async def main(address: str, prefix: str, seed: int) -> None:
    link = RedisLink(f"redis://{address}/0", prefix=prefix)
    clients = [Client(RedisState(link), seed + number) for number in range(4)]
    await asyncio.gather(*(client.work(60) for client in clients))
    await link.close()
    done = {"added": [each.added for each in clients], "drawn": [each.drawn for each in clients]}
    print(json.dumps(done))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
