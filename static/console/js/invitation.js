// An invitation: its token stands behind the #, so no server log ever holds it; a tab keeps it over the sign-in.

import { urls } from "./urls.js";
import { call } from "./wire.js";

const KEY = "partita-invitation";
const page = document.getElementById("invitation");
const text = page?.querySelector("[data-text]");
const form = document.querySelector("input[name=invitation]")?.form;

function takeToken() {
  if (location.hash.length > 1) {
    sessionStorage.setItem(KEY, location.hash.slice(1));
    history.replaceState(null, "", location.pathname);
  }
  return sessionStorage.getItem(KEY) ?? "";
}

function showError(detail) {
  const alert = page.querySelector("[data-error]");
  alert.hidden = false;
  alert.querySelector("p").textContent = detail;
}

async function show(token) {
  try {
    const found = await call("POST", urls.previewInvitation, { body: { token } });
    text.textContent = `${found.invitedBy} invites you to “${found.workspaceName}” as a ${found.role}.`;
    page.querySelector("[data-answer]").hidden = false;
  } catch (problem) {
    if (problem.status) sessionStorage.removeItem(KEY); // used, revoked or expired
    text.textContent = "This link does not work.";
    showError(problem.message);
  }
}

async function accept(token) {
  try {
    await call("POST", urls.acceptInvitation, { body: { token } });
    sessionStorage.removeItem(KEY);
    location.assign(urls.home);
  } catch (problem) {
    showError(problem.message);
  }
}

const token = takeToken();
if (page) {
  if (token) show(token);
  else text.textContent = "Open the full invitation link; part of it seems to be missing.";
  page.querySelector("[data-accept]")?.addEventListener("click", () => accept(token));
}
if (form && token) {
  form.elements.invitation.value = token;
  form.elements.next.value = urls.home;
  call("POST", urls.previewInvitation, { body: { token } }).then(showForm, forget);
}

/** Also where sign-up is closed: the server checks the invitation again. */
function showForm() {
  form.hidden = false;
  document.querySelector("[data-closed]")?.remove();
}

function forget(problem) {
  if (!problem.status) return; // the server did not answer
  sessionStorage.removeItem(KEY);
  form.elements.invitation.value = "";
}
