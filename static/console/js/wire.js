// Requests to the API with the session cookie; problems come back as errors with their text.

import { urls } from "./urls.js";

export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || `The server answered ${status}.`);
    this.status = status;
    this.code = document.code || "";
    this.errors = document.errors || [];
  }

  /** One text with every entry of `errors` and its place; what an entry repeats is said once. */
  get words() {
    const repeated = this.errors.some((entry) => this.message.endsWith(entry.detail));
    return [...(repeated ? [] : [this.message]), ...this.errors.map(located)].join(" · ");
  }
}

function located({ file, line, column, detail }) {
  return file ? `${[file, line, column].filter(Boolean).join(":")}: ${detail}` : detail;
}

const UNSAFE = new Set(["POST", "PUT", "DELETE"]);

function cookie(name) {
  const entry = document.cookie.split("; ").find((part) => part.startsWith(`${name}=`));
  return entry ? decodeURIComponent(entry.slice(name.length + 1)) : "";
}

/** JSON in, JSON out. Throws Problem on a 4xx or 5xx; sends the reader to sign in on 401. */
export async function call(method, path, { body, headers = {} } = {}) {
  const unsafe = UNSAFE.has(method) ? { "X-CSRFToken": cookie("csrftoken") } : {};
  const json = body === undefined ? {} : { "Content-Type": "application/json" };
  const response = await fetch(path, {
    method,
    credentials: "same-origin",
    headers: { Accept: "application/json", ...json, ...unsafe, ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (response.status === 401) return toSignIn();
  if (!response.ok) throw new Problem(response.status, await documentOf(response));
  return response.status === 204 ? null : response.json();
}

export function toSignIn() {
  const here = location.pathname + location.search + location.hash;
  location.assign(`${urls.signIn}?next=${encodeURIComponent(here)}`);
  return new Promise(() => {}); // the page goes away
}

/** After a refused stream: was it the session that ended? Then to the sign-in, else nothing. */
export async function checkSession() {
  const answer = await fetch(urls.me, { credentials: "same-origin" }).catch(() => null);
  if (answer?.status === 401) toSignIn();
}

async function documentOf(response) {
  const type = response.headers.get("Content-Type") || "";
  return type.includes("json") ? response.json() : {};
}

/** A random key for Idempotency-Key; crypto.randomUUID exists only on https and localhost. */
export function randomKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
