// The graph of the steps: it fits its frame, zooms, is drawn along, and opens groups of siblings.
// Panning is the frame's own scrolling, so that the arrow keys pan as well.

import { onKey } from "./keys.js";

const SMALLEST = 0.6; // a fit below it could not be read: then the frame scrolls
const LARGEST = 3;
const STEP = 1.25;
const opened = new Set();
let scale = 0; // 0: it fits
let drag = null;

const pane = () => document.getElementById("graph");
const frame = () => pane()?.querySelector(".graph-scroll");
const drawing = () => pane()?.querySelector(".graph");

function fit() {
  const [around, svg] = [frame(), drawing()];
  const { width, height } = svg.viewBox.baseVal;
  const tallest = parseFloat(getComputedStyle(around).maxHeight) || around.clientHeight; // "none" is not a number
  return Math.max(SMALLEST, Math.min(1, around.clientWidth / width, tallest / height));
}

/** Draws at the chosen scale, around the same center. */
function draw() {
  const [around, svg] = [frame(), drawing()];
  if (!svg || !around.clientWidth) return;
  const center = [
    (around.scrollLeft + around.clientWidth / 2) / around.scrollWidth,
    (around.scrollTop + around.clientHeight / 2) / around.scrollHeight,
  ];
  svg.style.maxWidth = "none";
  svg.style.width = `${svg.viewBox.baseVal.width * (scale || fit())}px`;
  around.scrollLeft = center[0] * around.scrollWidth - around.clientWidth / 2;
  around.scrollTop = center[1] * around.scrollHeight - around.clientHeight / 2;
}

function zoom(how) {
  const now = scale || fit();
  if (how === "fit") scale = 0;
  else scale = Math.min(LARGEST, Math.max(SMALLEST / 2, how === "in" ? now * STEP : now / STEP));
  draw();
}

/** Marks a step, or the group that it is in, and brings it into view; "" marks none. */
export function markNode(id) {
  const chosen = id && document.querySelector(`#graph [data-node="${CSS.escape(id)}"]`)?.closest(".node");
  for (const node of document.querySelectorAll(".node")) node.classList.toggle("is-selected", node === chosen);
  for (const edge of document.querySelectorAll(".edge")) {
    const ends = [edge.dataset.from, edge.dataset.to];
    edge.classList.toggle("is-selected", Boolean(chosen) && ends.includes(chosen.dataset.node));
  }
  if (!chosen) return;
  const [around, inner] = [frame(), chosen.getBoundingClientRect()];
  const outer = around.getBoundingClientRect();
  if (inner.left < outer.left || inner.right > outer.right) {
    around.scrollLeft += inner.left - outer.left - (outer.width - inner.width) / 2;
  }
  if (inner.top < outer.top || inner.bottom > outer.bottom) {
    around.scrollTop += inner.top - outer.top - (outer.height - inner.height) / 2;
  }
}

/** Fetches the drawing with the groups in `opened`, and gives the focus to what `focused` selects in it. */
async function redraw(focused) {
  const query = new URLSearchParams([...opened].map((group) => ["open", group]));
  await htmx.ajax("GET", `${pane().dataset.address}?${query}`, { target: "#graph", swap: "outerHTML" });
  scale = 0;
  observe();
  draw();
  pane().querySelector(focused)?.focus();
  pane().dispatchEvent(new CustomEvent("graph:drawn", { bubbles: true }));
}

function toggleGroup(group) {
  if (!opened.delete(group)) opened.add(group);
  redraw(".graph-scroll");
}

function toggleAll(button) {
  const groups = button.dataset.allGroups.split("\n");
  opened.clear();
  if (button.getAttribute("aria-pressed") === "false") groups.forEach((group) => opened.add(group));
  redraw("[data-all-groups]");
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("#graph button");
  const group = event.target.closest(".node.group");
  if (button?.dataset.zoom) zoom(button.dataset.zoom);
  else if (button?.dataset.allGroups) toggleAll(button);
  else if (group) toggleGroup(group.dataset.node);
});

document.addEventListener("pointerdown", (event) => {
  const around = event.target.closest(".graph-scroll");
  if (!around || event.pointerType !== "mouse" || event.button !== 0) return;
  drag = { around, x: event.clientX, y: event.clientY, left: around.scrollLeft, top: around.scrollTop };
});
document.addEventListener("pointermove", (event) => {
  if (!drag) return;
  drag.moved ||= Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > 4;
  if (!drag.moved) return;
  drag.around.scrollLeft = drag.left + drag.x - event.clientX;
  drag.around.scrollTop = drag.top + drag.y - event.clientY;
});
document.addEventListener("pointerup", () => {
  if (drag?.moved) { // the click that ends it chooses nothing
    const swallow = (event) => event.stopPropagation();
    addEventListener("click", swallow, { capture: true, once: true });
    setTimeout(() => removeEventListener("click", swallow, { capture: true }));
  }
  drag = null;
});
document.addEventListener("wheel", (event) => {
  if (!event.ctrlKey || !event.target.closest(".graph-scroll")) return;
  event.preventDefault();
  zoom(event.deltaY < 0 ? "in" : "out");
}, { passive: false });

const resized = new ResizeObserver(draw);
function observe() {
  resized.disconnect();
  if (frame()) resized.observe(frame());
}

const isInView = () => Boolean(frame()?.clientWidth);
onKey("+", () => zoom("in"), isInView);
onKey("-", () => zoom("out"), isInView);
onKey("0", () => zoom("fit"), isInView);
observe();
