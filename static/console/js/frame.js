// What every page has: colours, help, going places, closing dialogs, local times.

import { onKey } from "./keys.js";

const THEMES = ["system", "light", "dark"];
const root = document.documentElement;

function showTheme() {
  const theme = root.dataset.theme;
  const button = document.querySelector("[data-action=theme]");
  button.querySelector("[data-theme-name]").textContent = theme.charAt(0).toUpperCase() + theme.slice(1);
  button.setAttribute("aria-label", `Colors: ${theme === "system" ? "as the system" : theme}`);
}

function nextTheme() {
  const theme = THEMES[(THEMES.indexOf(root.dataset.theme) + 1) % THEMES.length];
  root.dataset.theme = theme;
  localStorage.setItem("partita-theme", theme);
  showTheme();
}

export function showLocalTimes(within = document) {
  for (const time of within.querySelectorAll("time[data-local-time]")) {
    const moment = new Date(time.dateTime);
    time.textContent = moment.toLocaleString([], { dateStyle: "medium", timeStyle: "medium" });
    time.title = time.dateTime;
  }
}

// A drawing shrinks to its panel as far as its words stay readable, then it scrolls.
for (const graph of document.querySelectorAll(".graph")) {
  graph.style.minWidth = `${graph.width.baseVal.value * 0.8}px`;
}

document.addEventListener("click", (event) => {
  const action = event.target.closest("[data-action]")?.dataset.action;
  if (action === "theme") nextTheme();
  if (action === "help") document.getElementById("help").showModal();
  if (action === "close") event.target.closest("dialog").close();
  if (event.target.matches("dialog.sheet")) event.target.close(); // the backdrop
});

onKey("?", () => document.getElementById("help").showModal());
onKey("g r", () => location.assign("/"));
onKey("g s", () => location.assign("/suites"));
onKey("g c", () => location.assign("/catalog"));

showTheme();
showLocalTimes();
