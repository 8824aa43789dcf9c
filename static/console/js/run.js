// A run, live: events move the statuses, the log flows, and what needs words is fetched as fragments.

import { showLocalTimes } from "./frame.js";
import { onKey } from "./keys.js";
import { showLine } from "./logline.js";
import { AllLines, LinesOfSource } from "./loglines.js";
import { LogSearch } from "./logsearch.js";
import { LogView } from "./logview.js";
import { followProbes, showProbes, stopProbes } from "./probes.js";
import { addEvent, selectTab, showFailedTests, startTabs } from "./run_tabs.js";
import { clocksAreFresh, showClocks } from "./step_clocks.js";
import { clock, RUN_OVER, runDisplay, setIcon, showStatus, stepDisplay } from "./status_display.js";
import { showLink, Stream } from "./stream.js";
import { call, checkSession, Problem } from "./wire.js";

const TAIL = 1000;
const REFRESH_MS = 700;
const run = document.getElementById("run");
const api = `/api/v1/executions/${encodeURIComponent(run.dataset.run)}`;
const byId = (id) => document.getElementById(id);
const state = { over: run.dataset.over === "true", selected: "", touched: false, refresh: 0, again: false };

// ── steps ────────────────────────────────────────────────────────────────────

function stepOf(id) {
  return byId("run-steps").querySelector(`[data-step="${CSS.escape(id)}"]`);
}

function nodeOf(id) {
  return document.querySelector(`.node[data-node="${CSS.escape(id)}"]`);
}

function showStep(id, status) {
  const step = stepOf(id);
  if (step) {
    step.dataset.status = status;
    showStatus(step.querySelector(".status"), stepDisplay(status));
  }
  showNode(id, status);
}

function showNode(id, status) {
  const node = nodeOf(id);
  if (!node || node.dataset.status === status) return;
  node.dataset.status = status;
  setIcon(node, status);
  node.querySelector("title").textContent = `${id}: ${status}`;
}

/** Opens a step in the list, marks it in the graph and shows its part of the log; "" = all steps. */
function select(id, { filter = true } = {}) {
  state.selected = id;
  markSelected();
  bringNodeIntoView(id);
  if (filter) filterLog(id);
}

function bringNodeIntoView(id) {
  const node = nodeOf(id);
  if (!node) return;
  const frame = node.closest(".graph-scroll");
  const [inner, outer] = [node.getBoundingClientRect(), frame.getBoundingClientRect()];
  if (inner.left < outer.left || inner.right > outer.right) {
    frame.scrollLeft += inner.left - outer.left - (outer.width - inner.width) / 2;
  }
}

function markSelected() {
  for (const step of byId("run-steps").querySelectorAll(".step")) {
    const isSelected = step.dataset.step === state.selected;
    step.classList.toggle("is-selected", isSelected);
    step.querySelector(".step-head").setAttribute("aria-expanded", isSelected);
    step.querySelector(".step-more").hidden = !isSelected;
  }
  for (const node of document.querySelectorAll(".node")) {
    node.classList.toggle("is-selected", node.dataset.node === state.selected);
  }
  for (const edge of document.querySelectorAll(".edge")) {
    const touches = state.selected && [edge.dataset.from, edge.dataset.to].includes(state.selected);
    edge.classList.toggle("is-selected", Boolean(touches));
  }
}

function moveStep(by) {
  const heads = [...byId("run-steps").querySelectorAll(".step-head")];
  const focused = heads.indexOf(document.activeElement);
  const selected = heads.findIndex((head) => head.closest(".step").dataset.step === state.selected);
  const now = focused >= 0 ? focused : selected;
  heads[Math.min(Math.max(now + by, 0), heads.length - 1)]?.focus();
}

document.addEventListener("click", (event) => {
  const head = event.target.closest(".step-head");
  const node = event.target.closest(".node");
  const named = event.target.closest("[data-go-to-step]");
  if (!head && !node && !named) return;
  const id = head?.closest(".step").dataset.step ?? node?.dataset.node ?? named.dataset.goToStep;
  state.touched = true;
  select(id === state.selected && !named ? "" : id);
  if (named) {
    stepOf(id)?.scrollIntoView({ block: "nearest" });
    bringLogIntoView();
  }
});

function selectFirstFailure() {
  const first = byId("run-steps").dataset.firstFailure;
  if (first && !state.touched && !state.selected) select(first);
}

// ── log ──────────────────────────────────────────────────────────────────────

const lastLog = Number(run.dataset.lastLog);
const all = new AllLines(`${api}/logs`, lastLog, () => changed());
const view = new LogView(byId("log"), { lines: all, on: { follow: showFollowing, mark: (line) => showLine(byId("log-line"), line) } });

function changed() {
  const { lines } = view;
  byId("log-empty").hidden = lines.length > 0;
  byId("log-empty").textContent = emptyText(lines);
  view.draw();
}

function emptyText(lines) {
  if (lines.loading) return "Loading…";
  if (lines.failed) return "The lines of this step could not be read; choose it again.";
  return state.over ? "No lines." : "No lines yet.";
}

function filterLog(source) {
  view.lines.drop?.();
  byId("log-filter").value = source;
  view.show(source ? new LinesOfSource(`${api}/logs/download`, source, () => changed()) : all);
  byId("log").classList.toggle("one-source", Boolean(source));
  changed();
}

let shownFollowing;
function showFollowing(following, unseen) {
  if (following !== shownFollowing) byId("log-follow").setAttribute("aria-pressed", following);
  shownFollowing = following;
  const pill = byId("log-new");
  pill.hidden = following || unseen <= 0;
  if (!pill.hidden) {
    pill.querySelector("span").textContent = `${unseen.toLocaleString("en")} new line${unseen === 1 ? "" : "s"}`;
  }
}

function record(data) {
  all.add(data);
  if (view.lines !== all) view.lines.add(data);
  changed();
}

/** A link names something in the log: the page scrolls to it, not only the log within the page. */
function bringLogIntoView() {
  selectTab("log");
  byId("log").scrollIntoView({ block: "nearest" });
}

function goToLine(id, words = "") {
  bringLogIntoView();
  if (view.goTo(id, words)) return;
  state.touched = true;
  select("", { filter: true });
  view.goTo(id, words);
}

const search = new LogSearch(`${api}/logs/search`, {
  hit: (id) => goToLine(id, search.words),
  state: (text, hasHits) => {
    byId("log-hits").textContent = text;
    for (const button of byId("log-search").querySelectorAll("[data-hit]")) button.hidden = !hasHits;
  },
});

byId("log-search").addEventListener("submit", (event) => {
  event.preventDefault();
  search.find(event.target.elements.q.value, byId("log-filter").value);
});
byId("log-search").addEventListener("search", (event) => {
  if (!event.target.value) search.find("", "");
});
byId("log-search").addEventListener("click", (event) => {
  const button = event.target.closest("[data-hit]");
  if (button) search.move(Number(button.dataset.hit));
});
byId("log-filter").addEventListener("change", (event) => {
  state.touched = true;
  select(event.target.value);
});
const CLOCK_TIMES = "partita.log-clock-times";
function showClockTimes(shown) {
  byId("log-clock").setAttribute("aria-pressed", shown);
  view.setClockTimes(shown);
}
byId("log-clock").addEventListener("click", () => {
  const shown = byId("log-clock").getAttribute("aria-pressed") !== "true";
  localStorage.setItem(CLOCK_TIMES, shown);
  showClockTimes(shown);
});
byId("log-line").querySelector("button").addEventListener("click", () => view.unmark());
byId("log-follow").addEventListener("click", () => view.setFollowing(!view.following));
byId("log-new").addEventListener("click", () => view.setFollowing(true));
byId("log").addEventListener("click", (event) => {
  const number = event.target.closest(".log-no");
  if (number) view.goTo(Number(number.dataset.line));
});

function openPermalink() {
  const line = /^#L(\d+)$/.exec(location.hash);
  if (!line) return false;
  state.touched = true;
  goToLine(Number(line[1]));
  return true;
}

// ── the run itself ───────────────────────────────────────────────────────────

byId("only-failed").addEventListener("click", (event) => {
  const pressed = event.target.getAttribute("aria-pressed") !== "true";
  event.target.setAttribute("aria-pressed", pressed);
  run.classList.toggle("only-failed", pressed);
});

let ticking = null;
function startTicking() {
  const head = byId("run-head");
  state.over = head.dataset.over === "true";
  clocksAreFresh();
  ticking = state.over ? null : { base: Number(head.dataset.durationMs), since: performance.now() };
}

function tick() {
  showProbes();
  showClocks();
  if (ticking) byId("run-head").querySelector("[data-duration]").textContent = clock(ticking.base + performance.now() - ticking.since);
}

const newest = new Map(); // the last event of each source, oldest first

function showEvent(data, id) {
  addEvent(data.event);
  newest.delete(data.event.source);
  newest.set(data.event.source, { id, data });
  if (id > renderedEvent()) showStatuses(data); // else the page shows what came after it
  refreshSoon();
}

/** The last event that the fragments in the page have taken into account. */
function renderedEvent() {
  return Number(byId("run-head").dataset.lastEvent);
}

function showStatuses(data) {
  if (data.event.source !== "execution") showStep(data.event.source, data.event.status);
  const look = runDisplay(data.executionStatus, data.failing, hasHealthyStep());
  const head = byId("run-head");
  head.dataset.status = look.key;
  showStatus(head.querySelector(".run-title .status"), look);
  document.title = `${look.label} · ${run.dataset.title} · Partita`;
  announce(`${look.label} after ${data.duration}`, look.key);
  if (RUN_OVER.has(data.executionStatus)) ended();
}

function hasHealthyStep() {
  return byId("run-steps").querySelector(".step[data-status=healthy]") !== null;
}

/** The fragments may have been rendered before events that the page has already shown. */
function showNewerEvents() {
  const rendered = renderedEvent();
  for (const { id, data } of newest.values()) {
    if (id > rendered) showStatuses(data);
  }
}

let announced = "";
function announce(text, key) {
  if (key === announced) return; // readers are told of changes, not of every event
  announced = key;
  byId("run-live").textContent = text;
}

function ended() {
  state.over = true;
  ticking = null;
  document.querySelector("[data-action=cancel]").hidden = true;
  byId("cancel").close();
  stopProbes();
}

/** Fetches the fragments at most every REFRESH_MS; a change during a fetch brings another. */
function refreshSoon() {
  state.again = true;
  state.refresh ||= setTimeout(refresh, REFRESH_MS);
}

async function refresh() {
  state.again = false;
  await htmx.ajax("GET", `/executions/${encodeURIComponent(run.dataset.run)}/panels`, { source: run, swap: "none" });
  state.refresh = 0;
  if (state.again) refreshSoon();
}

const unfolded = new Map(); // what a reader opened or closed in a fragment → open

/** What it is about, in any rendering: its place and, among several, its name. */
function foldKey(details) {
  return `${details.closest("[id]").id} ${details.dataset.fold}`;
}

document.addEventListener("click", (event) => {
  const details = event.target.closest("summary")?.closest("details[data-fold]");
  if (details) unfolded.set(foldKey(details), !details.open); // the click is about to do it
});

function keepUnfolded() {
  for (const details of document.querySelectorAll("details[data-fold]")) {
    details.open = unfolded.get(foldKey(details)) ?? details.open;
  }
}

document.body.addEventListener("htmx:afterRequest", (event) => {
  if (!event.detail.successful) return; // what is shown goes on; the next event asks again
  keepUnfolded();
  showFailedTests();
  markSelected();
  startTicking();
  showLocalTimes();
  showNewerEvents();
  showProbes();
  if (state.over) ended();
  for (const step of byId("run-steps").querySelectorAll(".step")) showNode(step.dataset.step, step.dataset.status);
  selectFirstFailure();
});

async function cancel(event) {
  event.preventDefault();
  const button = event.target.querySelector("[type=submit]");
  const reason = event.target.elements.reason.value.trim();
  button.disabled = true;
  showCancelError("");
  try {
    await call("POST", `${api}/cancel`, { body: reason ? { reason } : {} });
    byId("cancel").close();
    refreshSoon();
  } catch (error) {
    showCancelError(error instanceof Problem ? error.words : "The server did not answer; try again.");
  }
  button.disabled = false;
}

function showCancelError(text) {
  const alert = document.querySelector("[data-cancel-error]");
  alert.hidden = !text;
  alert.querySelector("p").textContent = text;
}

function askToCancel() {
  if (state.over) return false;
  byId("cancel").showModal();
  return true;
}

document.querySelector(".run-actions [data-action=cancel]").addEventListener("click", askToCancel);
byId("cancel-form").addEventListener("submit", cancel);

// ── streams ──────────────────────────────────────────────────────────────────

const links = { events: "connecting", logs: "connecting" };
function showLinks(which, name, seconds) {
  links[which] = name;
  if (which === "logs") showLink(byId("log-link"), name, seconds);
  const away = Object.values(links).find((one) => one === "offline" || one === "reconnecting");
  const banner = byId("link-banner");
  banner.hidden = !away;
  if (!away) return;
  const wait = seconds ? ` Next try in ${seconds} s.` : "";
  banner.textContent = away === "offline"
    ? "You are offline. What happens meanwhile is shown when the connection is back."
    : `The connection is away; nothing is lost, it goes on where it stopped.${wait}`;
}

new Stream(`${api}/events`, {
  since: Number(run.dataset.lastEvent),
  on: {
    record: showEvent,
    gap: refreshSoon,
    end: () => { ended(); refreshSoon(); },
    state: (name, seconds) => showLinks("events", name, seconds),
    refused: checkSession,
  },
});
new Stream(`${api}/logs`, {
  since: Math.max(0, lastLog - TAIL),
  on: {
    record,
    gap: (range) => { all.addGap(range); changed(); },
    end: changed,
    state: (name, seconds) => showLinks("logs", name, seconds),
    refused: checkSession,
  },
});

if (!state.over) followProbes(api);

// ── keys ─────────────────────────────────────────────────────────────────────

onKey("f", () => view.setFollowing(!view.following));
onKey("/", () => byId("log-search").elements.q.focus());
onKey("n", () => search.move(1));
onKey("N", () => search.move(-1));
onKey("x", askToCancel);
onKey("j", () => moveStep(1));
onKey("k", () => moveStep(-1));
onKey("Escape", (event) => {
  if (document.querySelector("dialog[open]")) return false;
  if (event.target.matches?.("input")) return event.target.blur();
  return select("");
});

startTabs(api);
showFailedTests();
setInterval(tick, 1000);
startTicking();
showClockTimes(localStorage.getItem(CLOCK_TIMES) === "true");
view.setFollowing(true);
if (!openPermalink()) selectFirstFailure();
changed();
addEventListener("hashchange", openPermalink);
