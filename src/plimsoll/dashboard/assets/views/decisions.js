// Actions that were done, refused or delayed, newest first, with the reason.
import { arrangeChildren, fill, h, nameOf, s } from "../dom.js";
import { moment } from "../moments.js";
import { choice, chip, empty, link, matcher } from "../parts.js";
import { count, counted } from "../words.js";

/** @typedef {import("../snapshot.js").Decision} Decision */

const PAGE = 100;
const BARS = 60;
/** By the first word of the result: a sign, so that colour is never all there is, and how grave it is. */
const RESULTS = {
  done: ["✓", "good"],
  would: ["◌", "move"],
  settled: ["•", ""],
  held: ["‖", "warn"],
  refused: ["⊘", "warn"],
  conflict: ["↻", "warn"],
  gone: ["∅", ""],
  unknown: ["?", "warn"],
  invalid: ["✗", "bad"],
  failed: ["✗", "bad"],
};
const resultOf = (/** @type {Decision} */ one) => one.result.split(/[ :]/, 1)[0];
const KEPT = {
  all: () => true,
  done: (one) => ["done", "would"].includes(resultOf(one)),
  held: (one) => ["held", "refused", "conflict"].includes(resultOf(one)),
  evictions: (one) => one.action.toLowerCase() === "evict",
  failed: (one) => ["failed", "invalid", "unknown"].includes(resultOf(one)),
};

/** @type {import("./all.js").ViewEntry} */
export const decisionsView = {
  name: "decisions",
  title: "Decisions",
  key: "d",
  enter(host, snapshot) {
    let matches = matcher("");
    let kept = KEPT.all;
    let controller = "";
    let limit = PAGE;
    /** Items are made once: a decision never changes. @type {WeakMap<Decision, HTMLElement>} */
    const items = new WeakMap();
    const results = choice("Which results", [["all", "All"], ["done", "Done"], ["evictions", "Evictions"], ["held", "Held up"], ["failed", "Failed"]], "all", (value) => {
      kept = KEPT[value];
      draw();
    });
    const select = /** @type {HTMLSelectElement} */ (h("select", { "aria-label": "Which controller", onchange: () => {
      controller = select.value;
      draw();
    } }));
    const chart = h("div", { class: "histogram" });
    const list = h("ol", { class: "timeline" });
    const blank = h("div", {});
    const note = h("p", { class: "note", "aria-live": "polite" });
    const more = h("button", { type: "button", onclick: () => {
      limit += 2 * PAGE;
      draw();
    } }, "Show more");
    host.append(h("div", { class: "bar-above" }, h("h1", {}, "Decisions"), results, select), chart, list, blank, h("div", { class: "more" }, note, more));

    function draw() {
      const names = ["", ...new Set(snapshot.decisions.map((one) => one.controller))].sort();
      if (names.join() !== [...select.options].map((option) => option.value).join()) {
        fill(select, names.map((name) => h("option", { value: name, selected: name === controller }, name || "all controllers")));
      }
      const found = snapshot.decisions.filter((one) => kept(one) && (!controller || one.controller === controller) && matches(one.object, one.action, one.why, one.result, one.controller));
      const shown = found.slice(-limit).reverse();
      const wanted = shown.map((one) => {
        const item = items.get(one) ?? tell(one);
        items.set(one, item);
        return item;
      });
      arrangeChildren(list, wanted);
      fill(chart, found.length > 1 && histogram(found));
      fill(note, found.length > 0 && (found.length > limit ? `the newest ${count(limit)} of ${count(found.length)} shown` : `${counted(found.length, "decision")} shown`));
      more.hidden = found.length <= limit;
      const none = snapshot.decisions.length > 0 ? empty("No decision matches", "Clear the filter (Esc), or choose “All”.") : empty("Nothing was decided yet", "Whatever the operator does, refuses or holds up appears here with its reason. It keeps the last 500; the audit trail keeps all.");
      fill(blank, found.length === 0 && none);
    }

    return {
      update: (changes) => (changes.whole || changes.decisions > 0) && draw(),
      filter(text) {
        matches = matcher(text);
        draw();
      },
      leave() {},
    };
  },
};

function tell(/** @type {Decision} */ one) {
  const [sign, tone] = RESULTS[resultOf(one)] ?? ["•", ""];
  return h(
    "li",
    { class: tone },
    h("span", { class: "sign", "aria-hidden": "true" }, sign),
    h("div", { class: "when" }, moment(one.at)),
    h("div", { class: "what" }, h("p", {}, h("strong", {}, one.action), " ", subject(one.object)), h("p", {}, one.why)),
    h("div", { class: "who" }, chip(one.controller), h("span", { class: `result ${tone}` }, one.result)),
  );
}

/** Objects that have details of their own become links. @param {string} object */
function subject(object) {
  const [kind, ...rest] = object.split("/");
  const name = rest.join("/");
  if (kind === "Node") return link(`node/${name.replace(/^\//, "")}`, nameOf(object));
  if (kind === "Pod") return link(`pod/${name}`, nameOf(object));
  if (kind === "NodeGroup") return link(`group/${name}`, nameOf(object));
  if (["Deployment", "StatefulSet", "ReplicaSet"].includes(kind)) return link(`workload/${object}`, nameOf(object));
  return nameOf(object);
}

/** How many over time; at the foot of each bar those that failed, above them those that were held up. @param {Decision[]} decisions */
function histogram(decisions) {
  const times = decisions.map((one) => new Date(one.at).getTime());
  const first = Math.min(...times);
  const last = Math.max(...times, first + 1);
  const bars = Array.from({ length: BARS }, () => ({ all: 0, warn: 0, bad: 0 }));
  decisions.forEach((one, index) => {
    const bar = bars[Math.min(BARS - 1, Math.floor(((times[index] - first) / (last - first)) * BARS))];
    bar.all += 1;
    const tone = RESULTS[resultOf(one)]?.[1];
    if (tone === "bad" || tone === "warn") bar.warn += 1;
    if (tone === "bad") bar.bad += 1;
  });
  const highest = Math.max(...bars.map((bar) => bar.all));
  const rect = (className, index, value) => value > 0 && s("rect", { class: className, x: index * 10 + 2, y: 40 - (value / highest) * 36, width: 6, height: (value / highest) * 36 });
  return [
    s("svg", { viewBox: `0 0 ${BARS * 10} 40`, preserveAspectRatio: "none", role: "img", "aria-label": `${counted(decisions.length, "decision")} over time; at most ${highest} at once` }, bars.map((bar, index) => ["all", "warn", "bad"].map((tone) => rect(tone, index, bar[tone]))).flat()),
    h(
      "p",
      { class: "muted" },
      moment(new Date(first)),
      h("span", { class: "key" }, h("span", {}, "done, settled"), h("span", { class: "warn" }, "held up, refused"), h("span", { class: "bad" }, "failed, invalid")),
      moment(new Date(last)),
    ),
  ];
}
