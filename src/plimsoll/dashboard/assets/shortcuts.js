// The keyboard: single letters outside of text fields, and a list of them behind `?`.
import { h, fill } from "./dom.js";
import { addressOf, setParameters } from "./route.js";
import { switchTheme } from "./theme.js";
import { VIEWS } from "./views/all.js";

const ELSEWHERE = [
  ["/", "filter"],
  ["Esc", "close the details, or clear the filter"],
  ["t", "dark or light"],
  ["?", "this list"],
];
const IN_THE_MAP = [
  ["← → ↑ ↓", "move between nodes"],
  ["Home End", "first node, last node"],
  ["[ ]", "move between the pods of a node"],
  ["Enter", "why is it as it is?"],
  ["+ − 0", "closer, further, everything"],
];

/**
 * @param {{filter: HTMLInputElement, help: HTMLElement, dialog: HTMLElement, detail: import("./detail.js").Detail}} page
 */
export function listenForShortcuts({ filter, help, dialog, detail }) {
  const overlay = /** @type {HTMLDialogElement} */ (dialog);
  fill(
    overlay,
    h("h2", { id: "keys-title" }, "Keyboard"),
    h("div", { class: "keys" }, list("Views", VIEWS.map((view) => [view.key, view.title])), list("In the map", IN_THE_MAP), list("Everywhere", ELSEWHERE)),
    h("form", { method: "dialog" }, h("button", { type: "submit" }, "Close")),
  );
  overlay.addEventListener("click", (event) => event.target === overlay && overlay.close());
  help.addEventListener("click", () => overlay.showModal());

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || overlay.open) return;
    if (event.key === "Escape") {
      if (detail.open) detail.close();
      else {
        filter.value = "";
        setParameters({ q: null }, { replace: true });
        filter.blur();
      }
      return;
    }
    if (event.target instanceof Element && event.target.closest("input, select, textarea")) return;
    const view = VIEWS.find((one) => one.key === event.key);
    if (view) location.hash = addressOf(view.name);
    else if (event.key === "/") filter.focus();
    else if (event.key === "t") switchTheme();
    else if (event.key === "?") overlay.showModal();
    else return;
    event.preventDefault();
  });
}

function list(title, entries) {
  return h(
    "section",
    {},
    h("h3", {}, title),
    h("dl", {}, entries.map(([keys, words]) => h("div", {}, h("dt", {}, keys.split(" ").map((key) => h("kbd", {}, key))), h("dd", {}, words)))),
  );
}
