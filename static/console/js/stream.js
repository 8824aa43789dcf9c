// A stream (reference: control-plane 12): resumes after the last id, says how it stands.
//
// All tabs of a browser share one connection, since browsers open six to a host over HTTP/1.1.
// States: connecting, live, reconnecting (seconds to the next try), offline, ended.

import { findHub } from "./stream_hub.js";
import { randomKey } from "./wire.js";

const tab = randomKey();
const open = new Map(); // key → Stream
let hub = null;

function toHub(message) {
  hub ??= findHub({
    tab,
    receive: (told) => open.get(told.key)?.take(told),
    reopen: () => { for (const stream of open.values()) stream.open(); },
  });
  hub.send(message);
}

export class Stream {
  /** `on` = { record(data), gap({from, to}), end(data), state(name, seconds) }; all but record optional. */
  constructor(path, { since, on }) {
    this.path = path;
    this.lastId = since;
    this.on = on;
    this.key = `${tab} ${randomKey()}`;
    open.set(this.key, this);
    this.open();
  }

  open() {
    toHub({ type: "open", key: this.key, path: this.path, since: this.lastId });
  }

  close() {
    open.delete(this.key);
    toHub({ type: "close", key: this.key });
  }

  /** Takes what the shared connection tells of this stream. */
  take({ type, data, id, name, seconds }) {
    if (type === "state") this.#state(name, seconds);
    if (type === "record") this.#record(data, id);
    if (type === "gap") this.#gap(data);
    if (type === "end") this.#end(data);
    if (type === "rejected") this.on.refused?.();
    if (type === "refused") {
      this.on.refused?.();
      this.#end();
    }
  }

  #record(data, id) {
    if (this.lastId !== undefined) {
      if (id <= this.lastId) return;
      this.lastId = id;
    }
    this.on.record(JSON.parse(data), id);
  }

  #gap(range) {
    if (this.lastId !== undefined) this.lastId = Math.max(this.lastId, range.to);
    this.on.gap?.(range);
  }

  #end(data) {
    open.delete(this.key);
    this.#state("ended");
    if (data) this.on.end?.(data);
  }

  #state(name, seconds) {
    this.on.state?.(name, seconds);
  }
}

addEventListener("online", () => { if (open.size) toHub({ type: "online" }); });
addEventListener("pagehide", () => {
  for (const key of open.keys()) toHub({ type: "close", key });
});
addEventListener("pageshow", (event) => {
  if (event.persisted) for (const stream of open.values()) stream.open(); // from the back-forward cache
});

const WORDS = { connecting: "connecting", live: "live", reconnecting: "reconnecting", offline: "offline", ended: "ended" };

/** Fills a `.link-state` element. */
export function showLink(element, name, seconds) {
  element.dataset.link = name;
  const wait = seconds ? ` in ${seconds} s` : "";
  element.querySelector("[data-link-text]").textContent = WORDS[name] + wait;
}

/** Reads records from `since` on until one has the id `last`, by the same stream; then hangs up. */
export async function readRange(path, { since, last, signal, record, gap }) {
  const hangUp = new AbortController();
  signal?.addEventListener("abort", () => hangUp.abort(), { once: true });
  const response = await fetch(`${path}?since=${since}`, {
    credentials: "same-origin", signal: hangUp.signal, headers: { Accept: "text/event-stream" },
  });
  if (!response.ok) throw new Error(`the log answered ${response.status}`);
  try {
    for await (const frame of frames(response.body)) {
      if (frame.event === "end") return;
      const data = JSON.parse(frame.data);
      if (frame.event === "gap") gap?.(data);
      else if (data.id <= last) record(data);
      if ((frame.event === "gap" ? data.to : data.id) >= last) return;
    }
  } finally {
    hangUp.abort();
  }
}

async function* frames(body) {
  for await (const block of split(body, "\n\n")) {
    const fields = { event: "", data: "" };
    for (const line of block.split("\n")) {
      const colon = line.indexOf(":");
      const name = line.slice(0, colon);
      if (name in fields) fields[name] += line.slice(colon + 1).replace(/^ /, "");
    }
    if (fields.data) yield fields;
  }
}

/** The texts between separators of a response body; what is left at the end comes last. */
export async function* split(body, separator) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const parts = (rest + value).split(separator);
    rest = parts.pop();
    yield* parts;
  }
  if (rest) yield rest;
}
