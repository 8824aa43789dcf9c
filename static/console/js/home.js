// The runs, live from the overview stream. Filters and further pages keep their rows: only what is
// shown changes, and a link says how many runs began since.

import { onKey } from "./keys.js";
import { ago, clock, isIsolated, RUN_OVER, runDisplay, showStatus, showTicks } from "./status_display.js";
import { showLink, Stream } from "./stream.js";
import { runUrl, urls } from "./urls.js";
import { checkSession } from "./wire.js";

const list = document.getElementById("runs");
const empty = document.getElementById("no-runs");
const template = document.getElementById("run-row");
const newRuns = document.getElementById("new-runs");
const MAX_ROWS = 50;
const live = list.dataset.live === "all";
const backends = new Set([...list.querySelectorAll(".run-backend")].map((cell) => cell.textContent));
let active = new Map(); // row → [durationMs, when it was true]

function slot(row, name) {
  return row.querySelector(`[data-slot=${name}]`);
}

function isWell(item) {
  return item.status === "Healthy" || (item.status === "Booting" && !item.failing);
}

function fill(row, item) {
  row.dataset.run = item.id;
  row.dataset.started = item.startedAt;
  slot(row, "link").href = runUrl(item.id);
  showStatus(row.querySelector(".status"), runDisplay(item.status, item.failing, item.healthySteps > 0));
  showTicks(row.querySelector(".ticks"), item);
  const texts = {
    title: item.suiteTitle, profile: item.profile, backend: item.backend, id: item.id,
    attempt: item.attempt ? `attempt ${item.attempt}` : "",
    duration: item.duration, ago: ago(item.startedAt),
    reason: isWell(item) ? "" : item.sentence,
    by: [item.author, item.trigger].filter(Boolean).join(" · "),
  };
  for (const [name, text] of Object.entries(texts)) slot(row, name).textContent = text;
  slot(row, "where").dataset.isolated = isIsolated(item.backend);
  if (backends.add(item.backend).size > 1) delete list.dataset.oneBackend;
  if (!RUN_OVER.has(item.status)) active.set(row, [item.durationMs ?? 0, performance.now()]);
}

function show(overview) {
  active = new Map();
  for (const cell of document.querySelectorAll("[data-sum]")) {
    cell.textContent = overview.summary[cell.dataset.sum];
  }
  const known = new Map([...list.children].map((row) => [row.dataset.run, row]));
  if (live) return showNewest(overview.executions, known);
  for (const item of overview.executions) if (known.has(item.id)) fill(known.get(item.id), item);
  const since = overview.executions.filter((item) => item.startedAt > list.dataset.readAt).length;
  newRuns.hidden = since === 0;
  newRuns.textContent = since === 1 ? "1 new run. Show" : `${since} new runs. Show`;
}

/** The runs of the overview, then the older ones that the page came with. */
function showNewest(items, known) {
  const rows = items.map((item) => {
    const row = known.get(item.id) ?? template.content.firstElementChild.cloneNode(true);
    fill(row, item);
    return row;
  });
  const oldest = items.at(-1)?.startedAt ?? "9";
  const older = [...known.values()].filter((row) => !rows.includes(row) && row.dataset.started < oldest);
  arrange([...rows, ...older].slice(0, MAX_ROWS));
  empty.hidden = list.children.length > 0;
}

/** Puts the rows in order without moving those that are in place: focus and selection stay. */
function arrange(rows) {
  const wanted = new Set(rows);
  for (const row of [...list.children]) if (!wanted.has(row)) row.remove();
  rows.forEach((row, index) => {
    if (list.children[index] !== row) list.insertBefore(row, list.children[index] ?? null);
  });
}

function move(step) {
  const links = [...list.querySelectorAll(".run-link")];
  const now = links.indexOf(document.activeElement);
  links[Math.min(Math.max(now + step, 0), links.length - 1)]?.focus();
}

const link = document.querySelector(".link-state");
new Stream(urls.overview, {
  on: { record: show, state: (name, seconds) => showLink(link, name, seconds), refused: checkSession },
});
setInterval(() => {
  for (const [row, [base, since]] of active) {
    slot(row, "duration").textContent = clock(base + performance.now() - since);
  }
}, 1000);
onKey("j", () => move(1));
onKey("k", () => move(-1));
