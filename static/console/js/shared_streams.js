// The streams of all tabs of a browser over one connection (reference: control-plane 12, `/streams`).
//
// Runs in a shared worker, or in the tab that holds the lock. It opens the connection anew, each
// stream after its last id, whenever a tab adds a stream or the connection breaks.

const LONGEST_WAIT_S = 30;
const GATHER_MS = 20; // a page opens its streams one after the other

export class SharedStreams {
  #streams = new Map(); // key → { path, since, post }
  #source = null;
  #timer = 0;
  #failures = 0;

  /** `post(message)` tells the tab: { key, type, … }. */
  open(key, { path, since }, post) {
    this.#streams.set(key, { path, since, post });
    post({ key, type: "state", name: "connecting" });
    this.#soon(GATHER_MS);
  }

  close(key) {
    this.#streams.delete(key);
    if (!this.#streams.size) this.#hangUp();
  }

  retryNow() {
    if (!this.#source && this.#streams.size) this.#soon(0);
  }

  #soon(milliseconds) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#connect(), milliseconds);
  }

  #hangUp() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
  }

  #connect() {
    this.#hangUp();
    const keys = [...this.#streams.keys()];
    if (!keys.length) return;
    const query = new URLSearchParams(keys.map((key) => ["stream", this.#address(key)]));
    const source = new EventSource(`/api/v1/streams?${query}`);
    let current;
    const tell = (message) => this.#tell(current, message);
    this.#source = source;
    source.onopen = () => {
      this.#failures = 0;
      for (const key of keys) this.#tell(key, { type: "state", name: "live" });
    };
    source.onmessage = (message) => this.#record(current, message);
    source.addEventListener("stream", (message) => { current = keys[Number(message.data)]; });
    source.addEventListener("gap", (message) => this.#gap(current, JSON.parse(message.data)));
    source.addEventListener("end", (message) => {
      tell({ type: "end", data: JSON.parse(message.data) });
      this.#streams.delete(current);
    });
    source.addEventListener("refused", () => {
      tell({ type: "refused" });
      this.#streams.delete(current);
    });
    source.addEventListener("over", () => this.close(current));
    source.onerror = () => this.#broken(source);
  }

  #address(key) {
    const { path, since } = this.#streams.get(key);
    return since === undefined ? path : `${path}?since=${since}`;
  }

  #tell(key, message) {
    this.#streams.get(key)?.post({ key, ...message });
  }

  #record(key, message) {
    const stream = this.#streams.get(key);
    if (!stream) return; // its tab has gone
    const id = Number(message.lastEventId);
    if (stream.since !== undefined) {
      if (id <= stream.since) return;
      stream.since = id;
    }
    stream.post({ key, type: "record", data: message.data, id });
  }

  #gap(key, range) {
    const stream = this.#streams.get(key);
    if (!stream) return;
    if (stream.since !== undefined) stream.since = Math.max(stream.since, range.to);
    stream.post({ key, type: "gap", data: range });
  }

  // The browser would repeat the old query, so the next try is always ours.
  #broken(source) {
    if (source !== this.#source) return;
    const refused = source.readyState === EventSource.CLOSED;
    this.#hangUp();
    this.#failures += 1;
    if (refused) this.#tellAll({ type: "rejected" });
    this.#count(Math.min(2 ** (this.#failures - 1), LONGEST_WAIT_S));
  }

  #count(left) {
    if (left <= 0) return this.#connect();
    this.#tellAll({ type: "state", name: navigator.onLine ? "reconnecting" : "offline", seconds: left });
    this.#timer = setTimeout(() => this.#count(left - 1), 1000);
  }

  #tellAll(message) {
    for (const key of [...this.#streams.keys()]) this.#tell(key, message);
  }
}
