// Dark or light: what the system prefers, until someone presses the switch; then what they chose, here and next time.

const SYSTEM_DARK = matchMedia("(prefers-color-scheme: dark)");

/** @returns {"dark" | "light"} */
export function currentTheme() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen === "dark" || chosen === "light") return chosen;
  return SYSTEM_DARK.matches ? "dark" : "light";
}

export function switchTheme() {
  const theme = currentTheme() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("plimsoll.theme", theme);
  } catch {
    // Without storage the choice lasts as long as the page.
  }
  dispatchEvent(new Event("themechange"));
}

/** Canvases hold colours of their own and must be painted again. @param {() => void} listener */
export function onThemeChange(listener) {
  const stop = new AbortController();
  addEventListener("themechange", listener, { signal: stop.signal });
  SYSTEM_DARK.addEventListener("change", listener, { signal: stop.signal });
  return () => stop.abort();
}

/** The value of a custom property of the theme, such as `--spot`. @param {string} name */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
