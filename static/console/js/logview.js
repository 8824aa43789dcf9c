// A window on the lines: only the rows in sight are in the page, whatever the length of the log.
// Rows have one height, so row n is at n × height. A browser's elements end at some 16 million
// pixels: beyond `TALLEST` the space is shorter than the rows, and rows are placed by proportion.

import { plain, render } from "./ansi.js";
import { clockTime, showHit } from "./logline.js";

const TALLEST = 8_000_000;
const SPARE = 12; // rows above and below the window

export class LogView {
  #rows = [];
  #frame = 0;
  #first = 0;
  #lastTop = 0;
  #lastHeight = 0;
  #atPause = 0;
  #marked = 0;
  #words = "";
  #told = 0;
  #clockTimes = false;

  /**
   * `on.follow(boolean, newLines)` whenever following or the number of unseen lines changes,
   * `on.mark(line)` once the marked line is there, with null when none is marked any more.
   */
  constructor(element, { lines, on }) {
    this.element = element;
    this.lines = lines;
    this.on = on;
    this.following = true;
    this.space = div("log-space");
    this.window = div("log-rows");
    this.space.append(this.window);
    element.append(this.space);
    this.rowHeight = this.#measure();
    element.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(element);
  }

  /** Shows other lines, at their end. */
  show(lines) {
    this.lines = lines;
    this.#mark(0, "");
    this.setFollowing(true);
  }

  setFollowing(following) {
    this.following = following;
    this.#atPause = this.lines.length;
    this.on.follow(following, 0);
    this.draw();
  }

  /** Shows when each line was written, by the reader's clock; else since the run began. */
  setClockTimes(shown) {
    this.#clockTimes = shown;
    this.element.classList.toggle("clock-times", shown);
    this.draw();
  }

  /** Brings the line with that id into the middle and marks it; false when it is not there. */
  goTo(id, words = "") {
    const index = this.lines.indexOf(id);
    if (index < 0) return false;
    this.#mark(id, words);
    this.following = false;
    this.#atPause = this.lines.length;
    this.on.follow(false, 0);
    this.#resize();
    this.element.scrollTop = this.#topOf(index) - this.element.clientHeight / 2;
    this.#lastTop = this.element.scrollTop;
    this.draw();
    return true;
  }

  unmark() {
    this.#mark(0, "");
    this.draw();
  }

  #mark(id, words) {
    this.#marked = id;
    this.#words = words;
    this.#told = 0;
    showHit(this.element, "", this.element);
    if (!id) this.on.mark(null);
  }

  /** Draws once in the next frame, however often it is called. */
  draw() {
    this.#frame ||= requestAnimationFrame(() => { this.#frame = 0; this.#draw(); });
  }

  #draw() {
    this.#resize();
    if (this.following && !this.#isSelecting()) this.element.scrollTop = this.element.scrollHeight;
    this.#lastTop = this.element.scrollTop;
    if (!this.following) this.on.follow(false, this.lines.length - this.#atPause);
    const visible = Math.ceil(this.element.clientHeight / this.rowHeight);
    const top = this.#rowAt(this.element.scrollTop);
    const to = Math.min(this.lines.length, top + visible + SPARE);
    const from = Math.min(Math.max(0, top - SPARE), to);
    this.lines.want(from, to);
    this.#fill(from, to);
    const offset = this.element.scrollTop - (top - from) * this.rowHeight;
    const exact = this.#isWhole() ? from * this.rowHeight : offset;
    this.window.style.transform = `translateY(${exact}px)`;
    if (this.#marked && this.#told !== this.#marked) this.#tellMarked(from);
  }

  #tellMarked(from) {
    const index = this.lines.indexOf(this.#marked);
    const [row, line] = [this.#rows[index - from], this.lines.row(index)];
    if (!row || !line || line.gap) return; // it is on its way
    this.#told = this.#marked;
    showHit(row.text, this.#words, this.element);
    this.on.mark(line);
  }

  #fill(from, to) {
    while (this.#rows.length < to - from) this.#rows.push(new Row(this.window));
    while (this.#rows.length > to - from) this.#rows.pop().remove();
    this.#first = from;
    let before = from ? this.lines.row(from - 1) : undefined;
    this.#rows.forEach((row, at) => {
      const line = this.lines.row(from + at);
      row.show(line, from + at, { marked: this.#marked, before, clockTimes: this.#clockTimes });
      before = line;
    });
  }

  #resize() {
    const height = Math.min(this.lines.length * this.rowHeight, TALLEST);
    if (this.space.style.height !== `${height}px`) this.space.style.height = `${height}px`;
  }

  #isWhole() {
    return this.lines.length * this.rowHeight <= TALLEST;
  }

  #rowAt(scrollTop) {
    if (this.#isWhole()) return Math.floor(scrollTop / this.rowHeight);
    return Math.floor((scrollTop / this.#range()) * this.#rowRange());
  }

  #topOf(index) {
    return this.#isWhole() ? index * this.rowHeight : (index / this.#rowRange()) * this.#range();
  }

  #range() {
    return Math.max(1, TALLEST - this.element.clientHeight);
  }

  #rowRange() {
    return Math.max(1, this.lines.length - Math.floor(this.element.clientHeight / this.rowHeight));
  }

  // Up pauses, the bottom follows again; what we scroll ourselves leaves #lastTop as it was.
  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.element;
    const atEnd = scrollHeight - scrollTop - clientHeight < this.rowHeight;
    const resized = clientHeight !== this.#lastHeight; // then the browser moved it, nobody scrolled
    if (resized) this.#lastHeight = clientHeight;
    else if (scrollTop < this.#lastTop - 1 && this.following && !atEnd) this.setFollowing(false);
    else if (atEnd && scrollTop > this.#lastTop && !this.following) this.setFollowing(true);
    this.#lastTop = scrollTop;
    this.draw();
  }

  #isSelecting() {
    const selection = getSelection();
    return selection && !selection.isCollapsed && this.element.contains(selection.anchorNode);
  }

  #measure() {
    const row = new Row(this.window);
    row.show({ id: 1, source: "x", timestamp: "00:00", text: "x", kind: "output", level: "info" }, 0, {});
    const height = row.height || 20;
    row.remove();
    return height;
  }
}

class Row {
  #shown = null;
  #look = "";

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
    this.text.textContent = line ? "this line is no longer kept" : "…";
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

function div(name) {
  const element = document.createElement("div");
  element.className = name;
  return element;
}
