// The editor of a profile: line numbers, and the way from a fault to its place. Saving needs neither.

const text = document.getElementById("yaml");
const gutter = document.querySelector("[data-gutter]");

function number() {
  const lines = text.value.split("\n").length;
  if (gutter.dataset.lines !== String(lines)) {
    gutter.dataset.lines = String(lines);
    gutter.textContent = Array.from({ length: lines }, (_, index) => index + 1).join("\n");
  }
  gutter.scrollTop = text.scrollTop;
}

function go(line, column) {
  const lines = text.value.split("\n");
  const before = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
  const start = before + Math.min(column - 1, (lines[line - 1] ?? "").length);
  text.focus();
  text.setSelectionRange(start, before + (lines[line - 1] ?? "").length);
  text.scrollTop = Math.max(0, (line - 4) * parseFloat(getComputedStyle(text).lineHeight));
}

if (text && gutter) {
  number();
  text.addEventListener("input", number);
  text.addEventListener("scroll", number, { passive: true });
  document.addEventListener("click", (event) => {
    const place = event.target.closest("[data-line]");
    if (place) {
      event.preventDefault();
      go(Number(place.dataset.line), Number(place.dataset.column));
    }
  });
}
