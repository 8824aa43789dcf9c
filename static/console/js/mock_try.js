// Calls a mock from the form of its operation, and shows the answer beside the reason for it.

const PATIENCE_MS = 60_000;
const SHOWN_CHARACTERS = 200_000;
const SHOWN_BYTES = 512;
const LONG_NUMBER = /[0-9]{16}/; // JSON.parse would round it

const part = (form, name) => form.querySelector(`[data-part=${name}]`);
const element = (name, className, text = "") => Object.assign(document.createElement(name), { className, textContent: text });

// ── the form ─────────────────────────────────────────────────────────────────

function start() {
  for (const form of document.querySelectorAll("form[data-try][hidden]")) {
    form.hidden = false;
    fill(form, 0);
  }
}

function fill(form, index) {
  const sample = JSON.parse(form.dataset.samples)[index];
  for (const name of ["path", "query", "headers"]) {
    const rows = part(form, name)?.querySelector("[data-rows]");
    rows?.replaceChildren(...Object.entries(sample[name]).map(([key, value]) => row(name, key, value)));
  }
  const body = form.querySelector("[data-body]");
  if (!body) return;
  body.value = sample.body;
  body.rows = Math.min(Math.max(sample.body.split("\n").length, 3), 14);
}

/** A name and a value; those of the path have their names from the operation. */
function row(kind, name = "", value = "") {
  const line = element("div", "try-row");
  const words = { path: "Path parameter", query: "Query parameter", headers: "Header" }[kind];
  const key = field("name", name, `${words}: name`);
  key.readOnly = kind === "path";
  line.append(key, field("value", value, name ? `${words} ${name}` : `${words}: value`));
  if (kind !== "path") {
    const remove = Object.assign(element("button", "quiet", "×"), { type: "button" });
    remove.dataset.remove = "";
    remove.setAttribute("aria-label", `Remove ${name || "this line"}`);
    line.append(remove);
  }
  return line;
}

function field(name, value, label) {
  const input = Object.assign(element("input", ""), { name, value, autocomplete: "off", spellcheck: false });
  input.setAttribute("aria-label", label);
  if (name === "name") input.placeholder = "name";
  return input;
}

function pairs(form, name) {
  const rows = part(form, name)?.querySelectorAll(".try-row") ?? [];
  return [...rows]
    .map((line) => [line.querySelector("[name=name]").value.trim(), line.querySelector("[name=value]").value])
    .filter(([key, value]) => key && (value || name === "path"));
}

/** What the form says: method, address on this site, headers and body. Throws where it cannot be sent. */
function requestOf(form) {
  let path = form.dataset.address;
  for (const [name, value] of pairs(form, "path")) {
    if (!value) throw new Error(`The path parameter ${name} is empty.`);
    path = path.replaceAll(`{${name}}`, encodeURIComponent(value));
  }
  const query = new URLSearchParams(pairs(form, "query")).toString();
  return {
    method: form.dataset.method,
    address: query ? `${path}?${query}` : path,
    headers: pairs(form, "headers"),
    body: form.querySelector("[data-body]")?.value ?? "",
  };
}

const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

function command({ method, address, headers, body }) {
  const words = ["curl", "-i"];
  if (method === "HEAD") words.push("-I");
  else if (method !== "GET") words.push("-X", method);
  words.push(location.origin + address);
  for (const [name, value] of headers) words.push("-H", `${name}: ${value}`);
  if (body) words.push("--data-raw", body);
  return words.map(quoted).join(" ");
}

// ── the call ─────────────────────────────────────────────────────────────────

async function run(form, { sends }) {
  const status = form.querySelector("[data-try-status]");
  const result = form.nextElementSibling;
  let request;
  try {
    request = requestOf(form);
  } catch (problem) {
    status.textContent = problem.message;
    return;
  }
  status.textContent = sends ? "Sending…" : "Explaining…";
  result.hidden = false;
  await explain(form, request, result.querySelector("[data-why]")); // before the call changes the state
  status.textContent = sends ? await send(request, result.querySelector("[data-answer]")) : "";
  if (sends) htmx.trigger(document.body, "mock-called");
}

async function explain(form, { method, address, headers, body }, target) {
  const surface = form.dataset.address.split("/").slice(0, 5).join("/"); // /mocks/rest/<space>/<surface>
  const values = {
    csrfmiddlewaretoken: form.querySelector("[name=csrfmiddlewaretoken]").value,
    method,
    path: address.slice(surface.length),
    headers: headers.map(([name, value]) => `${name}: ${value}`).join("\n"),
    body,
  };
  try {
    await htmx.ajax("POST", form.dataset.explain, { target, swap: "innerHTML", values });
  } catch {
    target.textContent = "The explanation could not be loaded: the server did not answer.";
  }
}

/** Sends the call, shows what comes, and returns what to say of it. */
async function send(request, target) {
  const { method, address, headers, body } = request;
  const began = performance.now();
  target.hidden = false;
  target.querySelector("[data-sent]").textContent = command(request);
  try {
    const answer = await fetch(address, {
      method, headers, body: body || undefined,
      credentials: "omit", cache: "no-store", redirect: "manual", signal: AbortSignal.timeout(PATIENCE_MS),
    });
    const bytes = new Uint8Array(await answer.arrayBuffer());
    const took = performance.now() - began;
    show(target, answer, bytes, took);
    return `Answered ${answer.status || "a redirect"} in ${milliseconds(took)}`;
  } catch (problem) {
    show(target, null, new Uint8Array(), 0);
    target.querySelector("[data-answer-body]").textContent = `The browser could not send this call: ${problem.message}`;
    return "Not sent";
  }
}

function show(target, answer, bytes, took) {
  const status = target.querySelector("[data-answer-status]");
  status.textContent = answer ? named(answer) : "No answer";
  status.dataset.status = answer && answer.status < 400 ? "healthy" : "failed";
  target.querySelector("[data-answer-facts]").textContent = answer ? `${milliseconds(took)}, ${size(bytes.length)}` : "";
  const headers = answer ? [...answer.headers] : [];
  target.querySelector("[data-answer-headers]").replaceChildren(...headers.flatMap(([name, value]) => [element("dt", "", name), element("dd", "", value)]));
  target.querySelector("[data-answer-body]").textContent = answer ? text(bytes, answer.headers.get("content-type") ?? "") : "";
}

function named(answer) {
  if (answer.type === "opaqueredirect") return "A redirect. Browsers hide its details from pages; the command below shows them";
  return `${answer.status} ${answer.statusText}`.trim();
}

/** The body as text: JSON indented, bytes of binary data in hexadecimal. */
function text(bytes, type) {
  if (!bytes.length) return "(empty)";
  let words;
  try {
    words = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    const shown = Array.from(bytes.subarray(0, SHOWN_BYTES), (byte) => byte.toString(16).padStart(2, "0")).join(" ");
    return `${size(bytes.length)} of binary data${bytes.length > SHOWN_BYTES ? `; the first ${SHOWN_BYTES}` : ""}:\n${shown}`;
  }
  const whole = type.includes("json") ? indented(words) : words;
  return whole.length > SHOWN_CHARACTERS ? `${whole.slice(0, SHOWN_CHARACTERS)}\n… cut here` : whole;
}

function indented(words) {
  if (LONG_NUMBER.test(words)) return words;
  try {
    return JSON.stringify(JSON.parse(words), null, 2);
  } catch {
    return words;
  }
}

const milliseconds = (took) => (took < 10 ? `${took.toFixed(1)} ms` : `${Math.round(took)} ms`);
const size = (count) => (count < 1024 ? `${count} bytes` : `${(count / 1024).toFixed(1)} KiB`);

// ── events ───────────────────────────────────────────────────────────────────

document.addEventListener("submit", (event) => {
  if (!event.target.matches("form[data-try]")) return;
  event.preventDefault();
  run(event.target, { sends: true });
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("form[data-try] button");
  if (!button) return;
  const form = button.form;
  if ("onlyExplain" in button.dataset) run(form, { sends: false });
  if ("remove" in button.dataset) button.closest(".try-row").remove();
  if (button.dataset.add) {
    const line = row(button.dataset.add);
    button.previousElementSibling.append(line);
    line.querySelector("input").focus();
  }
});
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-sample]")) fill(event.target.form, Number(event.target.value));
});
document.addEventListener("htmx:afterSettle", start);
start();
