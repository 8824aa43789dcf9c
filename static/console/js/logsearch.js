// Search in the whole log, on the server; hits are walked with n and N.

import { call } from "./wire.js";

const PAGE = 200;

export class LogSearch {
  #hits = [];
  #at = -1;
  #total = 0;
  #cursor = "";
  #asked = 0;

  /** `on` = { hit(id), state(text, hasHits) }. */
  constructor(path, on) {
    this.path = path;
    this.on = on;
  }

  /** Looks for `words` in the log of `source` (empty: all); empty words clear. */
  async find(words, source) {
    this.words = words;
    this.source = source;
    [this.#hits, this.#at, this.#total, this.#cursor] = [[], -1, 0, ""];
    if (!words) return this.on.state("", false);
    this.on.state("searching", false);
    await this.#more();
    if (this.#hits.length) this.move(1);
    else if (this.#total === 0) this.on.state("no hit", false);
  }

  async move(step) {
    if (!this.#hits.length) return;
    if (this.#at + step >= this.#hits.length && this.#cursor) await this.#more();
    this.#at = (this.#at + step + this.#hits.length) % this.#hits.length;
    this.on.state(`${this.#at + 1} of ${this.#total}`, true);
    this.on.hit(this.#hits[this.#at]);
  }

  async #more() {
    const asked = (this.#asked += 1);
    const query = new URLSearchParams({ q: this.words, limit: PAGE });
    if (this.source) query.set("source", this.source);
    if (this.#cursor) query.set("cursor", this.#cursor);
    try {
      const answer = await call("GET", `${this.path}?${query}`);
      if (asked !== this.#asked) return; // another search was begun meanwhile
      this.#hits.push(...answer.matches.map((match) => match.id));
      this.#total = answer.total;
      this.#cursor = answer.nextCursor ?? "";
    } catch (error) {
      this.#total = -1;
      this.on.state(error.message, false);
    }
  }
}
