// The tab Shell of a run: opens a shell in a step, shows it in a terminal, and lists who opened one.

import { clockTime } from "./frame.js";
import { showFromTop } from "./run_tabs.js";
import { ShellSocket } from "./shell_socket.js";
import { call, checkSession, Problem } from "./wire.js";

const POLL_MS = 10_000;
const run = document.getElementById("run");
const api = `${run.dataset.api}/shells`;
const byId = (id) => document.getElementById(id);
const form = byId("shell-form");
const pane = byId("pane-shell");
const place = byId("shell-place");
let terminal = null;
let socket = null;
let current = null; // the session that the terminal shows
let size = { cols: 80, rows: 24 };

function words(error) {
  return error instanceof Problem ? error.words : "The server did not answer; try again.";
}

function showError(text) {
  byId("shell-error").hidden = !text;
  byId("shell-error").querySelector("p").textContent = text;
}

function showState(text) {
  if (byId("shell-status").textContent !== text) byId("shell-status").textContent = text;
}

/** The steps that can be entered are those whose rows have the button. */
function showSteps() {
  const steps = [...document.querySelectorAll("[data-open-shell]")].map((button) => button.dataset.openShell);
  const select = byId("shell-step");
  if (steps.join("\n") !== [...select.options].map((each) => each.value).join("\n")) {
    const chosen = select.value;
    select.replaceChildren(...steps.map((id) => new Option(id, id)));
    if (steps.includes(chosen)) select.value = chosen;
  }
  form.hidden = steps.length === 0;
  byId("shell-program-help").hidden = steps.length === 0;
  byId("shell-none").hidden = steps.length > 0;
}

/** Words of a command line; quotes keep spaces together. */
function splitWords(text) {
  return [...text.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map((match) => match[1] ?? match[2] ?? match[3]);
}

async function showTerminal() {
  place.hidden = false;
  if (terminal) return terminal.reset();
  const sheet = Object.assign(document.createElement("link"), { rel: "stylesheet", href: byId("shell").dataset.css });
  const isStyled = new Promise((resolve) => { sheet.onload = sheet.onerror = resolve; });
  document.head.append(sheet);
  const [{ openTerminal }] = await Promise.all([import("./shell_terminal.js"), isStyled]);
  terminal = openTerminal(byId("shell-terminal"), {
    leave: () => byId("shell-end").focus(),
    resized: (now) => {
      size = now;
      socket?.resize(size.cols, size.rows);
    },
    typed: (bytes) => socket?.type(bytes),
  });
  size = { cols: terminal.cols, rows: terminal.rows };
}

/** Keys of the program are no shortcuts of the page. */
byId("shell-terminal").addEventListener("keydown", (event) => event.stopPropagation());

async function open(event) {
  event.preventDefault();
  const submit = form.querySelector("[type=submit]");
  submit.disabled = true;
  showError("");
  try {
    await showTerminal();
    const command = splitWords(form.elements.program.value);
    const body = { stepId: form.elements.step.value, columns: size.cols, rows: size.rows };
    enter(await call("POST", api, { body: command.length ? { ...body, command } : body }));
  } catch (error) {
    if (!current) place.hidden = true;
    showError(words(error));
  }
  submit.disabled = false;
}

/** Shows a session in the terminal, from its first output on. */
function enter(session) {
  socket?.leave();
  current = session;
  byId("shell").classList.add("is-open");
  byId("shell-end").hidden = false;
  byId("shell-notice").hidden = true;
  byId("shell-terminal").classList.remove("is-over");
  socket = new ShellSocket(session.socket, {
    output: (bytes) => terminal.write(bytes),
    session: showSession,
    ended: showEnd,
    gap: () => terminal.write("\r\n[older output is no longer stored]\r\n"),
    state: showConnection,
    refused: showRefusal,
  });
  terminal.focus();
  place.scrollIntoView({ block: "nearest" });
  showList();
}

function showConnection(name, seconds) {
  if (name === "connecting") showState(`Opening a shell in ${current.stepId}…`);
  if (name !== "reconnecting") return;
  const wait = seconds ? ` Next try in ${seconds} s.` : "";
  showState(`Connection lost; the shell goes on for a minute. Reconnecting.${wait}`);
}

function showSession(session) {
  current = session;
  if (session.state === "opening") return;
  showState(`A shell in ${session.stepId} is open.`);
  byId("shell-notice").textContent = session.notice ?? "";
  byId("shell-notice").hidden = !session.notice;
  socket.resize(size.cols, size.rows);
  showList();
}

function showEnd(session) {
  current = session;
  over(`The shell in ${session.stepId} has ended: ${session.end.detail}.`);
}

function showRefusal(status, reason) {
  if (status === 401) checkSession();
  const why = status ? `the server refused it (${reason || status})` : "no connection for a minute";
  over(`The shell can no longer be reached: ${why}.`);
}

function over(text) {
  showState(text);
  byId("shell-terminal").classList.add("is-over");
  const hadFocus = byId("shell-terminal").contains(document.activeElement);
  byId("shell-end").hidden = true;
  byId("shell").classList.remove("is-open");
  if (hadFocus) form.querySelector("[type=submit]").focus();
  showList();
}

async function end(id) {
  showError("");
  try {
    await call("DELETE", `${api}/${encodeURIComponent(id)}`);
  } catch (error) {
    showError(words(error));
  }
  showList();
}

async function showList() {
  let shells = [];
  try {
    ({ shells } = await call("GET", api));
  } catch {
    return; // the next look is soon
  }
  const list = byId("shell-list");
  if (shells.length === 0) return;
  const hadFocus = list.contains(document.activeElement) ? document.activeElement.dataset.key : "";
  list.replaceChildren(...shells.map(row));
  if (hadFocus) list.querySelector(`[data-key="${hadFocus}"]`)?.focus();
}

function row(session) {
  const item = document.createElement("li");
  const step = Object.assign(document.createElement("code"), { textContent: session.stepId });
  const program = session.command.length ? ` ran ${session.command.join(" ")}` : "";
  const what = document.createElement("span");
  what.textContent = `${session.openedBy}${program}, ${clockTime(session.createdAt, true)}: ${stateWords(session)}`;
  item.append(step, what);
  const isLive = session.state !== "ended";
  const isHere = session.shellId === current?.shellId && socket?.isOpen;
  if (isLive && session.isYours && !isHere) {
    item.append(action("Return to shell", `return ${session.shellId}`, async () => {
      await showTerminal();
      enter(session);
    }));
  }
  if (isLive) item.append(action("End shell", `end ${session.shellId}`, () => end(session.shellId)));
  return item;
}

function action(text, key, work) {
  const button = Object.assign(document.createElement("button"), { type: "button", className: "link-button", textContent: text });
  button.dataset.key = key;
  button.addEventListener("click", work);
  return button;
}

function stateWords(session) {
  if (session.state !== "ended") return session.state;
  const seconds = Math.round((Date.parse(session.endedAt) - Date.parse(session.openedAt ?? session.createdAt)) / 1000);
  return `ended after ${seconds} s, ${session.end.detail}`;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-open-shell]");
  if (!button) return;
  showFromTop("shell");
  byId("shell-step").value = button.dataset.openShell;
  form.querySelector("[type=submit]").focus();
});
form.addEventListener("submit", open);
byId("shell-end").addEventListener("click", () => end(current.shellId));
document.body.addEventListener("htmx:afterRequest", showSteps);
setInterval(() => { if (!pane.hidden && !document.hidden) showList(); }, POLL_MS);
new MutationObserver(() => { if (!pane.hidden) showList(); }).observe(pane, { attributeFilter: ["hidden"] });
showSteps();
if (!pane.hidden) showList();
