"""`python -m bench [NAME …]`: run the benchmarks, each in a process of its own.

They find their servers as the tests do: `make bench` starts them.
"""

from __future__ import annotations

import subprocess
import sys

NAMES = ("step_overhead", "docker_steps", "sse", "logs", "sync_accept")


def main() -> int:
    wanted = sys.argv[1:] or NAMES
    if unknown := set(wanted) - set(NAMES):
        print(f"no benchmark {', '.join(sorted(unknown))}; known: {', '.join(NAMES)}")
        return 2
    return max(
        subprocess.run([sys.executable, "-m", f"bench.{name}"], check=False).returncode
        for name in wanted
    )


if __name__ == "__main__":
    sys.exit(main())
