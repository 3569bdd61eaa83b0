// Node groups: current, desired and allowed sizes, the reason, and the history of the last day.
import { arrangeChildren, fill, h } from "../dom.js";
import { sizes } from "../describe.js";
import { GroupChart } from "../chart.js";
import { blockerList, chip, choice, classChip, empty, link, matcher } from "../parts.js";
import { byName, count, price } from "../words.js";

const HOUR_SECONDS = 3600;
const PRICE = "Price per hour of the group's nodes, from the provider's offerings and in its currency";

/** @type {import("./all.js").ViewEntry} */
export const groupsView = {
  name: "groups",
  title: "Node groups",
  key: "g",
  enter(host, snapshot) {
    let matches = matcher("");
    let seconds = 6 * HOUR_SECONDS;
    /** @type {Map<string, {card: HTMLElement, facts: HTMLElement, chart: GroupChart}>} */
    const cards = new Map();
    const grid = h("div", { class: "cards" });
    const blank = h("div", {});
    const spans = /** @type {[string, string][]} */ ([["1", "1 h"], ["6", "6 h"], ["24", "24 h"]]);
    const range = choice("How far back", spans, "6", (value) => {
      seconds = Number(value) * HOUR_SECONDS;
      draw(null);
    });
    host.append(h("div", { class: "bar-above" }, h("h1", {}, "Node groups"), range), grid, blank);
    // Charts are as wide as their cards, whose width only the browser knows.
    const watcher = new ResizeObserver(() => cards.forEach(({ chart }) => chart.fit()));
    watcher.observe(grid);

    /** @param {Set<string> | null} changed null: all of them */
    function draw(changed) {
      const names = [...snapshot.groups.keys()].filter((name) => keep(name)).sort(byName);
      const fresh = new Set(names.filter((name) => !cards.has(name)));
      for (const [name, { chart }] of cards) {
        if (names.includes(name)) continue;
        chart.leave();
        cards.delete(name);
      }
      for (const name of fresh) cards.set(name, makeCard(name, snapshot.groups.get(name)));
      // Insert cards before filling them: a chart takes the width of its card.
      arrangeChildren(grid, names.map((name) => cards.get(name).card));
      for (const name of names) {
        if (changed !== null && !changed.has(name) && !fresh.has(name)) continue;
        const { facts, chart } = cards.get(name);
        fill(facts, tell(snapshot.groups.get(name)));
        chart.show(snapshot.groups.get(name).history, seconds);
      }
      const none = snapshot.groups.size > 0 ? empty("No node group matches", "Clear the filter (Esc).") : noGroups(snapshot);
      fill(blank, names.length === 0 && none);
    }

    function keep(/** @type {string} */ name) {
      const group = snapshot.groups.get(name);
      return matches(name, group.class ?? "", group.why, ...(group.offerings ?? []));
    }

    return {
      update: (changes) => (changes.whole || changes.groups.size > 0) && draw(changes.whole ? null : changes.groups),
      filter(text) {
        matches = matcher(text);
        draw(new Set());
      },
      repaint: () => cards.forEach(({ chart }) => chart.repaint()),
      leave() {
        watcher.disconnect();
        cards.forEach(({ chart }) => chart.leave());
      },
    };
  },
};

function makeCard(/** @type {string} */ name, /** @type {import("../snapshot.js").Group} */ group) {
  const chart = new GroupChart(`History of ${name}`);
  const facts = h("div", { class: "facts" });
  const heading = h("header", {}, h("h2", {}, link(`group/${name}`)), group.class && classChip(group.class));
  return { card: h("article", { class: "card", data: { name } }, heading, facts, chart.element), facts, chart };
}

function tell(/** @type {import("../snapshot.js").Group} */ group) {
  return [
    h("p", { class: "figures" }, figure(group.current, "now"), figure(group.ready, "ready"), figure(group.desired, "wanted"), cost(group), span(group)),
    h("p", { class: "sentence" }, group.why),
    group.blockers.length > 0 && blockerList(group.blockers),
    group.offerings?.length > 0 && h("p", { class: "chips" }, group.offerings.map((one) => chip(one))),
  ];
}

function figure(/** @type {number | null} */ value, /** @type {string} */ words) {
  return h("span", { class: "figure" }, h("strong", {}, value === null ? "–" : count(value)), h("span", { class: "muted" }, words));
}

/** The current price of its nodes. */
function cost(/** @type {import("../snapshot.js").Group} */ group) {
  if (typeof group.pricePerHour !== "number") return null;
  return h("span", { class: "figure", title: PRICE }, h("strong", {}, price(group.pricePerHour)), h("span", { class: "muted" }, "an hour"));
}

/** The current size between minimum and maximum. */
function span(/** @type {import("../snapshot.js").Group} */ group) {
  if (group.min === null || group.max === null) return null;
  const place = (/** @type {number} */ value) => (group.max > group.min ? Math.min(1, Math.max(0, (value - group.min) / (group.max - group.min))) : 1);
  return h(
    "span",
    { class: "span", title: sizes(group), vars: { "--now": place(group.current), "--wanted": place(group.desired ?? group.current) } },
    h("span", { class: "muted" }, count(group.min)),
    h("span", { class: "rail", "aria-hidden": "true" }, h("span", { class: "now" }), h("span", { class: "wanted" })),
    h("span", { class: "muted" }, count(group.max)),
  );
}

function noGroups(/** @type {import("../snapshot.js").Snapshot} */ snapshot) {
  if (snapshot.known && !snapshot.runs("nodegroups")) {
    return empty("Node groups are not managed here", h("span", {}, "Name the controller ", h("code", {}, "nodegroups"), " in ", h("code", {}, "controllers.enabled"), " of the operator's configuration."));
  }
  return empty("No node group yet", h("span", {}, "Create a ", h("code", {}, "NodeGroup"), "; docs/node-groups.md has an example to start from."));
}
