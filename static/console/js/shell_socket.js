// The connection to one shell session: it comes back by itself and misses no output.

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 8000;
const GIVE_UP_MS = 60_000; // then the session has ended, too
const PIECE = 32 * 1024;
const REFUSED = 4000;

/** Calls on.output(bytes), on.session(document), on.ended(document), on.gap(), on.state(name, seconds)
    and on.refused(code, reason). */
export class ShellSocket {
  constructor(path, on) {
    const address = new URL(path, location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    this.address = address;
    this.on = on;
    this.last = 0n;
    this.pause = FIRST_PAUSE_MS;
    this.lostAt = 0;
    this.isOver = false;
    this.connect();
  }

  connect() {
    this.address.searchParams.set("after", this.last);
    this.on.state(this.lostAt ? "reconnecting" : "connecting", 0);
    this.socket = new WebSocket(this.address);
    this.socket.binaryType = "arraybuffer";
    this.socket.onmessage = (event) => this.take(event.data);
    this.socket.onclose = (event) => this.closed(event);
  }

  take(data) {
    if (typeof data !== "string") {
      this.last = new DataView(data).getBigUint64(0);
      this.on.output(new Uint8Array(data, 8));
      return;
    }
    const message = JSON.parse(data);
    if (message.type === "session") {
      this.lostAt = 0;
      this.pause = FIRST_PAUSE_MS;
      this.on.state("connected", 0);
      this.on.session(message.session);
    } else if (message.type === "end") {
      this.isOver = true;
      this.on.ended(message.session);
    } else if (message.type === "gap") {
      this.on.gap();
    }
  }

  closed(event) {
    if (this.isOver) return;
    if (event.code >= REFUSED) {
      this.isOver = true;
      this.on.refused(event.code - REFUSED, event.reason);
      return;
    }
    this.lostAt ||= Date.now();
    if (Date.now() - this.lostAt > GIVE_UP_MS) {
      this.isOver = true;
      this.on.refused(0, "");
      return;
    }
    this.on.state("reconnecting", Math.ceil(this.pause / 1000));
    this.retry = setTimeout(() => this.connect(), this.pause);
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE_MS);
  }

  get isOpen() {
    return this.socket.readyState === WebSocket.OPEN && !this.isOver;
  }

  /** Returns whether the bytes were sent; without a connection they are not kept for later. */
  type(bytes) {
    if (!this.isOpen) return false;
    for (let at = 0; at < bytes.length; at += PIECE) this.socket.send(bytes.subarray(at, at + PIECE));
    return true;
  }

  resize(columns, rows) {
    if (this.isOpen) this.socket.send(JSON.stringify({ type: "resize", columns, rows }));
  }

  leave() {
    this.isOver = true;
    clearTimeout(this.retry);
    this.socket.close();
  }
}
