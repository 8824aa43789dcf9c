// The fields of a backend are those of its type: another choice shows others. What is hidden is sent as it was.

document.addEventListener("change", (event) => {
  if (!event.target.matches("[data-decides]")) return;
  for (const field of event.target.closest("details").querySelectorAll("[data-types]")) {
    field.hidden = !field.dataset.types.split(" ").includes(event.target.value);
  }
});

/** A fault links to its field, which may be in a folded entry. */
document.addEventListener("click", (event) => {
  const link = event.target.closest(".alert a[href^='#']");
  const field = link && document.getElementById(link.hash.slice(1));
  if (!field) return;
  event.preventDefault();
  for (let entry = field.closest("details"); entry; entry = entry.parentElement.closest("details")) entry.open = true;
  field.focus();
});
