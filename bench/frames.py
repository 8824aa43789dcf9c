"""`python -m bench frames [--quick]`: does the log of a run stay smooth while lines stream in?"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import Page, expect

from bench.report import end_in_order, is_quick, publish
from bench.tabs import opened, sign_in
from tests.support.browser import chromium
from tests.support.cluster import Cluster

LINES: Final = 2_500 if is_quick() else 25_000
SECONDS: Final = 10
GOAL_MS: Final = 100
SUITE: Final = f"""\
load("@partita/runtime", "task")

SCRIPT = '''
sleep 10
n=0
while [ $n -lt {LINES} ]; do
  seq $((n + 1)) $((n + {LINES // SECONDS})) | sed 's/^/line number /'
  n=$((n + {LINES // SECONDS}))
  sleep 1
done
sleep 5
'''

flood = task.run(image = "busybox:1.36", command = ["sh", "-c", SCRIPT], timeout = "120s")
"""
# each frame's time on the main thread, and what the browser calls a long task (50 ms and more)
WATCH: Final = """
window.frames = []; window.tasks = [];
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) window.tasks.push(one.duration);
}).observe({ type: "longtask" });
let last = performance.now();
const tick = (now) => { window.frames.push(now - last); last = now; requestAnimationFrame(tick); };
requestAnimationFrame(tick);
"""
TAKE: Final = "() => [window.frames.splice(0), window.tasks.splice(0)]"


def flooding_suite(folder: Path) -> Path:
    folder.mkdir()
    (folder / "suite.star").write_text(SUITE)
    (folder / "metadata.yaml").write_text("title: Flood\n")
    return folder


def row(page: Page, name: str) -> tuple[str, int, float, float, int]:
    """What happened since the last look: frames, the longest, the 99th percentile, long tasks."""
    frames, tasks = page.evaluate(TAKE)
    ordered = sorted(frames)
    p99 = ordered[int(len(ordered) * 0.99)]
    return name, len(frames), round(ordered[-1], 1), round(p99, 1), len(tasks)


def main() -> None:
    end_in_order()
    with (
        tempfile.TemporaryDirectory(prefix="partita-bench-") as folder,
        Cluster(
            Path(folder) / "cluster", suites=[flooding_suite(Path(folder) / "flood")]
        ) as cluster,
        chromium() as browser,
    ):
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        sign_in(cluster, context)
        page = opened(context, cluster.url, cluster.launch("flood"))
        page.evaluate(WATCH)
        page.wait_for_timeout(2_000)  # the page has drawn what there was
        page.evaluate(TAKE)
        page.wait_for_timeout(3_000)
        quiet = row(page, "nothing comes")
        last = page.locator(".log-text", has_text=f"line number {LINES}")
        expect(last).to_be_visible(timeout=120_000)
        busy = row(page, f"{LINES:,} lines in {SECONDS} s")
    longest = busy[2]
    publish(
        "frames",
        "Frames of the page of a live run in headless Chromium (software rendering; the servers "
        "share the two cores). Times in ms.",
        ("while", "frames", "longest", "p99", "tasks over 50 ms"),
        [quiet, busy],
        f"Longest frame {longest:g} ms (goal {GOAL_MS}): "
        f"{'met' if longest < GOAL_MS else 'MISSED'}.",
    )


if __name__ == "__main__":
    main()
