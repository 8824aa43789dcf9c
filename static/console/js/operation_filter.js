// The filter above the operations of a large surface: every word must be in the line of the operation.
// It is hidden until this runs: without scripts it could do nothing.

function filter(field) {
  const part = field.closest("[data-operation-filter]");
  const operations = [...part.nextElementSibling.querySelectorAll(":scope > .operation")];
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const operation of operations) {
    const text = operation.querySelector("summary").textContent.toLowerCase();
    operation.hidden = !words.every((word) => text.includes(word));
    if (!operation.hidden) shown += 1;
  }
  part.querySelector("[role=status]").textContent = words.length ? `${shown} of ${operations.length}` : "";
}

function show() {
  for (const part of document.querySelectorAll("[data-operation-filter][hidden]")) part.hidden = false;
}

document.addEventListener("htmx:afterSettle", show);
document.addEventListener("input", (event) => {
  if (event.target.matches("[data-operation-filter] input")) filter(event.target);
});
