// The parts of a run's page as tabs (ARIA's pattern): one is shown, the address names it.

import { clockTime } from "./frame.js";
import { startGraph } from "./run_steps.js";
import { call } from "./wire.js";

const bar = document.getElementById("run-tabs");
const tabs = [...bar.querySelectorAll("[role=tab]")];
const list = document.getElementById("run-events");
const run = document.getElementById("run");
const panes = document.querySelector(".run-panes");
const narrow = matchMedia("(max-width: 56.2rem)");
const NARROW = ["why", "steps"];
const WITH_LOG = ["log", "timeline"]; // the timeline stands above the log of all steps
const LEAST = 288;
const GAP = 12;
const shownEvents = new Set();
let api = "";
let waiting = null; // events of the stream while the earlier ones are read; null before and after
let areRead = false;

/** Shows the tab that the address names, else the first; `address` is the run's in the API. */
export function startTabs(address) {
  api = address;
  for (const tab of tabs) {
    tab.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return; // another window is wanted
      event.preventDefault();
      showFromTop(nameOf(tab));
    });
    tab.addEventListener("keydown", moveFocus);
  }
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-show-tab]");
    if (!link) return;
    selectTab(link.dataset.showTab);
    document.getElementById(`tab-${link.dataset.showTab}`).focus();
  });
  addEventListener("hashchange", followHash);
  addEventListener("scroll", fitPanes, { passive: true });
  narrow.addEventListener("change", arrange);
  new ResizeObserver(fitPanes).observe(run);
  arrange();
  const isNamed = new URLSearchParams(location.search).has("tab");
  if (isNamed && paneOf(run.dataset.tab).getBoundingClientRect().top > innerHeight * 0.6) scrollToTabs();
  followHash();
}

export function isNarrow() {
  return narrow.matches;
}

/** A narrow window shows cause and steps as tabs; a wide one beside the others, which they lead. */
function arrange() {
  for (const name of NARROW) {
    paneOf(name).setAttribute("role", narrow.matches ? "tabpanel" : "region");
  }
  if (narrow.matches) paneOf("why").before(bar);
  else paneOf("why").after(bar);
  selectTab(run.dataset.tab);
}

export function selectTab(name) {
  const shown = !narrow.matches && NARROW.includes(name) ? "log" : name;
  run.dataset.tab = shown;
  for (const tab of tabs) {
    const isSelected = nameOf(tab) === shown;
    tab.setAttribute("aria-selected", isSelected);
    tab.tabIndex = isSelected ? 0 : -1;
    if (isSelected) bar.scrollLeft = tab.offsetLeft + tab.offsetWidth / 2 - bar.clientWidth / 2;
    if (!NARROW.includes(nameOf(tab))) paneOf(nameOf(tab)).hidden = !isSelected;
  }
  showLogBeside(shown);
  if (shown === "events") readEvents();
  if (shown === "graph") startGraph();
  if (shown === "timeline") import("./timeline.js").then((timeline) => timeline.load());
  showAddress(shown);
  fitPanes();
}

/** Beside another tab, the log is a region of the page and no tab's panel. */
function showLogBeside(shown) {
  const log = paneOf("log");
  log.hidden = !WITH_LOG.includes(shown);
  log.setAttribute("role", shown === "timeline" ? "region" : "tabpanel");
}

/** Shows a tab; in a narrow window from its beginning, with the tabs above it. */
export function showFromTop(name) {
  selectTab(name);
  if (narrow.matches && tabsTop() < 0) scrollToTabs();
}

/** Shows the log so that all of it is in the window. */
export function showLog() {
  selectTab("log");
  if (narrow.matches || isCut()) scrollToTabs();
}

/** Shows the list of steps, which a wide window always does. */
export function showSteps() {
  if (narrow.matches && run.dataset.tab !== "steps") showFromTop("steps");
}

/** Where the tabs would be if they did not stick, from the top of the window. */
function tabsTop() {
  return document.getElementById("run-head").getBoundingClientRect().bottom;
}

function scrollToTabs() {
  if (narrow.matches) scrollBy(0, tabsTop());
  else paneOf("steps").scrollIntoView({ block: "start" });
}

/** The panes end where the window ends, as far as the head leaves them `LEAST` pixels. */
function fitPanes() {
  const below = run.getBoundingClientRect().bottom + GAP - innerHeight;
  const most = panes.clientHeight - LEAST;
  run.style.setProperty("--below", `${Math.max(0, Math.min(below, most))}px`);
}

function isCut() {
  return paneOf("log").getBoundingClientRect().bottom > innerHeight;
}

/** Adds an event of the stream, once the earlier ones are there. */
export function addEvent(event) {
  if (areRead) show(event);
  else waiting?.push(event);
}

function show(event) {
  if (shownEvents.has(event.id)) return;
  shownEvents.add(event.id);
  list.append(row(event));
}

/** The number of failed tests stands on their tab. */
export function showFailedTests() {
  const count = document.querySelectorAll("#failed-tests .failed-case").length;
  document.getElementById("tab-tests").textContent = count ? `Tests (${count} failed)` : "Tests";
}

function nameOf(tab) {
  return tab.id.slice("tab-".length);
}

function paneOf(name) {
  return document.getElementById(`pane-${name}`);
}

function moveFocus(event) {
  const there = tabs.filter((tab) => narrow.matches || !NARROW.includes(nameOf(tab)));
  const at = there.indexOf(event.target);
  const step = { ArrowRight: 1, ArrowLeft: -1, Home: -at, End: -1 - at, " ": 0 };
  if (!(event.key in step)) return;
  event.preventDefault();
  const next = there.at((at + step[event.key]) % there.length);
  next.focus();
  showFromTop(nameOf(next));
}

function followHash() {
  if (location.hash === "#failed-tests") {
    showFromTop("tests");
    document.getElementById("failed-tests").scrollIntoView({ block: "nearest" });
  } else if (location.hash === "#log") {
    showLog();
    document.getElementById("log").focus();
  }
}

function showAddress(name) {
  const address = new URL(location.href);
  const first = narrow.matches ? run.dataset.firstTab : "log";
  if (name === first) address.searchParams.delete("tab");
  else address.searchParams.set("tab", name);
  if (address.href !== location.href) history.replaceState(history.state, "", address);
}

async function readEvents() {
  if (areRead || waiting) return;
  waiting = [];
  try {
    const run = await call("GET", `${api}?omit=suite,steps,artifacts`);
    list.replaceChildren();
    for (const event of [...run.events, ...waiting]) show(event);
    areRead = true;
  } catch (problem) {
    list.replaceChildren(element("li", "", `The events could not be read: ${problem.message}`));
  }
  waiting = null;
}

function row(event) {
  const item = element("li", "", "");
  item.dataset.level = event.level;
  const time = element("time", "num", clockTime(event.time));
  time.dateTime = time.title = event.time;
  item.append(time, element("span", "event-source", event.source), element("span", "event-text", event.text));
  return item;
}

function element(name, className, textContent) {
  return Object.assign(document.createElement(name), { className, textContent });
}
