// The footer: which operator process serves the page, whether it leads, and how old the snapshot is.
import { fill, h, nameOf } from "./dom.js";
import { moment } from "./moments.js";

/** @param {HTMLElement} host @param {import("./snapshot.js").Snapshot} snapshot */
export function showOperator(host, snapshot) {
  const state = document.body.dataset.connection ?? "connecting";
  const { operator } = snapshot;
  fill(
    host,
    h("span", { class: `dot ${state}`, "aria-hidden": "true" }),
    h("span", {}, { live: "live", broken: "not live", connecting: "connecting" }[state]),
    snapshot.known && [
      h("span", { class: "muted" }, "last change "),
      moment(snapshot.at),
      h("span", { class: "spacer" }),
      operator.readOnly && h("span", { class: "chip warn", title: "It decides but writes nothing" }, "read-only"),
      h("span", { class: "chip", title: operator.leader ? "This process acts" : "Another process acts; this one watches" }, operator.leader ? "leader" : "standby"),
      nameOf(operator.identity),
      h("span", { class: "muted controllers" }, operator.controllers.join(", ")),
      h("span", { class: "muted" }, operator.version),
    ],
  );
}
