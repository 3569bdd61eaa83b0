// Not a module: it runs before the first paint, so that no other theme flashes in. What somebody chose, or else the system's.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("plimsoll.theme");
  } catch {
    // Storage may be forbidden: then the system's preference holds.
  }
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = chosen === "dark" || chosen === "light" ? chosen : system;
})();
