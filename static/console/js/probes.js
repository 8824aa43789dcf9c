// What services that are not ready wait for: the probe's last answer, its tries, the time left.

import { clock } from "./status_display.js";
import { Stream } from "./stream.js";

let waiting = []; // { id, probe: { answer, tries, deadline } }
let stream = null;

/** Follows the probes of a run; `api` is its address. */
export function followProbes(api) {
  stream = new Stream(`${api}/probes`, { on: { record: (data) => { waiting = data.steps; showProbes(); } } });
}

export function stopProbes() {
  stream?.close();
  stream = null;
  waiting = [];
  showProbes();
}

/** Fills the `[data-probe]` of each step that waits, and empties the others; call it each second. */
export function showProbes() {
  const probes = new Map(waiting.map(({ id, probe }) => [id, probe]));
  for (const step of document.querySelectorAll("#run-steps .step")) {
    const probe = step.dataset.status === "running" ? probes.get(step.dataset.step) : undefined;
    const line = step.querySelector("[data-probe]");
    line.hidden = !probe;
    line.textContent = probe ? words(probe) : "";
  }
}

function words({ answer, tries, deadline }) {
  const left = clock(Math.max(0, Date.parse(deadline) - Date.now()));
  const tried = tries ? `${tries} ${tries === 1 ? "try" : "tries"}` : "";
  return [answer, tried, `${left} left`].filter(Boolean).join(" · ");
}
