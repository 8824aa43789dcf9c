// The log of a run as the page shows it: of all steps or of one, searched, marked and followed.

import { showLine } from "./logline.js";
import { AllLines, LinesOfSource } from "./loglines.js";
import { LogView } from "./logview.js";
import { showLog } from "./run_tabs.js";
import { stepIds, stepOf } from "./run_steps.js";
import { call } from "./wire.js";

const byId = (id) => document.getElementById(id);

export class RunLog {
  #search = null; // its module is fetched with the first search
  #wanted = null; // { id, words }: a line that is on its way
  #shownFollowing;
  #scrubbed = -1; // the instant that is on its way

  /** `address` is the run's in the API; `on.choose(source)` chooses a step, "" all; `on.isOver()`. */
  constructor(address, lastLog, on) {
    this.address = address;
    this.on = on;
    this.all = new AllLines(`${address}/logs`, lastLog, () => this.changed());
    this.view = new LogView(byId("log"), {
      lines: this.all,
      on: {
        follow: (following, unseen) => this.#showFollowing(following, unseen),
        mark: (line) => showLine(byId("log-line"), line),
      },
    });
    this.#listen();
    this.#keepToggle("log-clock", "partita.log-clock-times", (shown) => this.view.setClockTimes(shown));
    this.#keepToggle("log-wrap", "partita.log-wrap", (wraps) => this.view.setWrap(wraps));
    this.view.setFollowing(true);
  }

  /** Adds a line of the stream. */
  add(record) {
    this.all.add(record);
    if (this.view.lines !== this.all) this.view.lines.add(record);
    this.changed();
  }

  addGap(range) {
    this.all.addGap(range);
    this.changed();
  }

  changed() {
    const { lines } = this.view;
    byId("log-empty").hidden = lines.length > 0;
    byId("log-empty").textContent = this.#emptyText(lines);
    this.view.draw();
    if (this.#wanted) this.#goToWanted();
  }

  #emptyText(lines) {
    if (lines.loading) return "Loading…";
    if (lines.failed) return "The lines of this step could not be read; choose it again.";
    return this.on.isOver() ? "No lines." : "No lines yet.";
  }

  /** Shows the lines of one source, or with "" all. */
  filter(source) {
    this.view.lines.drop?.();
    this.#wanted = null;
    byId("log-filter").value = source;
    const changed = () => this.changed();
    this.view.show(source ? new LinesOfSource(`${this.address}/logs/download`, source, changed) : this.all);
    byId("log").classList.toggle("one-source", Boolean(source));
    this.changed();
  }

  /** Brings a line into view and marks it, with the log; the log of all steps if need be. */
  goToLine(id, words = "") {
    showLog();
    this.#wanted = { id, words };
    this.#goToWanted();
  }

  /** Brings the first line of all steps at an instant into view: milliseconds since the start. */
  async scrubTo(instant) {
    const isBusy = this.#scrubbed >= 0;
    this.#scrubbed = instant;
    if (isBusy) return; // the newest instant comes next
    if (byId("log-filter").value) this.on.choose("");
    for (let shown = -1; shown !== this.#scrubbed;) {
      shown = this.#scrubbed;
      const place = await call("GET", `${this.address}/logs/at?ms=${shown}`).catch(() => null);
      if (place) this.view.goTo(place.id ?? this.all.length);
    }
    this.#scrubbed = -1;
  }

  #goToWanted() {
    const { id, words } = this.#wanted;
    if (this.view.goTo(id, words)) this.#wanted = null;
    else if (this.view.lines === this.all) this.#wanted = null; // the log has no such line
    else if (!this.view.lines.loading) {
      this.on.choose("");
      this.goToLine(id, words);
    }
  }

  /** Shows a step's hit in the log of that step, unless all steps are shown. */
  #showHit({ id, source, found }) {
    if (this.#search.goesByStep && byId("log-filter").value !== source) this.on.choose(source);
    this.goToLine(id, found);
  }

  async find() {
    const { LogSearch } = await import("./logsearch.js");
    this.#search ??= new LogSearch(`${this.address}/logs/search`, {
      hit: (hit) => this.#showHit(hit),
      state: (search) => showSearch(search),
    });
    this.#search.find(byId("log-search").elements.q.value, {
      regex: byId("log-regex").getAttribute("aria-pressed") === "true",
      shown: byId("log-filter").value,
      sources: stepIds(),
    });
  }

  /** Goes to the next hit of the search, or with -1 to the one before. */
  moveHit(by) {
    this.#search?.move(by);
  }

  #listen() {
    byId("log-search").addEventListener("submit", (event) => {
      event.preventDefault();
      this.find();
    });
    byId("log-search").addEventListener("search", (event) => {
      if (!event.target.value) this.find();
    });
    byId("log-search").addEventListener("click", (event) => {
      const button = event.target.closest("[data-hit]");
      if (button) this.moveHit(Number(button.dataset.hit));
    });
    byId("log-regex").addEventListener("click", () => {
      toggle(byId("log-regex"));
      this.find();
    });
    byId("log-found").addEventListener("click", (event) => {
      const source = event.target.closest("[data-source]")?.dataset.source;
      if (source) this.#search.goToSource(source);
    });
    byId("log-filter").addEventListener("change", (event) => this.on.choose(event.target.value));
    byId("log-line").querySelector("button").addEventListener("click", () => this.view.unmark());
    byId("log-follow").addEventListener("click", () => this.view.setFollowing(!this.view.following));
    byId("log-new").addEventListener("click", () => this.view.setFollowing(true));
    byId("log").addEventListener("click", (event) => {
      const number = event.target.closest(".log-no");
      if (number) this.view.goTo(Number(number.dataset.line));
    });
  }

  /** A toggle whose state the browser remembers. */
  #keepToggle(id, key, show) {
    const button = byId(id);
    button.addEventListener("click", () => {
      const pressed = toggle(button);
      localStorage.setItem(key, pressed);
      show(pressed);
    });
    if (localStorage.getItem(key) === "true") show(toggle(button));
  }

  #showFollowing(following, unseen) {
    if (following !== this.#shownFollowing) byId("log-follow").setAttribute("aria-pressed", following);
    this.#shownFollowing = following;
    const pill = byId("log-new");
    pill.hidden = following || unseen <= 0;
    if (!pill.hidden) {
      pill.querySelector("span").textContent = `${unseen.toLocaleString("en")} new line${unseen === 1 ? "" : "s"}`;
    }
  }
}

/** Shows above the log which step it is of, and why that step ended as it did. */
export function showStepOfLog(id) {
  const bar = byId("log-step");
  const step = id && stepOf(id);
  bar.hidden = !step;
  if (!step) return bar.replaceChildren();
  const name = Object.assign(document.createElement("strong"), { textContent: step.querySelector(".step-name").textContent });
  const cause = step.querySelector(".step-cause");
  const parts = [step.querySelector(".status"), name, cause].filter(Boolean);
  bar.replaceChildren(...parts.map((part) => (part === name ? name : part.cloneNode(true))));
}

function toggle(button) {
  const pressed = button.getAttribute("aria-pressed") !== "true";
  button.setAttribute("aria-pressed", pressed);
  return pressed;
}

/** Shows how many hits there are, and in which steps. */
function showSearch(search) {
  const { total, place, counts, shown, words } = search;
  byId("log-hits").textContent = hitsText(search);
  for (const button of byId("log-search").querySelectorAll("[data-hit]")) button.hidden = !total;
  const bar = byId("log-found");
  const others = total - (counts.get(shown) ?? 0);
  bar.hidden = !words || !total || (shown ? !others : counts.size < 2);
  if (bar.hidden || place > 1) return;
  const lead = document.createElement("span");
  lead.textContent = shown ? stepsText(counts.get(shown) ?? 0, others, shown) : "";
  bar.replaceChildren(lead, ...search.found.map(([source, count]) => sourceButton(source, count)));
}

function hitsText({ isSearching, problem, total, place, words }) {
  if (problem) return problem;
  if (!words) return "";
  if (isSearching && !place) return "searching";
  return total ? `${place} of ${total.toLocaleString("en")}` : "no hit in any step";
}

function stepsText(here, others, shown) {
  return `${here || "none"} in ${shown}; ${others.toLocaleString("en")} in other steps`;
}

function sourceButton(source, count) {
  const button = document.createElement("button");
  Object.assign(button, { type: "button", className: "quiet", textContent: `${source} ` });
  button.dataset.source = source;
  button.append(Object.assign(document.createElement("span"), { className: "num", textContent: count.toLocaleString("en") }));
  return button;
}
