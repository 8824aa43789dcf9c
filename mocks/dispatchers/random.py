"""`random`: one of the matches, by weight; with a seed, the same draws after each reset."""

from __future__ import annotations

import hashlib

from mocks.engine.dispatch import Call, Candidate, Candidates, dispatchers
from surfaces.model import RandomRules


@dispatchers.register("random")
async def pick_random(candidates: Candidates, call: Call) -> Candidate | None:
    rules = (
        call.rules if isinstance(call.rules, RandomRules) else RandomRules(seed=None, weights={})
    )
    weighted = [
        (each, rules.weights.get(each.name, 0) if rules.weights else 1)
        for each in candidates.matches(call.request, call.state)
    ]
    total = sum(weight for _, weight in weighted)
    if not total:
        return None
    place = await _place(rules.seed, total, call)
    for each, weight in weighted:
        place -= weight
        if place < 0:
            return each
    return None


async def _place(seed: int | None, total: int, call: Call) -> int:
    """Return a number below `total`, which only seed, operation and count of draws decide."""
    drawn = await call.draw()
    if seed is None:
        return call.rng.randrange(total)
    digest = hashlib.sha256(f"{seed}\0{call.place.identity}\0{drawn}".encode()).digest()
    return int.from_bytes(digest) % total
