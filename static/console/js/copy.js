// Buttons that copy the text of the element which `data-copy` names (`previous`: the one before the button).
// Those with `data-download` save that text as the file that `data-file` names.
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

function download(button) {
  const text = document.getElementById(button.dataset.download).textContent.trim();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([`${text}\n`], { type: "text/plain" }));
  link.download = button.dataset.file;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href)); // the download has begun by then
}

function show() {
  for (const button of document.querySelectorAll("[data-copy][hidden], [data-download][hidden]")) {
    button.hidden = false;
  }
}

document.addEventListener("htmx:afterSettle", show);
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button);
  const saved = event.target.closest("[data-download]");
  if (saved) download(saved);
});
show();
