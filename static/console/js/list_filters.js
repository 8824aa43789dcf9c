// The filters of a list, a form whose fields are the address: fields without a value stay out of it,
// a choice applies at once, and after Back the fields are those of the list again.

const filters = document.querySelector("[data-filters]");

filters?.addEventListener("submit", () => {
  for (const field of filters.elements) field.disabled = field.name !== "" && field.value.trim() === "";
});
filters?.addEventListener("change", (event) => {
  if (event.target instanceof HTMLSelectElement) filters.requestSubmit();
});
if (filters) {
  addEventListener("pageshow", (event) => {
    for (const field of filters.elements) field.disabled = false;
    if (event.persisted) filters.reset();
  });
}
