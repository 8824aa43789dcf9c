// The colours of the API's page: those that the reader chose on the other pages, else the system's.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const paint = () => {
    const chosen = localStorage.getItem("partita-theme");
    const isDark = chosen === "dark" || (chosen !== "light" && dark.matches);
    document.documentElement.classList.toggle("dark-mode", isDark); // Swagger UI's own name for it
  };
  paint(); // in the head: before anything is drawn
  dark.addEventListener("change", paint);
  addEventListener("storage", paint); // chosen in another tab
  // What Swagger UI leaves out for those who use a keyboard or a screen reader.
  new MutationObserver(() => {
    for (const sample of document.querySelectorAll("pre.microlight:not([tabindex])")) sample.tabIndex = 0;
    for (const choice of document.querySelectorAll("select:not([aria-label], [id])")) {
      choice.setAttribute("aria-label", "Media type");
    }
  }).observe(document.documentElement, { childList: true, subtree: true });
})();
