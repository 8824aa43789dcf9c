// Previews of artifacts: fetched when somebody opens one, and opened again when the list is newer.

const opened = new Map(); // address → what it answered
const panel = () => document.getElementById("run-artifacts");

async function preview(address) {
  if (!opened.get(address)) {
    const response = await fetch(address, { headers: { "HX-Request": "true" } }).catch(() => null);
    if (!response?.ok) return "<p class=\"quiet-text\">The preview could not be read; try again.</p>";
    if (opened.has(address)) opened.set(address, await response.text());
  }
  return opened.get(address);
}

async function show(button) {
  const row = document.getElementById(button.getAttribute("aria-controls"));
  button.setAttribute("aria-expanded", "true");
  row.hidden = false;
  const html = await preview(button.dataset.preview);
  if (html) row.firstElementChild.innerHTML = html; // rendered by the server, which escapes the text
}

function hide(button) {
  opened.delete(button.dataset.preview);
  button.setAttribute("aria-expanded", "false");
  document.getElementById(button.getAttribute("aria-controls")).hidden = true;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("#run-artifacts [data-preview]");
  if (!button) return;
  if (button.getAttribute("aria-expanded") === "true") return hide(button);
  opened.set(button.dataset.preview, "");
  show(button);
});

function showCount() {
  const { count, missing } = panel().dataset;
  const words = [Number(count) ? count : "", Number(missing) ? `${missing} missing` : ""].filter(Boolean).join(", ");
  document.getElementById("tab-artifacts").textContent = words ? `Artifacts (${words})` : "Artifacts";
}

document.body.addEventListener("htmx:afterRequest", (event) => {
  if (!event.detail.pathInfo.requestPath.endsWith("/panels") || !event.detail.successful) return;
  showCount();
  for (const button of panel().querySelectorAll("[data-preview]")) if (opened.has(button.dataset.preview)) show(button);
});

showCount();
