// The dialog that runs an ended run again. It shows the plan, which steps run and why, before it starts.

import { onKey } from "./keys.js";
import { selectedStep } from "./run_steps.js";
import { runUrl } from "./urls.js";
import { call, Problem, randomKey } from "./wire.js";

const run = document.getElementById("run");
const api = `${run.dataset.api}/rerun`;
const dialog = document.getElementById("rerun");
const form = document.getElementById("rerun-form");
const button = document.querySelector(".run-actions [data-action=rerun]");
const submit = form.querySelector("[type=submit]");
const part = (name) => form.querySelector(`[data-rerun-${name}]`);
let key = ""; // one a choice, so that a double click is one run
let asked = 0;

function choice() {
  const { scope, step, profile, keep } = Object.fromEntries(new FormData(form));
  const keeping = keep && { keepAliveMs: Number(keep) };
  return { scope, ...(scope === "step" && { step }), ...(profile && { profile }), ...keeping };
}

function entry({ id, text }) {
  const item = document.createElement("li");
  const name = document.createElement("code");
  name.textContent = id;
  item.append(name, ` ${text}`);
  return item;
}

function showError(text) {
  part("error").hidden = !text;
  part("error").querySelector("p").textContent = text;
}

function words(error) {
  return error instanceof Problem ? error.words : "The server did not answer; try again.";
}

function showPlan(plan) {
  part("sentence").textContent = plan
    ? `${plan.sentence} ${plan.profile ? `Profile ${plan.profile}` : "No profile"}, on ${plan.backend}.`
    : "";
  const steps = plan?.steps ?? [];
  part("steps").replaceChildren(...steps.map(entry));
  part("steps").hidden = steps.length === 0;
  const omitted = plan?.notSelected ?? [];
  part("omitted").hidden = omitted.length === 0;
  part("omitted").querySelector("summary").textContent =
    `${omitted.length} ${omitted.length === 1 ? "step does" : "steps do"} not run (not_selected)`;
  part("omitted").querySelector("ul").replaceChildren(...omitted.map(entry));
}

/** Asks for the plan of what is chosen now; an answer to an earlier choice is dropped. */
async function readPlan() {
  const mine = ++asked;
  key = randomKey();
  submit.disabled = true;
  part("step").hidden = form.elements.scope.value !== "step";
  part("plan").setAttribute("aria-busy", "true");
  let plan = null, problem = "";
  try {
    plan = await call("POST", api, { body: { ...choice(), dryRun: true } });
  } catch (error) {
    problem = words(error);
  }
  if (mine !== asked) return;
  part("plan").setAttribute("aria-busy", "false");
  showError(problem);
  showPlan(plan);
  submit.disabled = !plan;
}

function open() {
  form.reset();
  const isHealthy = document.getElementById("run-head").dataset.status === "healthy";
  form.elements.scope.value = isHealthy ? "all" : "failed";
  if (selectedStep()) form.elements.step.value = selectedStep();
  showError("");
  showPlan(null);
  part("sentence").textContent = "Reading the plan…";
  dialog.showModal();
  form.querySelector("[name=scope]:checked").focus();
  readPlan();
}

async function start(event) {
  event.preventDefault();
  submit.disabled = true;
  showError("");
  try {
    const next = await call("POST", api, { body: choice(), headers: { "Idempotency-Key": key } });
    location.assign(runUrl(next.id));
  } catch (error) {
    showError(words(error));
    submit.disabled = false;
  }
}

document.addEventListener("run:over", () => { button.hidden = false; });
button.addEventListener("click", open);
form.addEventListener("change", readPlan);
form.addEventListener("submit", start);
onKey("r", open, () => !button.hidden);
