// Buttons that copy the text of the element which `data-copy` names (`previous`: the one before the button).
// They are hidden until this runs: without scripts they could do nothing.

const SHOWN_MS = 1500;

function source(button) {
  return button.dataset.copy === "previous"
    ? button.previousElementSibling
    : document.getElementById(button.dataset.copy);
}

function select(element) {
  const range = document.createRange();
  range.selectNodeContents(element);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
}

/** Copy; where the browser refuses (a page without https), leave the text selected. */
async function copy(button) {
  const element = source(button);
  const label = button.querySelector("[data-copy-label]") ?? button;
  const before = label.textContent;
  try {
    await navigator.clipboard.writeText(element.textContent.trim());
    label.textContent = "Copied";
  } catch {
    select(element);
    label.textContent = "Selected";
  }
  setTimeout(() => { label.textContent = before; }, SHOWN_MS);
}

function show() {
  for (const button of document.querySelectorAll("[data-copy][hidden]")) button.hidden = false;
}

document.addEventListener("htmx:afterSettle", show);
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button);
});
show();
