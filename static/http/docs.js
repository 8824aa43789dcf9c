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
})();
