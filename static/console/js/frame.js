// What every page has: colours, help, going places, closing dialogs, local times.

import { hasKey, onKey } from "./keys.js";
import { urls } from "./urls.js";

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

/** The reader's clock for an RFC 3339 time, 24 hours; with the date for a time by itself. */
export function clockTime(time, withDate = false) {
  const moment = new Date(time);
  if (Number.isNaN(moment.valueOf())) return "";
  const date = withDate ? { dateStyle: "medium" } : {};
  return moment.toLocaleString([], { ...date, timeStyle: "medium", hourCycle: "h23" });
}

export function showLocalTimes(within = document) {
  for (const time of within.querySelectorAll("time[data-local-time]")) {
    time.textContent = clockTime(time.dateTime, true);
    time.title = time.dateTime;
  }
}

/** Lists the keys that do something on this page. */
function showHelp() {
  const help = document.getElementById("help");
  for (const entry of help.querySelectorAll("[data-keys]")) entry.hidden = !hasKey(entry.dataset.keys);
  help.showModal();
}

// What was opened before htmx listened to it told nobody.
window.htmx?.onLoad((content) => {
  for (const each of content.querySelectorAll("details[open][hx-trigger^=toggle]")) htmx.trigger(each, "toggle");
});

document.addEventListener("click", (event) => {
  const action = event.target.closest("[data-action]")?.dataset.action;
  if (action === "theme") nextTheme();
  if (action === "help") showHelp();
  if (action === "close") event.target.closest("dialog").close();
  if (event.target.matches("dialog.sheet")) event.target.close(); // the backdrop
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && document.querySelector("details.menu[open]");
  if (!menu) return;
  menu.open = false;
  menu.querySelector("summary").focus();
});

onKey("?", showHelp);
onKey("g r", () => location.assign(urls.home));
onKey("g s", () => location.assign(urls.suites));
onKey("g c", () => location.assign(urls.catalog));
onKey("g e", () => location.assign(urls.environments));

showTheme();
showLocalTimes();
