// Not a module: it sets the stored or the system's theme before the first paint, so that no other theme flashes.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("plimsoll.theme");
  } catch {
    // Storage may be denied: then the system's preference applies.
  }
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = chosen === "dark" || chosen === "light" ? chosen : system;
})();
