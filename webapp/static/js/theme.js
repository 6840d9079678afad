// Loaded before the page is drawn, so that a chosen theme never flashes.
(() => {
  const root = document.documentElement;
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  const isDark = () =>
    (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-theme-toggle]");
    if (!button) return;
    root.dataset.theme = isDark() ? "light" : "dark";
    localStorage.setItem("theme", root.dataset.theme);
    document.dispatchEvent(new CustomEvent("themechange"));
  });
  // Paper is white.
  window.addEventListener("beforeprint", () => {
    root.dataset.theme = "light";
    document.dispatchEvent(new CustomEvent("themechange"));
  });
  window.addEventListener("afterprint", () => {
    const own = localStorage.getItem("theme");
    if (own) root.dataset.theme = own;
    else delete root.dataset.theme;
    document.dispatchEvent(new CustomEvent("themechange"));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    document.dispatchEvent(new CustomEvent("themechange"));
  });
})();
