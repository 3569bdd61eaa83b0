// Puts the page together: one snapshot, one stream, one view at a time.
import { showBanner } from "./banner.js";
import { Detail } from "./detail.js";
import { fill, h, nameOf } from "./dom.js";
import { keepMomentsFresh, keepTimeWith } from "./moments.js";
import { Changes, Snapshot } from "./snapshot.js";
import { addressOf, readRoute, setParameters } from "./route.js";
import { listenForShortcuts } from "./shortcuts.js";
import { Stream } from "./stream.js";
import { showOperator } from "./operator.js";
import { onThemeChange, switchTheme } from "./theme.js";
import { VIEWS } from "./views/all.js";
import { count } from "./words.js";

const main = document.getElementById("main");
const nav = document.getElementById("nav");
const filter = /** @type {HTMLInputElement} */ (document.getElementById("filter"));
const snapshot = new Snapshot();
const detail = new Detail(document.getElementById("detail"), snapshot);

/** @type {{view: import("./views/all.js").View, name: string} | null} */
let shown = null;
let changes = new Changes();
let drawing = false;

const links = new Map(
  VIEWS.map((view) => {
    const badge = h("span", { class: "badge", hidden: true });
    return [view.name, { link: h("a", { href: addressOf(view.name) }, view.title, badge), badge, view }];
  }),
);
nav.append(...[...links.values()].map(({ link }) => link));

function follow() {
  const { view: name, parameters } = readRoute();
  const entry = links.get(name) ?? links.get("attention");
  const query = parameters.get("q") ?? "";
  if (document.activeElement !== filter) filter.value = query;
  if (shown?.name !== entry.view.name) {
    shown?.view.leave();
    main.replaceChildren();
    main.className = `view-${entry.view.name}`;
    shown = { name: entry.view.name, view: entry.view.enter(main, snapshot) };
    document.title = titleOf(entry.view.title);
    for (const { link, view } of links.values()) {
      if (view === entry.view) {
        link.setAttribute("aria-current", "page");
        // On a narrow screen the navigation is wider than the page.
        link.scrollIntoView({ block: "nearest", inline: "nearest" });
      }
      else link.removeAttribute("aria-current");
    }
    const everything = new Changes();
    everything.whole = true;
    shown.view.filter(query);
    shown.view.update(everything);
  } else {
    shown.view.filter(query);
  }
  detail.follow(parameters.get("show"));
}

/** With the cluster's name: people have several of these tabs open. */
function titleOf(/** @type {string} */ view) {
  return [view, snapshot.operator.cluster, "Plimsoll"].filter(Boolean).join(" · ");
}

function draw() {
  drawing = false;
  const now = changes;
  changes = new Changes();
  performance.mark("plimsoll-draw");
  for (const { view, badge } of links.values()) {
    const amount = view.badge?.(snapshot) ?? 0;
    badge.hidden = amount === 0;
    if (amount) fill(badge, count(amount));
  }
  shown?.view.update(now);
  detail.update(now);
  showOperator(document.getElementById("foot"), snapshot);
  fill(document.getElementById("cluster-name"), snapshot.operator.cluster && nameOf(snapshot.operator.cluster));
  if (shown) document.title = titleOf(links.get(shown.name).view.title);
  performance.measure("plimsoll-draw", "plimsoll-draw");
}

function receive(/** @type {any} */ message) {
  snapshot.merge(message, changes);
  document.body.dataset.version = String(snapshot.version);
  if (drawing) return;
  drawing = true;
  // A hidden tab gets no frames, and needs none: what waits is drawn when somebody looks.
  requestAnimationFrame(draw);
}

const stream = new Stream("api/v1/stream?events=snapshot", receive, keepTimeWith, (connection) => {
  document.body.dataset.connection = connection.state;
  showBanner(document.getElementById("banner"), connection, snapshot, () => stream.open());
  showOperator(document.getElementById("foot"), snapshot);
});

filter.addEventListener("input", () => setParameters({ q: filter.value }, { replace: true }));
document.getElementById("theme").addEventListener("click", switchTheme);
document.getElementById("skip").addEventListener("click", () => main.focus());
addEventListener("hashchange", follow);
onThemeChange(() => shown?.view.repaint?.());
listenForShortcuts({ filter, help: document.getElementById("help"), dialog: document.getElementById("keys"), detail });
keepMomentsFresh();
follow();
stream.open();
