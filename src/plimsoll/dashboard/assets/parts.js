// Small elements that several views use: links to details, chips, bars, blockers, empty states.
import { h, nameOf, s } from "./dom.js";
import { moment } from "./moments.js";
import { addressOf, readRoute } from "./route.js";
import { visible } from "./words.js";

/** A link that opens the details of an object and keeps the view. @param {string} subject @param {Node | string} [content] */
export function link(subject, content) {
  const open = (/** @type {Event} */ event) => {
    const { view, parameters } = readRoute();
    event.currentTarget.href = addressOf(view, { ...Object.fromEntries(parameters), show: subject });
  };
  const name = subject.split("/").slice(1).join("/");
  return h("a", { class: "to", href: addressOf("cluster", { show: subject }), onclick: open }, content ?? nameOf(name));
}

/** A capacity class, marked by a shape as well as a colour, for users who cannot tell the colours apart. */
export function classChip(/** @type {string} */ capacity) {
  const spot = capacity === "spot";
  const shape = spot ? s("circle", { cx: 5, cy: 5, r: 4 }) : s("rect", { x: 1, y: 1, width: 8, height: 8 });
  return h("span", { class: `class ${spot ? "spot" : "on-demand"}` }, s("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, shape), capacity);
}

/** @param {string} words @param {string} [tone] good, warn, bad */
export function chip(words, tone = "") {
  return h("span", { class: `chip ${tone}` }, words);
}

/** A utilization bar. @param {number} part @param {number} whole @param {string} words */
export function meter(part, whole, words) {
  const share = whole > 0 ? Math.min(1, part / whole) : 0;
  return h("span", { class: "meter", title: words }, h("span", { class: "track" }, h("span", { class: share > 0.9 ? "full" : "", vars: { "--share": share } })), h("span", { class: "words" }, words));
}

/** @param {import("./snapshot.js").Blocker[]} blockers */
export function blockerList(blockers) {
  return h(
    "ul",
    { class: "blockers" },
    blockers.map((one) => h("li", {}, chip(one.code, "warn"), " ", one.words, one.until && [" until ", moment(one.until)])),
  );
}

/** An empty state with hints. @param {string} title @param {...any} hints */
export function empty(title, ...hints) {
  return h(
    "div",
    { class: "empty" },
    s("svg", { viewBox: "0 0 32 32", "aria-hidden": "true" }, s("circle", { cx: 16, cy: 16, r: 9 }), s("path", { d: "M2 16h28" })),
    h("h2", {}, title),
    hints.map((hint) => h("p", {}, hint)),
  );
}

/** A group of radio buttons. @param {string} label @param {[value: string, words: string][]} choices @param {string} chosen @param {(value: string) => void} onChoice */
export function choice(label, choices, chosen, onChoice) {
  const buttons = choices.map(([value, words]) =>
    h("button", { type: "button", "aria-pressed": String(value === chosen), data: { value }, onclick: () => press(value) }, words),
  );
  const press = (/** @type {string} */ value) => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.value === value));
    onChoice(value);
  };
  return h("div", { class: "choice", role: "group", "aria-label": label }, buttons);
}

/** Matches if every word of the filter occurs in one of the texts. @param {string} filter @returns {(...texts: string[]) => boolean} */
export function matcher(filter) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  return (...texts) => {
    const text = visible(texts.join("\n")).toLowerCase();
    return words.every((word) => text.includes(word));
  };
}
