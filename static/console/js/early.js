// Runs before the page is painted: the colours that the reader chose, else those of the system.
(() => {
  const chosen = localStorage.getItem("partita-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();

// A press that comes before the page's other scripts is kept until they are there.
(() => {
  const early = [];
  const keep = (event) => {
    const button = event.target.closest("[data-action]");
    if (!button) return;
    event.stopImmediatePropagation();
    event.preventDefault();
    early.push(button);
  };
  document.addEventListener("click", keep, true);
  document.addEventListener("DOMContentLoaded", () => {
    document.removeEventListener("click", keep, true);
    for (const button of early) button.click();
  });
})();
