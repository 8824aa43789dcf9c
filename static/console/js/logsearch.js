// Search in the log of all steps, on the server. With a step shown its hits come first, then those of
// the other steps, one after the other; with all steps shown, hits come in the order of the log.

import { call } from "./wire.js";

const PAGE = 200;

export class LogSearch {
  #hits = new Map(); // source, "" for all → { matches: [{ id, source, found }], cursor }
  #order = []; // the sources to walk
  #at = { source: 0, hit: -1 };
  #asked = 0;

  /** `on` = { hit({ id, source, found }), state(this) }; call `stepIds()` for the order of steps. */
  constructor(path, on) {
    this.path = path;
    this.on = on;
    this.#clear("");
  }

  #clear(words) {
    this.words = words;
    this.counts = new Map(); // source → hits
    this.total = 0;
    this.place = 0; // of the hit that is shown, from 1
    this.problem = "";
    this.isSearching = false;
    this.#hits.clear();
    this.#order = [];
    this.#at = { source: 0, hit: -1 };
  }

  /** Looks for `words` and shows the first hit; empty words clear. `shown` is the step in view, "" for all,
   *  `sources` the order in which steps are walked. */
  async find(words, { regex, shown, sources }) {
    const asked = (this.#asked += 1);
    this.#clear(words);
    this.regex = regex;
    this.shown = shown;
    this.sources = sources;
    this.isSearching = Boolean(words);
    this.on.state(this);
    if (!words) return;
    try {
      await this.#count(asked);
    } catch (error) {
      this.problem = error.message;
    }
    if (asked !== this.#asked) return; // another search was begun meanwhile
    this.isSearching = false;
    this.#order = shown ? this.#sorted([shown, ...sources]) : [""];
    if (this.total) await this.move(1);
    else this.on.state(this);
  }

  /** Goes to the next hit, or with -1 to the one before; from the last one to the first. */
  async move(by) {
    if (!this.total || this.isSearching) return;
    this.isSearching = true; // a key that repeats does not fetch the same hits twice
    const asked = this.#asked;
    try {
      const found = await this.#next(by);
      if (found && asked === this.#asked) this.#show(...found);
    } catch (error) {
      this.problem = error.message;
      this.on.state(this);
    }
    if (asked === this.#asked) this.isSearching = false;
  }

  /** Walks the hits of one step first, then those of the others. */
  goToSource(name) {
    this.#order = this.#sorted([name, ...this.#order, ...this.sources]);
    this.#at = { source: 0, hit: -1 };
    return this.move(1);
  }

  /** Whether hits are walked step by step, not in the order of the log. */
  get goesByStep() {
    return this.#order[0] !== "";
  }

  async #next(by) {
    const { source, hit } = this.#at;
    const next = hit + by;
    if (next >= 0 && (await this.#has(this.#order[source], next))) return [source, next];
    const other = (source + by + this.#order.length) % this.#order.length;
    await this.#has(this.#order[other], 0);
    const last = by < 0 ? this.#loaded(this.#order[other]).matches.length - 1 : 0;
    return [other, last];
  }

  #show(source, hit) {
    this.#at = { source, hit };
    const before = this.#order.slice(0, source).reduce((sum, name) => sum + this.counts.get(name), 0);
    this.place = before + hit + 1;
    this.on.state(this);
    this.on.hit(this.#loaded(this.#order[source]).matches[hit]);
  }

  /** Searches all sources until every line was counted or a page of hits is there. */
  async #count(asked) {
    const all = this.#loaded("");
    do {
      const answer = await this.#ask("", all.cursor);
      if (asked !== this.#asked) return;
      for (const [name, count] of Object.entries(answer.sources)) {
        this.counts.set(name, (this.counts.get(name) ?? 0) + count);
      }
      this.total = answer.total;
      this.#take(all, answer);
    } while (all.cursor && all.matches.length < PAGE);
    if (all.cursor) return;
    for (const hit of all.matches) this.#loaded(hit.source).matches.push(hit); // none is missing
  }

  /** Whether that hit of a source is there, after fetching what lacks. */
  async #has(name, index) {
    const hits = this.#loaded(name);
    const isWhole = name !== "" && hits.matches.length >= (this.counts.get(name) ?? 0);
    while (hits.matches.length <= index && !isWhole && (hits.cursor || !hits.matches.length)) {
      const answer = await this.#ask(name, hits.cursor);
      this.#take(hits, answer);
      if (!answer.nextCursor) break;
    }
    return index < hits.matches.length;
  }

  #take(hits, { matches, nextCursor }) {
    hits.matches.push(...matches.map(({ id, line, found }) => ({ id, found, source: line.source })));
    hits.cursor = nextCursor ?? "";
  }

  #loaded(name) {
    if (!this.#hits.has(name)) this.#hits.set(name, { matches: [], cursor: "" });
    return this.#hits.get(name);
  }

  #ask(source, cursor) {
    const query = new URLSearchParams({ q: this.words, limit: PAGE });
    if (this.regex) query.set("regex", "true");
    if (source) query.set("source", source);
    if (cursor) query.set("cursor", cursor);
    return call("GET", `${this.path}?${query}`);
  }

  /** The sources with hits, in that order; those that it does not name come last. */
  #sorted(names) {
    return [...new Set([...names, ...this.counts.keys()])].filter((name) => this.counts.get(name));
  }

  /** `[source, hits]` of the sources with hits, in the order of the steps. */
  get found() {
    return this.#sorted(this.sources).map((name) => [name, this.counts.get(name)]);
  }
}
