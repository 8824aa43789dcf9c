// The timeline of a run: fetched when somebody looks at it and while the run goes on. Its cursor tells
// the page which instant is looked at, and what each step did then.

import { morph } from "./morph.js";
import { preciseClock } from "./status_display.js";

const AGAIN_MS = 3000;
const root = document.getElementById("timeline");
const byId = (id) => document.getElementById(id);
const chart = () => byId("timeline-chart");
let isLoading = false;
let frame = 0;
let instant = -1; // none was chosen

function isShown() {
  return document.getElementById("run").dataset.tab === "timeline" && !document.hidden;
}

export async function load() {
  if (isLoading) return;
  isLoading = true;
  try {
    const response = await fetch(root.dataset.address, { headers: { "HX-Request": "true" } });
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    show(await response.text());
  } catch (error) {
    const note = root.querySelector("[data-timeline-note]"); // a chart that is there stays
    if (note) note.textContent = `The timeline could not be read: ${error.message}`;
  }
  isLoading = false;
}

function show(html) {
  const fresh = new DOMParser().parseFromString(html, "text/html").getElementById("timeline-chart");
  if (chart()) {
    if (chart().classList.contains("only-critical")) fresh.classList.add("only-critical");
    morph(chart(), fresh);
  } else {
    root.replaceChildren(document.adoptNode(fresh));
  }
  const cursor = byId("timeline-cursor");
  cursor.max = chart().dataset.durationMs;
  cursor.step = Math.max(1, Math.floor(cursor.max / 500));
  drawCursor();
}

/** Places the line, and says of each step what it did at the instant. */
function drawCursor() {
  frame = 0;
  if (instant < 0 || !chart()) return;
  const length = Number(chart().dataset.durationMs) || 1;
  const percent = (100 * instant) / length;
  for (const row of chart().querySelectorAll("tbody tr")) {
    let now = "";
    for (const bar of row.querySelectorAll(".segment")) {
      const start = bar.x.baseVal.valueInSpecifiedUnits;
      const isAt = start <= percent && percent < start + bar.width.baseVal.valueInSpecifiedUnits;
      bar.classList.toggle("is-at", isAt);
      if (isAt) now = legendOf(bar.dataset.kind);
    }
    row.querySelector("[data-now]").textContent = now;
  }
  const text = preciseClock(instant);
  byId("timeline-instant").textContent = `At ${text}`;
  byId("timeline-cursor").setAttribute("aria-valuetext", `${text} since the start`);
  placeLine(percent);
}

function legendOf(kind) {
  return chart().querySelector(`.timeline-legend [data-kind=${kind}]`).closest("li").textContent.trim();
}

function placeLine(percent) {
  const [line, scroll] = [byId("timeline-line"), chart().querySelector(".timeline-scroll")];
  const ticks = chart().querySelector(".timeline-ticks").getBoundingClientRect();
  const left = ticks.left - scroll.getBoundingClientRect().left + scroll.scrollLeft;
  line.hidden = false;
  line.style.left = `${left + (ticks.width * percent) / 100}px`;
  line.style.height = `${chart().querySelector("table").offsetHeight}px`;
}

root.addEventListener("input", (event) => {
  if (event.target.id !== "timeline-cursor") return;
  instant = Number(event.target.value);
  frame ||= requestAnimationFrame(drawCursor);
  document.dispatchEvent(new CustomEvent("timeline:instant", { detail: instant }));
});

root.addEventListener("click", (event) => {
  const button = event.target.closest("#timeline-critical");
  if (!button) return;
  const pressed = button.getAttribute("aria-pressed") !== "true";
  button.setAttribute("aria-pressed", pressed);
  chart().classList.toggle("only-critical", pressed);
  drawCursor();
});

new ResizeObserver(() => { frame ||= requestAnimationFrame(drawCursor); }).observe(root);
setInterval(() => { if (isShown() && chart()?.dataset.over !== "true") load(); }, AGAIN_MS);
