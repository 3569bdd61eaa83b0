// Replicas on spot and on-demand, current and target.
import { h } from "./dom.js";

/**
 * @param {import("./snapshot.js").Split | null} current
 * @param {import("./snapshot.js").Split | null} target
 */
export function shares(current, target) {
  if (!current) return h("span", { class: "muted" }, "not placed by class");
  const all = Math.max(current.spot + current.onDemand, target ? target.spot + target.onDemand : 0, 1);
  const words = (/** @type {number} */ now, /** @type {number | undefined} */ wanted) => (wanted === undefined ? `${now}` : `${now}/${wanted}`);
  const even = !target || (target.spot === current.spot && target.onDemand === current.onDemand);
  const spoken = target
    ? `${current.spot} of ${target.spot} on spot, ${current.onDemand} of ${target.onDemand} on on-demand`
    : `${current.spot} on spot, ${current.onDemand} on on-demand`;
  return h(
    "div",
    { class: even ? "shares" : "shares uneven", title: spoken },
    h("span", { class: "unseen" }, spoken),
    h(
      "span",
      { class: "bar", "aria-hidden": "true", vars: { "--spot-now": current.spot / all, "--on-demand-now": current.onDemand / all, "--spot-wanted": (target?.spot ?? 0) / all } },
      h("span", { class: "spot" }),
      h("span", { class: "on-demand" }),
      target && h("span", { class: "wanted" }),
    ),
    h(
      "span",
      { class: "figures", "aria-hidden": "true" },
      h("span", { class: "spot" }, `● ${words(current.spot, target?.spot)}`),
      h("span", { class: "on-demand" }, `■ ${words(current.onDemand, target?.onDemand)}`),
    ),
  );
}
