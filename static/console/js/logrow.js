// One row of the log's window: what a line looks like.

import { plain, render } from "./ansi.js";
import { clockTime } from "./frame.js";

export class Row {
  #shown = null;
  #look = "";
  drawings = 0; // how often it was drawn

  constructor(parent) {
    this.element = div("log-row");
    this.number = document.createElement("a");
    this.number.className = "log-no";
    this.number.tabIndex = -1;
    this.time = div("log-time");
    this.source = div("log-source");
    this.text = div("log-text");
    this.element.append(this.number, this.time, this.source, this.text);
    parent.append(this.element);
  }

  get height() {
    return this.element.getBoundingClientRect().height;
  }

  show(line, index, { marked, before, clockTimes = false }) {
    const isMarked = line !== undefined && line.id === marked;
    const begins = beginsAttempt(line, before);
    const look = `${isMarked} ${begins} ${clockTimes}`;
    if (line !== undefined && line === this.#shown && look === this.#look) return;
    this.#shown = line ?? null;
    this.#look = look;
    this.drawings += 1;
    this.element.classList.toggle("is-marked", isMarked);
    this.element.classList.toggle("begins-attempt", begins);
    if (line === undefined || line.gap) this.#blank(line, index);
    else this.#print(line, clockTimes);
    if (begins) this.text.dataset.attempt = line.attempt;
  }

  #blank(line, index) {
    this.element.dataset.kind = line ? "gap" : "loading";
    this.element.dataset.level = "info";
    this.#gutter(line?.id ?? index + 1);
    this.time.textContent = this.source.textContent = "";
    this.text.textContent = line ? "this line is no longer stored" : "…";
  }

  #print(line, clockTimes) {
    this.element.dataset.kind = line.kind || "event";
    this.element.dataset.level = line.level;
    this.#gutter(line.id);
    this.time.textContent = clockTimes ? clockTime(line.time) : line.timestamp;
    this.source.textContent = line.source;
    this.source.title = line.attempt > 1 ? `${line.source}, attempt ${line.attempt}` : line.source;
    if (line.kind === "metric") this.text.textContent = plain(line.text);
    else render(this.text, line.text);
  }

  #gutter(id) {
    this.number.dataset.line = id; // drawn by CSS, so that copied text has no line numbers
    this.number.href = `#L${id}`;
    this.number.setAttribute("aria-label", `line ${id}`);
  }

  remove() {
    this.element.remove();
  }
}

function beginsAttempt(line, before) {
  return line?.attempt > 1 && before?.source === line.source && before.attempt !== line.attempt;
}

export function div(name) {
  const element = document.createElement("div");
  element.className = name;
  return element;
}
