// A window on the lines: only the rows in sight are in the page, whatever the length of the log.
// Rows have one height unless they are wrapped; then those in sight are measured. A browser's
// elements end at some 16 million pixels: beyond `TALLEST` the space is shorter than the rows, and
// rows are placed by proportion.

import { RowHeights } from "./logheights.js";
import { showHit } from "./logline.js";
import { div, Row } from "./logrow.js";

const TALLEST = 8_000_000;
const SPARE = 12; // rows above and below the window
const PASSES = 4; // measured rows move others into sight, which are measured in turn

export class LogView {
  #rows = [];
  #frame = 0;
  #from = 0; // the row of the log that #rows begins with
  #pin = null; // { row, offset }: the row's top shall be that far below the window's
  #lastTop = 0;
  #lastHeight = 0;
  #lastWidth = 0;
  #atPause = 0;
  #marked = 0;
  #centers = false; // the marked row, until somebody scrolls
  #words = "";
  #told = 0;
  #colored = ""; // the drawing of a row whose hit has its color
  #clockTimes = false;
  #wraps = false;

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
    this.heights = new RowHeights(this.#measure());
    element.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    new ResizeObserver(() => this.#resized()).observe(element);
  }

  /** Shows other lines, at their end. */
  show(lines) {
    this.lines = lines;
    this.heights.clear();
    this.#pin = null;
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
    this.#measureAnew();
  }

  /** Breaks long lines at the edge of the window; the row on top stays there. */
  setWrap(wraps) {
    this.#wraps = wraps;
    this.element.classList.toggle("wraps", wraps);
    this.#measureAnew();
  }

  /** Brings the line with that id into the middle and marks it; false when it is not there. */
  goTo(id, words = "") {
    const row = this.lines.indexOf(id);
    if (row < 0) return false;
    this.#mark(id, words);
    this.following = false;
    this.#atPause = this.lines.length;
    this.on.follow(false, 0);
    this.#centers = true;
    this.#pin = { row, offset: this.element.clientHeight / 2 };
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
    this.#centers = false;
    showHit(this.element, "", this.element);
    if (!id) this.on.mark(null);
  }

  /** Draws once in the next frame, however often it is called. */
  draw() {
    this.#frame ||= requestAnimationFrame(() => { this.#frame = 0; this.#draw(); });
  }

  #draw() {
    for (let pass = 0; pass < PASSES; pass += 1) {
      this.#resize();
      this.#scroll();
      const top = this.#distance();
      const first = this.heights.rowAt(top);
      this.#fill(first, top);
      if (!this.#measureRows()) break;
      if (!this.#pin && !this.following) this.#pin = { row: first, offset: this.heights.topOf(first) - top };
    }
    this.#pin = null;
    if (!this.following) this.on.follow(false, this.lines.length - this.#atPause);
    if (this.#marked) this.#tellMarked();
  }

  /** Scrolls to the end that is followed, or to where the pinned row shall be. */
  #scroll() {
    if (this.#pin) this.element.scrollTop = (this.heights.topOf(this.#pin.row) - this.#pin.offset) / this.#scale();
    else if (this.following && !this.#isSelecting()) this.element.scrollTop = this.element.scrollHeight;
    this.#lastTop = this.element.scrollTop;
  }

  #fill(first, top) {
    const end = this.heights.rowAt(top + this.element.clientHeight) + 1;
    const to = Math.min(this.lines.length, end + SPARE);
    const from = Math.min(Math.max(0, first - SPARE), to);
    this.lines.want(from, to);
    while (this.#rows.length < to - from) this.#rows.push(new Row(this.window));
    while (this.#rows.length > to - from) this.#rows.pop().remove();
    this.#from = from;
    let before = from ? this.lines.row(from - 1) : undefined;
    this.#rows.forEach((row, at) => {
      const line = this.lines.row(from + at);
      row.show(line, from + at, { marked: this.#marked, before, clockTimes: this.#clockTimes });
      before = line;
    });
    const offset = this.element.scrollTop - top + this.heights.topOf(from);
    this.window.style.transform = `translateY(${offset}px)`;
  }

  /** Returns whether a row has another height than was thought. */
  #measureRows() {
    if (!this.#wraps || !this.element.clientWidth) return false; // a hidden row has no height
    const heights = this.#rows.map((row) => row.height);
    return heights.map((height, at) => this.heights.set(this.#from + at, height)).includes(true);
  }

  #measureAnew() {
    if (!this.following) this.#pin = { row: this.heights.rowAt(this.#distance()), offset: 0 };
    this.heights.clear();
    this.draw();
  }

  /** Tells of the marked line once it is there, and colors its hit whenever its row was drawn anew. */
  #tellMarked() {
    const index = this.lines.indexOf(this.#marked);
    const [row, line] = [this.#rows[index - this.#from], this.lines.row(index)];
    if (!row || !line || line.gap) return; // it is on its way
    const isNew = this.#told !== this.#marked;
    const drawing = `${index - this.#from} ${row.drawings}`;
    if (!isNew && drawing === this.#colored) return;
    this.#colored = drawing;
    showHit(row.text, this.#words, this.element, { scrolls: isNew });
    if (!isNew) return;
    this.#told = this.#marked;
    this.on.mark(line);
  }

  #resize() {
    const height = `${Math.min(this.heights.topOf(this.lines.length), TALLEST)}px`;
    if (this.space.style.height !== height) this.space.style.height = height;
  }

  /** How far below the first row's top the window begins. */
  #distance() {
    return this.element.scrollTop * this.#scale();
  }

  /** Pixels of rows for a pixel of scrolling; 1 unless the rows are taller than `TALLEST`. */
  #scale() {
    const whole = this.heights.topOf(this.lines.length);
    const shown = this.element.clientHeight;
    return whole <= TALLEST ? 1 : (whole - shown) / (TALLEST - shown);
  }

  #resized() {
    const { clientWidth } = this.element;
    const isOther = clientWidth && clientWidth !== this.#lastWidth;
    if (clientWidth) this.#lastWidth = clientWidth;
    if (this.#wraps && isOther) this.#measureAnew();
    if (this.#centers) this.#pin = { row: this.lines.indexOf(this.#marked), offset: this.element.clientHeight / 2 };
    this.draw();
  }

  // Up pauses, the bottom follows again; what we scroll ourselves leaves #lastTop as it was.
  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.element;
    const atEnd = scrollHeight - scrollTop - clientHeight < this.heights.common;
    const resized = clientHeight !== this.#lastHeight; // then the browser moved it, nobody scrolled
    if (!resized && Math.abs(scrollTop - this.#lastTop) > 1) this.#centers = false;
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
