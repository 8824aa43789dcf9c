// The list of steps: their statuses, the chosen one, and the keys that walk it.
// One step is in the order of Tab at a time, so that what follows the list is not forty stops away.

import { GROUP_ORDER, setIcon, showStatus, stepDisplay } from "./status_display.js";

const list = () => document.getElementById("run-steps");
const scroller = document.getElementById("steps-scroll");
let selected = "";
let graph = null; // its module, once somebody looks at the graph
let kept = null; // where the list stood before it was fetched again

export function selectedStep() {
  return selected;
}

export function stepOf(id) {
  return list().querySelector(`[data-step="${CSS.escape(id)}"]`);
}

export function stepIds() {
  return [...list().querySelectorAll(".step")].map((step) => step.dataset.step);
}

export function firstFailure() {
  return list().dataset.firstFailure;
}

export function hasHealthyStep() {
  return list().querySelector(".step[data-status=healthy]") !== null;
}

export function showStep(id, status) {
  const step = stepOf(id);
  if (step) {
    step.dataset.status = status;
    showStatus(step.querySelector(".status"), stepDisplay(status));
  }
  showNode(id, status);
}

/** Shows in the graph what the list says. */
export function showNodes() {
  for (const step of list().querySelectorAll(".step")) showNode(step.dataset.step, step.dataset.status);
}

function showNode(id, status) {
  const node = nodeOf(id);
  if (!node || node.dataset.status === status) return;
  node.dataset.status = status;
  if (node.matches(".member")) return showGroup(node.closest(".node"));
  setIcon(node, status);
  node.querySelector("title").textContent = `${id}: ${status}`;
}

function showGroup(group) {
  const statuses = new Set([...group.querySelectorAll(".member")].map((member) => member.dataset.status));
  const status = GROUP_ORDER.find((each) => statuses.has(each));
  group.dataset.status = status;
  setIcon(group, status);
  group.querySelector("title").textContent = `${group.dataset.node}: ${status}`;
}

/** What shows a step in the graph: its node, or its mark in the node of its group. */
function nodeOf(id) {
  return document.querySelector(`#graph [data-node="${CSS.escape(id)}"]`);
}

/** Makes the graph zoom and open its groups, with the chosen step marked. */
export async function startGraph() {
  graph ??= await import("./graph.js");
  graph.markNode(selected);
}

/** Unfolds a step in the list and marks it in the graph; "" chooses none. */
export function selectStep(id) {
  selected = id;
  markSelected();
  bringIntoView(stepOf(id));
}

export function markSelected() {
  for (const step of list().querySelectorAll(".step")) {
    const isSelected = step.dataset.step === selected;
    step.classList.toggle("is-selected", isSelected);
    step.querySelector(".step-head").setAttribute("aria-expanded", isSelected);
    step.querySelector(".step-more").hidden = !isSelected;
  }
  graph?.markNode(selected);
  stopAt(stepOf(selected)?.querySelector(".step-head"));
}

/** Scrolls the list, and nothing else, until the head of the step is in it. */
function bringIntoView(step) {
  if (!step) return;
  const [inner, outer] = [step.querySelector(".step-head").getBoundingClientRect(), scroller.getBoundingClientRect()];
  if (inner.top < outer.top) scroller.scrollTop += inner.top - outer.top;
  else if (inner.bottom > outer.bottom) scroller.scrollTop += inner.bottom - outer.bottom;
}

/** Makes one head the list's stop of the Tab key: the given one, else the first. */
function stopAt(head) {
  const heads = visibleHeads();
  const stop = heads.includes(head) ? head : heads[0];
  for (const each of list().querySelectorAll(".step-head")) each.tabIndex = each === stop ? 0 : -1;
}

function visibleHeads() {
  return [...list().querySelectorAll(".step-head")].filter((head) => head.offsetParent !== null);
}

/** Moves the focus by so many steps, from where it is or from the chosen step. */
export function moveStep(by) {
  const heads = visibleHeads();
  const focused = heads.indexOf(document.activeElement);
  const chosen = heads.findIndex((head) => head.closest(".step").dataset.step === selected);
  const now = focused >= 0 ? focused : chosen;
  focusHead(heads[Math.min(Math.max(now + by, 0), heads.length - 1)]);
}

function focusHead(head) {
  if (!head) return;
  stopAt(head);
  head.focus();
}

scroller.addEventListener("keydown", (event) => {
  if (!event.target.matches(".step-head")) return;
  const moves = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };
  if (!(event.key in moves)) return;
  event.preventDefault();
  moveStep(moves[event.key]);
});

document.getElementById("only-failed").addEventListener("click", (event) => {
  const pressed = event.target.getAttribute("aria-pressed") !== "true";
  event.target.setAttribute("aria-pressed", pressed);
  document.getElementById("run").classList.toggle("only-failed", pressed);
  stopAt(document.activeElement);
});

document.body.addEventListener("htmx:oobBeforeSwap", (event) => {
  if (event.detail.target.id === "run-steps") kept = scroller.scrollTop;
});

/** After the list was fetched again: the chosen step, and the place where the list stood. */
export function showListAgain() {
  markSelected();
  if (kept !== null) scroller.scrollTop = kept;
  kept = null;
}
