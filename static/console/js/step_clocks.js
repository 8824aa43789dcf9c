// The clocks of steps that run: each counts up from what it was when its row was rendered.

const LIVE = new Set(["running", "healthy"]); // a healthy service goes on until the run stops it
let rendered = performance.now();

/** Call it whenever the rows have come from the server. */
export function clocksAreFresh() {
  rendered = performance.now();
}

export function showClocks() {
  for (const took of document.querySelectorAll("#run-steps [data-took-ms]")) {
    if (!LIVE.has(took.closest(".step").dataset.status)) delete took.dataset.tookMs;
    else took.textContent = duration(Number(took.dataset.tookMs) + performance.now() - rendered);
  }
}

/** As `duration` in apps/console/domain/display.py, in whole seconds. */
function duration(milliseconds) {
  const seconds = Math.floor(milliseconds / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  const two = (number) => String(number).padStart(2, "0");
  if (minutes < 60) return `${minutes} m ${two(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} m`;
}
