// The kept environment of a run that is over: how long it stays, Extend and End now.

import { clock } from "./status_display.js";
import { call, Problem } from "./wire.js";

const POLL_MS = 15_000;
const WARN_MS = 300_000;
const run = document.getElementById("run");
const api = run.dataset.api;
const PARTS = "suite,events,steps,artifacts,verdict,attempts";
const dialog = document.getElementById("end-keeping");
const place = () => document.querySelector("[data-kept-until]");

function leftMs() {
  return Date.parse(place().dataset.keptUntil) - Date.now();
}

function tick() {
  if (!place()) return;
  const left = leftMs();
  place().querySelector("[data-kept-left]").textContent = clock(left);
  const warning = place().querySelector("[data-kept-warning]");
  const text = left < WARN_MS ? "It ends soon; extend it to keep it." : "";
  if (warning.textContent !== text) warning.textContent = text; // it is read aloud
  place().classList.toggle("ends-soon", Boolean(text));
}

function showProblem(error) {
  const line = place()?.querySelector("[data-kept-error]");
  if (!line) return;
  line.textContent = error instanceof Problem ? error.words : "The server did not answer; try again.";
  line.hidden = false;
}

function changed() {
  document.dispatchEvent(new Event("run:changed"));
}

/** Others extend and end it too; nothing streams any more once a run is over. */
async function poll() {
  if (!place() || document.hidden) return;
  const shown = place().dataset.keptUntil;
  try {
    const { keep } = await call("GET", `${api}?omit=${PARTS}`);
    if (keep?.endedAt || keep?.until !== shown) changed();
  } catch (error) {
    if (error instanceof Problem) changed();
  }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-action=extend], [data-action=end-keeping]");
  if (!button) return;
  if (button.dataset.action === "end-keeping") return dialog.showModal();
  button.disabled = true;
  try {
    const keepAliveMs = Number(document.getElementById("extend-by").value);
    await call("PUT", `${api}/keep`, { body: { keepAliveMs } });
    changed();
  } catch (error) {
    showProblem(error);
  }
  button.disabled = false;
});

dialog.querySelector("form:not([method=dialog])").addEventListener("submit", async (event) => {
  event.preventDefault();
  dialog.close();
  try {
    await call("DELETE", `${api}/keep`);
    changed();
  } catch (error) {
    showProblem(error);
  }
});

setInterval(tick, 1000);
setInterval(poll, POLL_MS);
document.body.addEventListener("htmx:afterRequest", tick);
tick();
