// Steps that run again in the kept environment: the dialog that asks, and below each step what became
// of it, with its log, live, and its artifacts. The run itself stays as it was.

import { plain } from "./ansi.js";
import { Stream } from "./stream.js";
import { call, Problem } from "./wire.js";

const POLL_MS = 15_000; // others run steps again too
const ACTIVE_POLL_MS = 2_000;
const MOST_LINES = 1_000; // shown of a log
const run = document.getElementById("run");
const api = `${run.dataset.api}/repeats`;
const dialog = document.getElementById("repeat");
const form = document.getElementById("repeat-form");
const entries = new Map(); // repeat id → its element
let repeats = [];
let polledAt = 0;

const words = (error) => (error instanceof Problem ? error.words : "The server did not answer; try again.");
const isActive = (repeat) => !repeat.finishedAt;

function element(tag, { text, ...attributes } = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  made.append(...children);
  return made;
}

function newEntry(repeat) {
  const log = element("pre", {
    class: "repeat-log", tabindex: "0", role: "region", "aria-label": `Log of ${repeat.stepId} #${repeat.attempt}`,
  });
  const entry = element("details", { class: "repeat", "data-repeat": repeat.id },
    element("summary"), element("p", { class: "quiet-text" }), log, element("ul", { role: "list" }));
  entry.addEventListener("toggle", () => { if (entry.open) follow(entry, repeat.id); });
  entries.set(repeat.id, entry);
  return entry;
}

function show(entry, repeat) {
  const sentence = `After the verdict: ${repeat.sentence}`;
  const summary = entry.querySelector("summary");
  if (summary.textContent !== sentence) summary.textContent = sentence;
  entry.dataset.state = repeat.state;
  const facts = [`asked for by ${repeat.askedBy}`];
  if (repeat.command) facts.push(`command ${repeat.command}`);
  if (repeat.env.length) facts.push(`with ${repeat.env.join(", ")}`);
  if (repeat.files) facts.push("with other files");
  const about = entry.querySelector("p");
  about.textContent = facts.join(" · ");
  if (isActive(repeat) && form) about.append(" ", cancelButton(repeat));
}

function cancelButton(repeat) {
  const label = repeat.canceling ? "Stopping…" : "Cancel";
  const button = element("button", { type: "button", class: "link-button", "data-cancel-repeat": repeat.id, text: label });
  button.disabled = repeat.canceling;
  return button;
}

function showAll() {
  for (const place of document.querySelectorAll("[data-repeats]")) {
    const own = repeats.filter((repeat) => repeat.stepId === place.dataset.repeats);
    const wanted = own.map((repeat) => {
      const entry = entries.get(repeat.id) ?? newEntry(repeat);
      show(entry, repeat);
      return entry;
    });
    const isSame = wanted.length === place.children.length && wanted.every((entry, at) => place.children[at] === entry);
    if (!isSame) place.replaceChildren(...wanted);
  }
}

/** Reads the log from its first line on, once, and the artifacts when it is over. */
function follow(entry, id) {
  if (entry.dataset.followed) return;
  entry.dataset.followed = "true";
  const log = entry.querySelector("pre");
  new Stream(`${api}/${id}/logs`, {
    since: 0,
    on: {
      record({ line }) {
        const isAtEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
        log.append(element("span", { class: `repeat-line ${line.level}`, text: `${plain(line.text)}\n` }));
        if (log.childElementCount > MOST_LINES) log.firstElementChild.remove();
        if (isAtEnd) log.scrollTop = log.scrollHeight;
      },
      end() { finish(entry, id); },
    },
  });
}

async function finish(entry, id) {
  await read();
  try {
    const { artifacts } = await call("GET", `${api}/${id}`);
    const links = artifacts.map((each) =>
      element("li", {}, element("a", { href: each.href, download: "", text: each.path }), ` ${each.size} bytes`));
    entry.querySelector("ul").replaceChildren(...links);
  } catch (error) {
    entry.querySelector("p").textContent = words(error);
  }
}

async function read() {
  polledAt = Date.now();
  try {
    ({ repeats } = await call("GET", `${api}?limit=200`));
    showAll();
  } catch (error) {
    if (error instanceof Problem && error.status === 404) repeats = [];
  }
}

function poll() {
  const pause = repeats.some(isActive) ? ACTIVE_POLL_MS : POLL_MS;
  if (!document.hidden && Date.now() - polledAt >= pause) read();
}

function showError(text) {
  const alert = form.querySelector("[data-repeat-error]");
  alert.hidden = !text;
  alert.querySelector("p").textContent = text;
}

/** Returns { NAME: value } of lines NAME=value; throws an Error with a sentence. */
function variables(text) {
  const lines = text.split("\n").filter((line) => line.trim());
  return Object.fromEntries(lines.map((line) => {
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`“${line.slice(0, 60)}” is no variable: write NAME=value`);
    return [line.slice(0, at).trim(), line.slice(at + 1)];
  }));
}

async function ask(event) {
  event.preventDefault();
  showError("");
  const submit = form.querySelector("[type=submit]");
  submit.disabled = true;
  try {
    const { stepId, command, env } = Object.fromEntries(new FormData(form));
    const repeat = await call("POST", api, { body: { stepId, command, env: variables(env) } });
    dialog.close();
    repeats = [repeat, ...repeats];
    showAll();
    entries.get(repeat.id).open = true;
    entries.get(repeat.id).querySelector("summary").focus();
  } catch (error) {
    showError(error instanceof Problem || !error.message || error instanceof TypeError ? words(error) : error.message);
  }
  submit.disabled = false;
}

document.addEventListener("click", async (event) => {
  const open = event.target.closest("[data-repeat-step]");
  if (open && dialog) {
    form.reset();
    showError("");
    form.elements.stepId.value = open.dataset.repeatStep;
    dialog.querySelector("h2").textContent = `Run ${open.dataset.repeatStep} again`;
    dialog.querySelector("[data-repeat-name]").textContent = open.dataset.repeatStep;
    return dialog.showModal();
  }
  const cancel = event.target.closest("[data-cancel-repeat]");
  if (!cancel) return;
  cancel.disabled = true;
  try {
    await call("POST", `${api}/${cancel.dataset.cancelRepeat}/cancel`);
  } catch (error) {
    cancel.after(` ${words(error)}`);
  }
  read();
});

form?.addEventListener("submit", ask);
setInterval(poll, 1000);
document.body.addEventListener("htmx:afterSettle", showAll);
read();
