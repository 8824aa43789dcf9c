"""`make sync-demo`: one commit on its way from Git to where it is used, and back after a mishap.

Everything runs on loopback ports and in a temporary folder; nothing is left behind.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import httpx
import redis
from rich.console import Console

from examples.sync.demo import Demo
from examples.sync.story import Interrupted, StepMissed, Story

Missed = (StepMissed, httpx.HTTPError, redis.RedisError, subprocess.CalledProcessError)


def run(story: Story) -> int:
    """The exit code. When it returns everything has ended and the folder is gone."""
    with ExitStack() as parts:
        folder = parts.enter_context(tempfile.TemporaryDirectory(prefix="partita-sync-"))
        demo = Demo(story, Path(folder), parts)
        story.check = demo.programs.check
        try:
            demo.tell()
        except Missed as missed:
            story.fail(f"{missed}", demo.programs.last_lines())
            return 1
        except Interrupted:
            return 130
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.sync", description=__doc__)
    parser.add_argument("--limit", type=float, default=60, help="seconds that a step may take (60)")
    story = Story(Console(highlight=False), limit_s=parser.parse_args().limit)
    if not shutil.which("git"):
        story.fail("git is not installed", {})
        return 1
    story.listen()
    code = run(story)
    story.say("Everything is stopped, and the temporary folder is gone")
    return code


if __name__ == "__main__":
    sys.exit(main())
