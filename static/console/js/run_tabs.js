// The parts of a run's page as tabs (ARIA's pattern): one is shown, the address names it.

import { clockTime } from "./logline.js";
import { call } from "./wire.js";

const tabs = [...document.querySelectorAll("#run-tabs [role=tab]")];
const list = document.getElementById("run-events");
const shownEvents = new Set();
let api = "";
let waiting = null; // events of the stream while the earlier ones are read; null before and after
let areRead = false;

/** Shows the tab that the address names, else the log; `address` is the run's in the API. */
export function startTabs(address) {
  api = address;
  document.getElementById("run-tabs").hidden = false;
  for (const tab of tabs) {
    tab.addEventListener("click", () => selectTab(nameOf(tab)));
    tab.addEventListener("keydown", moveFocus);
  }
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-show-tab]");
    if (!link) return;
    selectTab(link.dataset.showTab);
    document.getElementById(`tab-${link.dataset.showTab}`).focus();
  });
  addEventListener("hashchange", followHash);
  const named = new URLSearchParams(location.search).get("tab");
  selectTab(tabs.some((tab) => nameOf(tab) === named) ? named : "log");
  followHash();
}

export function selectTab(name) {
  for (const tab of tabs) {
    const isSelected = nameOf(tab) === name;
    tab.setAttribute("aria-selected", isSelected);
    tab.tabIndex = isSelected ? 0 : -1;
    document.getElementById(`pane-${nameOf(tab)}`).hidden = !isSelected;
  }
  const graph = document.getElementById("run-graph");
  if (name === "graph" && graph) graph.open = true;
  if (name === "events") readEvents();
  showAddress(name);
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

function moveFocus(event) {
  const step = { ArrowRight: 1, ArrowLeft: -1, Home: -tabs.indexOf(event.target), End: -1 - tabs.indexOf(event.target) };
  if (!(event.key in step)) return;
  event.preventDefault();
  const next = tabs.at((tabs.indexOf(event.target) + step[event.key]) % tabs.length);
  next.focus();
  selectTab(nameOf(next));
}

function followHash() {
  if (location.hash === "#failed-tests") {
    selectTab("tests");
    document.getElementById("failed-tests").scrollIntoView({ block: "nearest" });
  }
}

function showAddress(name) {
  const address = new URL(location.href);
  if (name === "log") address.searchParams.delete("tab");
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
