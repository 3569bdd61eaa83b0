// The banner of a broken connection: how old the data is, why, and when the page reconnects.
import { fill, h } from "./dom.js";
import { clock, span } from "./words.js";

// The connection returns within a second when the operator is rolled out. A banner that flashes each time would be ignored.
const PATIENCE_MS = 1_000;

let timer = 0;

/**
 * @param {HTMLElement} host
 * @param {import("./stream.js").Connection} connection
 * @param {import("./snapshot.js").Snapshot} snapshot
 * @param {() => void} retry
 */
export function showBanner(host, connection, snapshot, retry) {
  clearInterval(timer);
  if (connection.state !== "broken") {
    host.hidden = true;
    return;
  }
  const words = h("span", {});
  const pause = h("span", { class: "muted", "aria-live": "off" });
  const tick = () => {
    host.hidden = snapshot.known && Date.now() - connection.since.getTime() < PATIENCE_MS;
    const seconds = connection.retryAt ? (connection.retryAt.getTime() - Date.now()) / 1000 : 0;
    fill(pause, seconds > 0.5 ? `Trying again in ${span(Math.ceil(seconds))}.` : "Trying again now.");
  };
  fill(
    words,
    h("strong", {}, snapshot.known ? "Not live. " : "Not connected. "),
    snapshot.known && `What you see is from ${clock(snapshot.at, new Date())}. `,
    `Reason: ${connection.reason}.`,
  );
  fill(host, h("span", { class: "mark", "aria-hidden": "true" }, "⚠"), h("p", {}, words, " ", pause), h("button", { type: "button", onclick: retry }, "Try now"));
  tick();
  timer = setInterval(tick, 500);
}
