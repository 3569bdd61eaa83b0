// Renders the reply of `plimsoll explain -o json`: the reason first, then every field with a value.
import { h, nameOf } from "./dom.js";
import { moment } from "./moments.js";

// Shown in the heading, or rendered separately.
const SHOWN_ELSEWHERE = new Set(["kind", "namespace", "name", "asOf", "reason", "blockers", "guards", "errors", "steps", "managed"]);

/** @param {any} answer */
export function showAnswer(answer) {
  return h(
    "div",
    {},
    answer.reason && h("p", { class: "sentence" }, answer.reason.message, answer.reason.code && h("code", {}, answer.reason.code)),
    answer.steps?.length > 0 && block("Would do now", h("ol", {}, answer.steps.map((step) => h("li", {}, step)))),
    answer.errors?.length > 0 && block("Errors", h("ul", { class: "bad" }, answer.errors.map((error) => h("li", {}, error)))),
    answer.blockers?.length > 0 && block("Blocked by", h("ul", {}, answer.blockers.map((one) => h("li", {}, one.message, one.until && [" until ", moment(one.until)])))),
    answer.guards?.length > 0 && block("Guards", h("ul", { class: "guards" }, answer.guards.map(guard))),
    fields(Object.entries(answer).filter(([key]) => !SHOWN_ELSEWHERE.has(key))),
    answer.asOf && h("p", { class: "muted" }, "as of ", moment(answer.asOf)),
  );
}

function guard(one) {
  return h(
    "li",
    { class: one.open ? "open" : "shut" },
    h("span", { class: "mark" }, one.open ? "✓" : "✗"),
    h("span", {}, one.guard, one.message && h("span", { class: "muted" }, ` ${one.message}`), one.until && [" until ", moment(one.until)]),
  );
}

function block(title, content) {
  return h("section", {}, h("h4", {}, title), content);
}

function fields(entries) {
  const told = entries.filter(([, value]) => value !== null && value !== "" && !(Array.isArray(value) && value.length === 0));
  return h("dl", { class: "fields" }, told.map(([key, value]) => h("div", {}, h("dt", {}, words(key)), h("dd", {}, shown(value)))));
}

function shown(value) {
  if (Array.isArray(value)) {
    const records = value.every((one) => one !== null && typeof one === "object" && !Array.isArray(one));
    return records ? table(value) : h("ul", {}, value.map((one) => h("li", {}, shown(one))));
  }
  if (value !== null && typeof value === "object") {
    return fields(Object.entries(value));
  }
  return nameOf(value === true ? "yes" : value === false ? "no" : String(value));
}

function table(records) {
  const keys = [...new Set(records.flatMap((record) => Object.keys(record)))];
  if (keys.some((key) => records.some((record) => typeof record[key] === "object" && record[key] !== null))) {
    return h("div", {}, records.map((record) => fields(Object.entries(record))));
  }
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "group", "aria-label": "table" },
    h(
      "table",
      { class: "plain" },
      h("thead", {}, h("tr", {}, keys.map((key) => h("th", { scope: "col" }, words(key))))),
      h("tbody", {}, records.map((record) => h("tr", {}, keys.map((key) => h("td", {}, shown(record[key] ?? "")))))),
    ),
  );
}

/** `onDemand` → `on demand`. @param {string} key */
function words(key) {
  return key.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}
