// Dark or light: the system's preference until the user presses the switch, then the stored choice.

const KEY = "plimsoll.theme";
const SYSTEM_DARK = matchMedia("(prefers-color-scheme: dark)");

let chosen = stored();
SYSTEM_DARK.addEventListener("change", () => chosen === null && show(SYSTEM_DARK.matches ? "dark" : "light"));

export function switchTheme() {
  chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try {
    localStorage.setItem(KEY, chosen);
  } catch {
    // Without storage the choice lasts as long as the page.
  }
  show(chosen);
}

/** Registers a listener: canvases must be repainted when the theme changes. @param {() => void} listener */
export function onThemeChange(listener) {
  addEventListener("themechange", listener);
}

function show(/** @type {"dark" | "light"} */ theme) {
  document.documentElement.dataset.theme = theme;
  dispatchEvent(new Event("themechange"));
}

function stored() {
  try {
    const theme = localStorage.getItem(KEY);
    return theme === "dark" || theme === "light" ? theme : null;
  } catch {
    return null;
  }
}

/** The value of a custom property of the theme, such as `--spot`. @param {string} name */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
