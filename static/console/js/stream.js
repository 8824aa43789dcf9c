// A stream (reference: control-plane 12) by EventSource: resumes after the last id, says how it stands.
//
// States: connecting, live, reconnecting (seconds to the next try), offline, ended, refused.

const LONGEST_WAIT_S = 30;

export class Stream {
  #source = null;
  #timer = 0;
  #failures = 0;
  #paused = false;

  /** `on` = { record(data, id), gap({from, to}), end(data), state(name, seconds) }; all but record optional. */
  constructor(path, { since, on }) {
    this.path = path;
    this.lastId = since;
    this.on = on;
    this.ended = false;
    addEventListener("online", () => this.#retryNow());
    document.addEventListener("visibilitychange", () => this.#followVisibility());
    this.#open();
  }

  close() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
  }

  #open() {
    this.#state("connecting");
    const since = this.lastId === undefined ? "" : `?since=${this.lastId}`;
    const source = new EventSource(this.path + since);
    this.#source = source;
    source.onopen = () => { this.#failures = 0; this.#state("live"); };
    source.onmessage = (message) => this.#record(message);
    source.onerror = () => this.#broken(source);
    source.addEventListener("gap", (message) => this.#gap(JSON.parse(message.data)));
    source.addEventListener("end", (message) => this.#end(JSON.parse(message.data)));
  }

  #record(message) {
    const id = Number(message.lastEventId);
    if (this.lastId !== undefined) {
      if (id <= this.lastId) return;
      this.lastId = id;
    }
    this.on.record(JSON.parse(message.data), id);
  }

  #gap(range) {
    if (this.lastId !== undefined) this.lastId = Math.max(this.lastId, range.to);
    this.on.gap?.(range);
  }

  #end(data) {
    this.ended = true;
    this.close(); // or the browser would connect again
    this.#state("ended");
    this.on.end?.(data);
  }

  // The browser retries a broken connection by itself; a refused one is closed and ours to retry.
  #broken(source) {
    if (this.ended || source !== this.#source) return;
    if (source.readyState === EventSource.CLOSED) this.#retryLater();
    else this.#state(navigator.onLine ? "reconnecting" : "offline");
  }

  #retryLater() {
    this.close();
    this.#failures += 1;
    let left = Math.min(2 ** (this.#failures - 1), LONGEST_WAIT_S);
    const count = () => {
      if (left <= 0) return this.#open();
      this.#state(navigator.onLine ? "reconnecting" : "offline", left);
      left -= 1;
      this.#timer = setTimeout(count, 1000);
    };
    this.on.refused?.();
    count();
  }

  #retryNow() {
    if (this.ended || this.#source || this.#paused) return;
    clearTimeout(this.#timer);
    this.#open();
  }

  // Browsers open six connections to a host: tabs nobody looks at give theirs back.
  #followVisibility() {
    if (this.ended) return;
    this.#paused = document.hidden;
    if (document.hidden) this.close();
    else this.#retryNow();
  }

  #state(name, seconds) {
    this.on.state?.(name, seconds);
  }
}

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
