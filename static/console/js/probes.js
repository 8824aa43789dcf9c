// What steps wait for: services for their probe (its last answer, its tries, the time left), others for their start.

import { clock } from "./status_display.js";
import { Stream } from "./stream.js";

let waiting = []; // { id, probe?: { answer, tries, deadline }, waitsFor? }
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
  const waits = new Map(waiting.map((each) => [each.id, each]));
  for (const step of document.querySelectorAll("#run-steps .step")) {
    const found = step.dataset.status === "running" ? waits.get(step.dataset.step) : undefined;
    const line = step.querySelector("[data-probe]");
    line.hidden = !found;
    line.textContent = !found ? "" : found.probe ? words(found.probe) : found.waitsFor;
  }
}

function words({ answer, tries, deadline }) {
  const left = clock(Math.max(0, Date.parse(deadline) - Date.now()));
  const tried = tries ? `${tries} ${tries === 1 ? "try" : "tries"}` : "";
  return [answer, tried, `${left} left`].filter(Boolean).join(" · ");
}
