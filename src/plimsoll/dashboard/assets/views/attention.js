// The first view: what needs attention, in order of harm.
import { attention, attentionCount } from "../attention.js";
import { h, nameOf } from "../dom.js";
import { moment } from "../moments.js";
import { chip, empty, link, matcher } from "../parts.js";
import { Records } from "../records.js";

/** @typedef {import("../attention.js").Attention} Attention */

/** @type {import("./all.js").ViewEntry} */
export const attentionView = {
  name: "attention",
  title: "Attention",
  key: "h",
  badge: attentionCount,
  enter(host, snapshot) {
    let matches = matcher("");
    const records = new Records({
      label: "What needs attention",
      sortBy: "harm",
      columns: [
        { key: "harm", title: "What", sort: (_, one) => one.rank, cell: (_, one) => chip(one.kind, one.tone) },
        { key: "name", title: "Object", class: "wide", sort: (_, one) => one.name, cell: (_, one) => title(one) },
        { key: "why", title: "Why", class: "wide", cell: (_, one) => reasons(one) },
        { key: "todo", title: "What to do", class: "wide", cell: (_, one) => h("div", { class: "reasons" }, one.todo) },
      ],
      keep: (_, one) => matches(one.name, one.kind, one.what, one.todo),
      nothing: (filtered) =>
        filtered
          ? empty("Nothing matches", "Clear the filter (Esc).")
          : empty("Nothing needs attention", "No workload has drifted, nothing fails, and no pod is unschedulable."),
    });
    host.append(h("div", { class: "bar-above" }, h("h1", {}, "Attention"), h("span", { class: "muted" }, "in order of harm")), records.element);
    const show = () => records.show(new Map(attention(snapshot).map((one, index) => [`${one.kind} ${one.name} ${index}`, one])));
    return {
      update: (changes) => (changes.whole || changes.workloads.size + changes.pending.size + changes.nodes.size + changes.allocations.size + changes.decisions > 0) && show(),
      filter(text) {
        matches = matcher(text);
        show();
      },
      leave() {},
    };
  },
};

function title(/** @type {Attention} */ one) {
  const [kind, ...rest] = one.name.split("/");
  const short = nameOf(rest.join("/").replace(/^\//, ""));
  return h("div", { class: "titled" }, one.subject ? link(one.subject, short) : short, h("span", { class: "muted" }, kind));
}

function reasons(/** @type {Attention} */ one) {
  return h("div", { class: "reasons" }, h("span", {}, one.what), one.since && h("span", { class: "muted" }, "since ", moment(one.since)), one.until && h("span", { class: "muted" }, "until ", moment(one.until)));
}
