// The lines of a run, as the view asks for them: by row. Two forms of one shape:
// { length, row(index) → line | {gap} | undefined, indexOf(id), want(from, to), add(record) }.

import { readRange, split } from "./stream.js";

const PAGE = 500;
const AGAIN_MS = 2000; // after a fetch that the connection cut short
const KEPT_PAGES = 200; // 100,000 lines in memory; the others are fetched again when looked at

/** All lines: ids are dense, so row n is id n + 1 and any part can be fetched by itself. */
export class AllLines {
  #pages = new Map();
  #loading = new Set();
  #gaps = [];

  constructor(path, length, changed) {
    this.path = path;
    this.length = length;
    this.changed = changed;
  }

  row(index) {
    const line = this.#pages.get(Math.floor(index / PAGE))?.[index % PAGE];
    return line ?? (this.#isGap(index + 1) ? { id: index + 1, gap: true } : undefined);
  }

  indexOf(id) {
    return id >= 1 && id <= this.length ? id - 1 : -1;
  }

  add({ id, line }) {
    this.length = Math.max(this.length, id);
    const number = Math.floor((id - 1) / PAGE);
    if (!this.#pages.has(number)) this.#pages.set(number, new Array(PAGE));
    this.#pages.get(number)[(id - 1) % PAGE] = { id, ...line };
  }

  addGap({ from, to }) {
    this.#gaps.push([from, to]);
    this.length = Math.max(this.length, to);
  }

  /** Fetches what rows `from`..`to` (exclusive) still lack and forgets pages far from them. */
  want(from, to) {
    const last = Math.floor(Math.max(to - 1, 0) / PAGE);
    for (let number = Math.floor(from / PAGE); number <= last; number += 1) this.#fetch(number);
    this.#forget(Math.floor(from / PAGE));
  }

  #missing(number) {
    const start = number * PAGE;
    const end = Math.min(start + PAGE, this.length);
    for (let index = start; index < end; index += 1) if (this.row(index) === undefined) return index;
    return -1;
  }

  async #fetch(number) {
    const first = this.#missing(number);
    if (first < 0 || this.#loading.has(number)) return;
    this.#loading.add(number);
    const last = Math.min((number + 1) * PAGE, this.length);
    try {
      await readRange(this.path, {
        since: first,
        last,
        record: (record) => this.add(record),
        gap: (range) => this.addGap(range),
      });
    } catch (error) {
      console.info(`lines ${first + 1} to ${last} are asked for again: ${error.message}`);
    }
    const missing = this.#missing(number);
    const isWhole = missing < 0 || missing >= last;
    setTimeout(() => { this.#loading.delete(number); this.changed(); }, isWhole ? 0 : AGAIN_MS);
  }

  #isGap(id) {
    return this.#gaps.some(([from, to]) => from <= id && id <= to);
  }

  #forget(near) {
    if (this.#pages.size <= KEPT_PAGES) return;
    const numbers = [...this.#pages.keys()].sort((a, b) => Math.abs(b - near) - Math.abs(a - near));
    const newest = Math.floor((this.length - 1) / PAGE); // where live lines arrive
    for (const number of numbers.slice(0, this.#pages.size - KEPT_PAGES)) {
      if (number !== newest) this.#pages.delete(number);
    }
  }
}

/** The lines of one step: what is stored comes as one finite download, live lines are added to it. */
export class LinesOfSource {
  #lines = [];
  #waiting = [];
  #hangUp = new AbortController();

  constructor(downloadPath, source, changed) {
    this.source = source;
    this.changed = changed;
    this.loading = true;
    this.#load(`${downloadPath}?format=ndjson&source=${encodeURIComponent(source)}`);
  }

  get length() {
    return this.#lines.length;
  }

  row(index) {
    return this.#lines[index];
  }

  indexOf(id) {
    let low = 0;
    let high = this.#lines.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#lines[middle].id < id) low = middle + 1;
      else high = middle;
    }
    return this.#lines[low]?.id === id ? low : -1;
  }

  add(record) {
    if (record.line.source !== this.source) return;
    if (this.loading) this.#waiting.push(record);
    else this.#append(record);
  }

  addGap() {}

  want() {}

  drop() {
    this.#hangUp.abort();
  }

  #append({ id, line }) {
    const last = this.#lines.at(-1);
    if (!last || id > last.id) this.#lines.push({ id, ...line });
  }

  async #load(path) {
    try {
      const response = await fetch(path, { credentials: "same-origin", signal: this.#hangUp.signal });
      if (!response.ok) throw new Error(`the log answered ${response.status}`);
      let read = 0;
      for await (const text of split(response.body, "\n")) {
        if (text) this.#append(JSON.parse(text));
        read += 1;
        if (read % 5000 === 0) this.changed();
      }
    } catch (error) {
      this.failed = error.name !== "AbortError";
    }
    this.loading = false;
    this.#waiting.splice(0).forEach((record) => this.#append(record));
    this.changed();
  }
}
