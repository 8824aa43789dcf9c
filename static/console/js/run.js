// A run, live: events move the statuses, the log flows, and what needs words is fetched as fragments.

import { showLocalTimes } from "./frame.js";
import { onKey } from "./keys.js";
import { followProbes, showProbes, stopProbes } from "./probes.js";
import { RunLog, showStepOfLog } from "./run_log.js";
import {
  firstFailure, hasHealthyStep, markSelected, moveStep, selectedStep, selectStep, showListAgain, showNodes, showStep,
} from "./run_steps.js";
import { addEvent, isNarrow, showFailedTests, showLog, showSteps, startTabs } from "./run_tabs.js";
import { clocksAreFresh, showClocks } from "./step_clocks.js";
import { clock, RUN_OVER, runDisplay, showStatus } from "./status_display.js";
import { showLink, Stream } from "./stream.js";
import { call, checkSession, Problem } from "./wire.js";

const TAIL = 1000;
const REFRESH_MS = 700;
const run = document.getElementById("run");
const api = run.dataset.api;
const byId = (id) => document.getElementById(id);
const state = { over: run.dataset.over === "true", touched: false, refresh: 0, again: false };
const wasOver = state.over;

/** Chooses a step: the list unfolds it, the graph marks it, the log is its own; "" = all steps. */
function choose(id) {
  selectStep(id);
  log.filter(id);
  showStepOfLog(id);
}

document.addEventListener("click", (event) => {
  const head = event.target.closest(".step-head");
  const node = event.target.closest("#graph .node:not(.group)");
  const named = event.target.closest("[data-go-to-step]");
  if (!head && !node && !named) return;
  const id = head?.closest(".step").dataset.step ?? node?.dataset.node ?? named.dataset.goToStep;
  state.touched = true;
  const isShown = id === selectedStep() && run.dataset.tab === "log";
  choose(isShown && !named ? "" : id);
  if (!node || isNarrow()) showLog();
});

function chooseFirstFailure() {
  const first = firstFailure();
  if (first && !state.touched && !selectedStep()) choose(first);
}

const lastLog = Number(run.dataset.lastLog);
const log = new RunLog(api, lastLog, {
  choose: (source) => { state.touched = true; choose(source); },
  isOver: () => state.over,
});

function openPermalink() {
  const line = /^#L(\d+)$/.exec(location.hash);
  if (!line) return false;
  state.touched = true;
  log.goToLine(Number(line[1]));
  return true;
}

// ── the run itself ───────────────────────────────────────────────────────────

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
  byId("log-follow").hidden = true;
  byId("cancel").close();
  stopProbes();
  document.dispatchEvent(new Event("run:over"));
}

/** Fetches the fragments at most every REFRESH_MS; a change during a fetch brings another. */
function refreshSoon() {
  state.again = true;
  state.refresh ||= setTimeout(refresh, REFRESH_MS);
}

async function refresh() {
  state.again = false;
  await htmx.ajax("GET", `${run.dataset.address}/panels`, { source: run, swap: "none" });
  state.refresh = 0;
  if (state.again) refreshSoon();
}

document.addEventListener("run:changed", refreshSoon);
document.addEventListener("timeline:instant", (event) => { state.touched = true; log.scrubTo(event.detail); });

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
  if (!event.detail.pathInfo.requestPath.endsWith("/panels")) return;
  if (!event.detail.successful) return; // what is shown goes on; the next event asks again
  keepUnfolded();
  showFailedTests();
  showListAgain();
  showStepOfLog(selectedStep());
  startTicking();
  showLocalTimes();
  showNewerEvents();
  showProbes();
  if (state.over) ended();
  showNodes();
  chooseFirstFailure();
});

document.addEventListener("graph:drawn", () => {
  showNodes();
  markSelected();
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
    ? "You are offline. Updates will appear when the connection is back."
    : `Connection lost. Reconnecting; no output will be missed.${wait}`;
}

new Stream(`${api}/events`, {
  since: Number(run.dataset.lastEvent),
  on: {
    record: showEvent,
    gap: refreshSoon,
    end: () => {
      if (!wasOver) refreshSoon(); // else it was rendered whole
      ended();
    },
    state: (name, seconds) => showLinks("events", name, seconds),
    refused: checkSession,
  },
});
new Stream(`${api}/logs`, {
  since: Math.max(0, lastLog - TAIL),
  on: {
    record: (record) => log.add(record),
    gap: (range) => log.addGap(range),
    end: () => log.changed(),
    state: (name, seconds) => showLinks("logs", name, seconds),
    refused: checkSession,
  },
});

if (!state.over) followProbes(api);

// ── keys ─────────────────────────────────────────────────────────────────────

const goesOn = () => !state.over;
onKey("f", () => log.view.setFollowing(!log.view.following), goesOn);
onKey("/", () => { showLog(); byId("log-search").elements.q.focus(); });
onKey("n", () => log.moveHit(1));
onKey("N", () => log.moveHit(-1));
onKey("x", askToCancel, goesOn);
onKey("j", () => { showSteps(); moveStep(1); });
onKey("k", () => { showSteps(); moveStep(-1); });
onKey("Escape", (event) => {
  if (document.querySelector("dialog[open]")) return false;
  if (event.target.matches?.("input")) return event.target.blur();
  return choose("");
});

startTabs(api);
showFailedTests();
setInterval(tick, 1000);
startTicking();
if (!openPermalink()) chooseFirstFailure();
log.changed();
addEventListener("hashchange", openPermalink);
