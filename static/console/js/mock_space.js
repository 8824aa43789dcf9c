// The calls and the state of mock spaces: fetched again while they are in view. What a reader unfolded
// stays open, the focus stays where it is, and what has not changed is left alone.

import { clockTime } from "./frame.js";

const EVERY_MS = 2_000;
const TOKEN = /name="csrfmiddlewaretoken" value="[^"]*"/g; // another one in each answer
const HIDDEN_TURNS = 5; // what is not in view is fetched every so many turns, for the number on its tab
const kept = new WeakMap(); // space → what was open in it, and the last answer

function memoryOf(space) {
  if (!kept.has(space)) kept.set(space, { open: [], focused: "", answer: "" });
  return kept.get(space);
}

let turn = 0;

/** Not while nobody looks, and not while a reader chooses, types or selects something in it. */
function refresh() {
  turn += 1;
  if (document.visibilityState !== "visible") return;
  for (const space of document.querySelectorAll("[data-mock-space][data-live=true]")) {
    const isUsed = space.contains(document.activeElement) && document.activeElement.matches("select, button, input");
    const isSelected = space.contains(getSelection()?.anchorNode) && !getSelection().isCollapsed;
    const isDue = space.offsetParent !== null || turn % HIDDEN_TURNS === 0;
    if (isDue && !isUsed && !isSelected) htmx.trigger(space, "refresh");
  }
}

document.addEventListener("htmx:beforeSwap", (event) => {
  const space = event.detail.target;
  if (!space.matches?.("[data-mock-space]")) return;
  const memory = memoryOf(space);
  const answer = event.detail.serverResponse.replaceAll(TOKEN, "");
  if (answer === memory.answer) event.detail.shouldSwap = false;
  memory.answer = answer;
  memory.open = [...space.querySelectorAll("details[open][data-fold]")].map((each) => each.dataset.fold);
  memory.focused = space.contains(document.activeElement) ? document.activeElement.closest("[data-fold]")?.dataset.fold ?? "" : "";
});
document.addEventListener("htmx:afterSwap", (event) => {
  const space = event.detail.target;
  if (!space.matches?.("[data-mock-space]")) return;
  const { open, focused } = memoryOf(space);
  const folded = (fold) => space.querySelector(`details[data-fold="${CSS.escape(fold)}"]`);
  for (const fold of open) folded(fold)?.setAttribute("open", "");
  if (focused) folded(focused)?.querySelector("summary").focus({ preventScroll: true });
});
document.addEventListener("htmx:afterSettle", (event) => {
  const space = event.detail.target;
  if (!space.matches?.("[data-mock-space]")) return;
  for (const time of space.querySelectorAll("time")) time.textContent = clockTime(time.dateTime);
  showUnmatched(space);
});

/** On the page of a run, the number of unmatched calls stands on their tab. */
function showUnmatched(space) {
  const tab = document.getElementById("tab-mocks");
  if (!tab) return;
  const numbers = [...space.querySelectorAll("[data-unmatched]")].map((each) => Number(each.dataset.unmatched));
  const count = numbers.reduce((sum, each) => sum + each, 0);
  tab.textContent = count ? `Mock calls (${count} unmatched)` : "Mock calls";
}

setInterval(refresh, EVERY_MS);
