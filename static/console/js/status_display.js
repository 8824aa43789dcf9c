// The display of statuses. The constants come from apps/console/domain/display.py.

const SPRITE = document.body.dataset.sprite;
const SVG = "http://www.w3.org/2000/svg";
const STATUSES = JSON.parse(document.getElementById("statuses").textContent);
export const GROUP_ORDER = STATUSES.groupOrder; // of statuses in a group, the one to see first
export const RUN_OVER = new Set(STATUSES.runOver);

/** A run boots until its first step is healthy; then it runs, though the API says Booting. */
export function runDisplay(status, failing, begun = false) {
  const label = status === "Booting" && begun ? "Running" : status;
  if (failing && !RUN_OVER.has(status)) return { key: "failing", label: `${label}, failing` };
  return { key: label.toLowerCase(), label };
}

export function stepDisplay(status) {
  return { key: status, label: status.charAt(0).toUpperCase() + status.slice(1) };
}

/** Returns whether the steps of the backend run in containers, according to its label. */
export function isIsolated(backend) {
  return !backend.includes(STATUSES.notIsolated);
}

/** Fills a `.status` element. */
export function showStatus(element, display) {
  if (!element) return;
  const text = element.querySelector(".status-text");
  if (element.dataset.status === display.key && text.textContent === display.label) return;
  element.dataset.status = display.key;
  element.querySelector("use").setAttribute("href", `${SPRITE}#${display.key}`);
  text.textContent = display.label;
}

export function setIcon(element, name) {
  element?.querySelector("use")?.setAttribute("href", `${SPRITE}#${name}`);
}

/** Redraws a `.ticks` strip from an item of the engine overview; as `ticks` in domain/display.py does. */
export function showTicks(strip, item) {
  const counts = STATUSES.stepOrder.map((status) => [status, item[`${status}Steps`] || 0]);
  const present = counts.filter(([, count]) => count);
  const words = present.map(([status, count]) => `${count} ${status}`).join(", ");
  if (strip.getAttribute("aria-label") === words && strip.childElementCount) return;
  strip.setAttribute("aria-label", words);
  strip.replaceChildren(...marks(present).map(([status, x, width]) => rect(status, x, width)));
}

function marks(counts) {
  const total = counts.reduce((sum, [, count]) => sum + count, 0);
  const found = [];
  let x = 0;
  for (const [status, count] of counts) {
    if (total > STATUSES.maxTicks) {
      const width = (STATUSES.ticksWidth * count) / total;
      found.push([status, x, Math.max(width - 1, 0.5)]);
      x += width;
      continue;
    }
    const pitch = Math.min(STATUSES.ticksWidth / total, 8);
    for (let index = 0; index < count; index += 1, x += pitch) found.push([status, x, pitch - 2]);
  }
  return found;
}

function rect(status, x, width) {
  const mark = document.createElementNS(SVG, "rect");
  mark.dataset.status = status;
  const shape = { x: x.toFixed(2), y: 0, width: width.toFixed(2), height: 10, rx: 1 };
  for (const [name, value] of Object.entries(shape)) mark.setAttribute(name, value);
  return mark;
}

/** `MM:SS`, minutes may exceed 59, as the API prints durations. */
export function clock(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  return `${String(Math.floor(seconds / 60)).padStart(2, "0")}:${String(seconds % 60).padStart(2, "0")}`;
}

/** Returns milliseconds as 01:05.250. */
export function preciseClock(milliseconds) {
  return `${clock(milliseconds)}.${String(Math.floor(milliseconds % 1000)).padStart(3, "0")}`;
}

export function ago(time) {
  const minutes = Math.floor((Date.now() - Date.parse(time)) / 60000);
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min ago`;
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h ago`;
  return `${Math.floor(minutes / 1440)} d ago`;
}
