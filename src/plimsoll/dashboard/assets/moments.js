// Times on the page: local time, relative time, and the exact time as a tooltip.
import { h } from "./dom.js";
import { clock, fullTime, relative } from "./words.js";

const REFRESH_MS = 5_000;
// Offset of the cluster's clock from this machine's: clocks differ, a demo runs faster, and a snapshot has a fixed time.
let aheadMs = 0;

/** @param {string} now what the server's clock says at this moment */
export function keepTimeWith(now) {
  const ahead = new Date(now).getTime() - Date.now();
  if (Number.isFinite(ahead)) aheadMs = ahead;
}

const clusterNow = () => new Date(Date.now() + aheadMs);

/** @param {string | Date} when @param {{hint?: boolean, clock?: boolean}} [options] */
export function moment(when, { hint = true, clock: withClock = true } = {}) {
  const date = when instanceof Date ? when : new Date(when);
  if (Number.isNaN(date.getTime())) return h("span", { class: "muted" }, String(when));
  const element = h("time", { datetime: date.toISOString(), title: fullTime(date) });
  if (withClock) element.append(h("span", {}, clock(date, clusterNow())));
  if (hint) element.append(h("span", { class: "ago", data: { moment: date.toISOString() } }, relative(date, clusterNow())));
  return element;
}

/** One timer updates all of them. */
export function keepMomentsFresh() {
  setInterval(() => {
    if (document.hidden) return;
    const now = clusterNow();
    for (const element of document.querySelectorAll("[data-moment]")) {
      const words = relative(new Date(element.dataset.moment), now);
      if (element.textContent !== words) element.textContent = words;
    }
  }, REFRESH_MS);
}
