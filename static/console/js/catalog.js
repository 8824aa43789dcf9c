// The catalog: suites are launched with one of their profiles; the rest is htmx.

import { onKey } from "./keys.js";
import { runUrl, urls } from "./urls.js";
import { call, Problem, randomKey } from "./wire.js";

async function launch(button) {
  const menu = button.closest("details");
  const problem = menu.querySelector("[data-launch-problem]");
  const buttons = menu.querySelectorAll("button");
  for (const each of buttons) each.disabled = true;
  problem.hidden = true;
  button.dataset.key ??= randomKey(); // one run, however often it is tried
  const { launchSuite: suiteId, launchProfile: profile } = button.dataset;
  try {
    const run = await call("POST", urls.runs, {
      body: { suiteId, ...(profile && { profile }) },
      headers: { "Idempotency-Key": button.dataset.key },
    });
    location.assign(runUrl(run.id));
  } catch (error) {
    problem.textContent = error instanceof Problem ? error.words : "The server did not answer; try again.";
    problem.hidden = false;
    for (const each of buttons) each.disabled = false;
  }
}

/** Closes every open menu but `kept`. */
function closeMenus(kept) {
  for (const menu of document.querySelectorAll(".launch-menu[open]")) if (menu !== kept) menu.open = false;
}

function move(step) {
  const links = [...document.querySelectorAll("#packages h2 a")];
  const now = links.indexOf(document.activeElement);
  links[Math.min(Math.max(now + step, 0), links.length - 1)]?.focus();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-launch-suite]");
  if (button) launch(button);
  closeMenus(event.target.closest(".launch-menu"));
});
document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && document.querySelector(".launch-menu[open]");
  if (!menu) return;
  menu.open = false;
  menu.querySelector("summary").focus();
});
document.addEventListener("htmx:afterRequest", (event) => {
  const problem = document.querySelector("[data-catalog-problem]");
  if (!problem) return;
  problem.hidden = event.detail.successful;
  problem.textContent = event.detail.successful ? "" : "The server refused or did not answer. Reload the page and try again.";
});
onKey("/", () => document.getElementById("catalog-q")?.focus());
onKey("j", () => move(1));
onKey("k", () => move(-1));
