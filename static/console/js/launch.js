// The launch dialog: suite, profile, backend; one Idempotency-Key an opening, so a double click is one run.

import { onKey } from "./keys.js";
import { runUrl, urls } from "./urls.js";
import { call, Problem, randomKey } from "./wire.js";

const dialog = document.getElementById("launch");
const form = document.getElementById("launch-form");
const NONE = "No suite can be launched; the suites page says why.";
const LAST = "partita.last-suite";
const SEARCHED_FROM = 8; // suites
const suites = lastFirst(JSON.parse(document.getElementById("launch-suites").textContent));
const search = form.elements.search;
let key = "";

/** The suite that was launched here last, then the others by title. */
function lastFirst(all) {
  const last = localStorage.getItem(LAST);
  return [...all.filter((suite) => suite.id === last), ...all.filter((suite) => suite.id !== last)];
}

function fill(select, options) {
  select.replaceChildren(...options.map(({ value, text, selected, disabled }) => {
    const option = new Option(text, value, selected, selected);
    option.disabled = Boolean(disabled);
    return option;
  }));
  select.disabled = options.length === 0;
}

function chosen() {
  return suites.find((suite) => suite.id === form.elements.suiteId.value);
}

/** The suites with the words of the search in title, id or description. */
function showSuites() {
  const words = search.value.toLowerCase().split(/\s+/);
  const found = suites.filter((suite) => {
    const text = `${suite.title} ${suite.id} ${suite.description}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  fill(form.elements.suiteId, found.map((suite) => ({ value: suite.id, text: suite.title })));
  form.querySelector("[type=submit]").disabled = found.length === 0;
  showError(found.length ? "" : suites.length ? "No suite matches." : NONE);
  key = randomKey();
  showSuite();
}

function showSuite() {
  const suite = chosen();
  form.querySelector("[data-launch-description]").textContent = suite?.description ?? "";
  const profiles = suite?.profiles ?? [];
  const none = profiles.length ? [] : [{ value: "", text: "none: the suite's own values" }];
  fill(form.elements.profile, [...none, ...profiles.map((profile) => ({
    value: profile.fileName, text: `${profile.label} (${profile.fileName})`, selected: profile.default,
  }))]);
  fill(form.elements.backend, [
    { value: "", text: "automatic", selected: true },
    ...(suite?.backends ?? []).map((backend) => ({
      value: backend.id,
      text: backend.available ? backend.label : `${backend.label}: not available`,
      disabled: !backend.available,
    })),
  ]);
  showIsolation();
}

function showIsolation() {
  const backends = chosen()?.backends ?? [];
  const wanted = form.elements.backend.value;
  const automatic = backends.find((one) => one.default && one.available) ?? backends.find((one) => one.available);
  const backend = wanted ? backends.find((one) => one.id === wanted) : automatic;
  const waiting = backend ? "" : backends.map((one) => `${one.label}: ${one.waitsFor}`).join("; ");
  const hint = form.querySelector("[data-launch-waiting]");
  hint.hidden = !waiting;
  hint.textContent = waiting && `No backend is available. ${waiting}.`;
  form.querySelector("[type=submit]").disabled = !chosen() || Boolean(waiting);
  form.querySelector("[data-launch-isolation]").hidden = !backend || backend.isolated;
}

function showError(text) {
  const alert = form.querySelector("[data-launch-error]");
  alert.hidden = !text;
  alert.querySelector("p").textContent = text;
}

/** Open the dialog, with the suite and profile that the pressed button names. */
function open({ suite = "", profile = "" } = {}) {
  search.value = "";
  showSuites();
  if (suites.some((one) => one.id === suite)) {
    form.elements.suiteId.value = suite;
    showSuite();
  }
  if ([...form.elements.profile.options].some((one) => one.value === profile)) {
    form.elements.profile.value = profile;
  }
  dialog.showModal();
  (search.closest("label").hidden ? form.elements.suiteId : search).focus();
}

async function launch(event) {
  event.preventDefault();
  const button = form.querySelector("[type=submit]");
  button.disabled = true;
  showError("");
  const { suiteId, profile, backend, keep } = Object.fromEntries(new FormData(form));
  const keeping = keep && { keepAliveMs: Number(keep) };
  const body = { suiteId, ...(profile && { profile }), ...(backend && { backend }), ...keeping };
  try {
    const run = await call("POST", urls.runs, { body, headers: { "Idempotency-Key": key } });
    localStorage.setItem(LAST, suiteId);
    location.assign(runUrl(run.id));
  } catch (error) {
    showError(error instanceof Problem ? error.words : "The server did not answer; try again.");
    button.disabled = false;
  }
}

search.closest("label").hidden = suites.length < SEARCHED_FROM;
search.addEventListener("input", showSuites);
form.elements.suiteId.addEventListener("change", () => { key = randomKey(); showSuite(); });
form.elements.profile.addEventListener("change", () => { key = randomKey(); });
form.elements.backend.addEventListener("change", () => { key = randomKey(); showIsolation(); });
form.elements.keep.addEventListener("change", () => { key = randomKey(); });
form.addEventListener("submit", launch);
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-action=launch]");
  if (button) open(button.dataset);
});
onKey("l", () => open());
showSuites();
