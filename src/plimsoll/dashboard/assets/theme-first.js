// Not a module: it runs before the first paint, so that a remembered theme does not flash in.
(() => {
  try {
    const theme = localStorage.getItem("plimsoll.theme");
    if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
  } catch {
    // Storage may be forbidden: then the system's preference holds.
  }
})();
