// The environments, live: a new snapshot of the stream brings a new rendering of the list. A removal
// shows its plan in place, then how much of it is gone, then the result.

import { showLocalTimes } from "./frame.js";
import { onKey } from "./keys.js";
import { morph } from "./morph.js";
import { ago } from "./status_display.js";
import { showLink, Stream } from "./stream.js";
import { urls } from "./urls.js";
import { checkSession, toSignIn } from "./wire.js";

const AGES_MS = 20_000;
const RETRY_MS = 5_000;
const REFRESH_MS = 300; // snapshots closer together than this are shown as one
const page = document.getElementById("environments");
const UNDER_WAY = "[data-reap-progress]:not([hidden])";
const AWAY = "The server did not answer; try again.";

async function fetchElement(address, options = {}) {
  const response = await fetch(address, {
    credentials: "same-origin", ...options, headers: { "HX-Request": "true" },
  });
  if (response.status === 401) return toSignIn();
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  const body = new DOMParser().parseFromString(await response.text(), "text/html").body;
  return document.importNode(body.firstElementChild, true);
}

// ── the list ─────────────────────────────────────────────────────────────────

const state = { timer: 0, again: false };

/** Fetches the list at most every REFRESH_MS; a snapshot during a fetch brings another. */
function refreshSoon() {
  state.again = true;
  state.timer ||= setTimeout(refresh, REFRESH_MS);
}

async function refresh() {
  state.again = false;
  let wait = REFRESH_MS;
  try {
    const fresh = await fetchElement(page.dataset.rows);
    showLocalTimes(fresh);
    morph(page, fresh);
    document.dispatchEvent(new Event("htmx:afterSettle")); // new commands get their buttons
  } catch {
    state.again = true; // what is shown stays meanwhile
    wait = RETRY_MS;
  }
  state.timer = state.again ? setTimeout(refresh, wait) : 0;
}

function showAges() {
  for (const time of page.querySelectorAll("[data-ago]")) time.textContent = ago(time.dateTime);
}

// ── removals ─────────────────────────────────────────────────────────────────

/** The place of a removal: in the row of its environment, or above the list. */
function placeOf(element) {
  return element.closest(".reap-place") ?? element.closest(".environment, #environments").querySelector(":scope > .reap-place");
}

function show(place, element) {
  place.replaceChildren(element);
  place.querySelector("[data-reap-body]").focus({ preventScroll: true });
  place.scrollIntoView({ block: "nearest" });
}

async function ask(opener) {
  const place = placeOf(opener);
  if (place.querySelector(UNDER_WAY)) return;
  place.dataset.opener = opener.closest(".reap-place") ? place.dataset.opener ?? "" : opener.getAttribute("href");
  place.ariaBusy = "true";
  try {
    show(place, await fetchElement(opener.href));
  } catch {
    showFailure(place);
  }
  place.ariaBusy = "false";
}

function showFailure(place) {
  const text = document.createElement("p");
  text.className = "alert";
  text.setAttribute("role", "alert");
  text.textContent = AWAY;
  place.querySelector(":scope [role=alert]")?.remove();
  place.prepend(text);
}

function close(place) {
  const { opener = "" } = place.dataset;
  const row = place.closest(".environment");
  place.replaceChildren();
  const back = [...page.querySelectorAll("[data-reap]")].find((each) => each.getAttribute("href") === opener);
  if (row?.dataset.gone !== undefined) row.remove();
  (back?.isConnected ? back : document.getElementById("content")).focus({ preventScroll: true });
  refreshSoon();
}

async function remove(form) {
  const place = placeOf(form);
  const body = new FormData(form); // before the fields are disabled
  const progress = place.querySelector("[data-reap-progress]");
  for (const control of form.elements) control.disabled = true;
  form.querySelector("[data-reap-choice]").hidden = true;
  progress.hidden = false;
  showProgress();
  place.querySelector("[data-reap-body]").focus({ preventScroll: true });
  try {
    show(place, await fetchElement(form.action, { method: "POST", body }));
  } catch {
    for (const control of form.elements) control.disabled = false;
    form.querySelector("[data-reap-choice]").hidden = false;
    progress.hidden = true;
    showFailure(place);
  }
  refreshSoon();
}

let reaps = []; // of the last snapshot
const STAGES = { marking: "Canceling live runs first…", ready: "Waiting for a runner…" };

function isOf(reap, { scope, sandbox }) {
  if (reap.state === "done") return false;
  if (sandbox) return reap.target === sandbox;
  return reap.scope === "sandbox" ? scope === "zombies" : reap.onlyZombies === (scope === "zombies");
}

/** Says of each removal that this page asked for how far it is. */
function showProgress() {
  for (const progress of page.querySelectorAll(UNDER_WAY)) {
    const form = progress.previousElementSibling;
    const reap = reaps.find((each) => isOf(each, form.dataset));
    const bar = progress.querySelector("progress");
    const isCounted = reap?.state === "sweeping" && reap.marked > 0;
    if (isCounted) Object.assign(bar, { max: reap.marked, value: reap.gone });
    else bar.removeAttribute("value");
    const words = isCounted ? `${reap.gone} of ${reap.marked} gone` : STAGES[reap?.state] ?? "Removing…";
    const status = progress.querySelector("[role=status]");
    if (status.textContent !== words) status.textContent = words;
  }
}

document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return; // into another tab, as a page
  const opener = event.target.closest("[data-reap]");
  const closer = event.target.closest("[data-reap-close]");
  if (!opener && !closer) return;
  event.preventDefault();
  if (opener) ask(opener);
  else close(placeOf(closer));
});
page.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-reap-form]")) return;
  event.preventDefault();
  remove(event.target);
});
page.addEventListener("keydown", (event) => {
  const place = event.key === "Escape" && event.target.closest(".reap-place");
  if (place && !place.querySelector(UNDER_WAY)) close(place);
});

// ── stream and keys ──────────────────────────────────────────────────────────

const link = document.querySelector(".link-state");
let stream = null;

/** Follows the snapshots while the page is in sight: runners look only while somebody watches. */
function follow() {
  if (document.visibilityState !== "visible") {
    stream?.close();
    stream = null;
    return;
  }
  stream ??= new Stream(urls.sandboxes, {
    on: {
      record: ({ snapshot }) => {
        reaps = snapshot.reaps;
        showProgress();
        refreshSoon();
      },
      state: (name, seconds) => showLink(link, name, seconds),
      refused: checkSession,
    },
  });
}

function move(step) {
  const heads = [...page.querySelectorAll(".environment-fold > summary")];
  const now = heads.indexOf(document.activeElement);
  heads[Math.min(Math.max(now + step, 0), heads.length - 1)]?.focus();
}

onKey("j", () => move(1));
onKey("k", () => move(-1));
onKey("/", () => document.getElementById("environments-q").focus());
setInterval(showAges, AGES_MS);
document.addEventListener("visibilitychange", follow);
follow();
