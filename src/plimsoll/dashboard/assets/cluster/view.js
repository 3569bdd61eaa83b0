// The cluster: a map of nodes and pods, the same as a table, figures above and a legend below.
import { fill, h } from "../dom.js";
import { choice, empty } from "../parts.js";
import { readRoute, setParameters } from "../route.js";
import { counted, visible } from "../words.js";
import { heightWith } from "./arrange.js";
import { ClusterCanvas } from "./canvas.js";
import { listenForGestures } from "./gestures.js";
import { legend } from "./legend.js";
import { lightOf } from "./search.js";
import { nodeTable } from "./table.js";
import { hint, sentence } from "./told.js";
import { showTotals, totals } from "./totals.js";

// As in css/views.css.
const NARROW_PX = 760;

/** @type {import("../views/all.js").ViewEntry} */
export const clusterView = {
  name: "cluster",
  title: "Cluster",
  key: "c",
  enter(host, snapshot) {
    let light = lightOf("");
    // The map misses changes while the table is shown.
    let unseen = false;
    const map = new ClusterCanvas(snapshot.nodes);
    const table = nodeTable((name, node) => light === null || light(name, node) !== false);
    const shapes = legend();
    const figures = h("dl", { class: "totals" });
    const told = h("p", { class: "told", id: "told", role: "status", "aria-live": "polite" });
    const pointed = h("div", { class: "hint", "aria-hidden": "true", hidden: true });
    const blank = h("div", { class: "blank" });
    const closer = (/** @type {string} */ words, /** @type {string} */ sign, /** @type {() => void} */ act) => h("button", { type: "button", class: "icon", "aria-label": words, title: words, onclick: act }, sign);
    const zoom = h("div", { class: "zoom", role: "group", "aria-label": "Size of the map" }, closer("Closer (+)", "+", () => map.zoomBy(1.6)), closer("Further (−)", "−", () => map.zoomBy(1 / 1.6)), closer("Everything (0)", "⤢", () => map.showAll()));
    const box = h("div", { class: "map-box" }, map.element, pointed);
    const asTable = () => readRoute().parameters.get("as") === "table";
    const forms = choice("Show as", [["map", "Map"], ["table", "Table"]], asTable() ? "table" : "map", (value) => setParameters({ as: value === "table" ? value : null }));
    map.element.setAttribute("aria-describedby", "told");
    host.append(h("div", { class: "bar-above" }, h("h1", {}, "Cluster"), forms, zoom), figures, box, table.element, blank, h("div", { class: "below" }, told, shapes.element));

    function tell(/** @type {import("./canvas.js").Spot | null} */ spot) {
      const node = spot?.node ? snapshot.nodes.get(spot.node) : undefined;
      const words = visible(node ? sentence(spot.node, node, spot.pod) : "Point at a node, or use the arrow keys; Enter tells more.");
      // What has not changed must not be read out again, twice a second.
      if (told.textContent !== words) fill(told, words);
    }

    listenForGestures(map, {
      point(spot, x, y) {
        const node = spot?.node ? snapshot.nodes.get(spot.node) : undefined;
        pointed.hidden = node === undefined;
        map.element.classList.toggle("over", spot !== null);
        if (!node) return;
        map.frame(spot);
        fill(pointed, hint(spot.node, node, spot.pod));
        // Beside the pointer, on the side where there is room.
        pointed.style.transform = `translate(${x > map.width / 2 ? `calc(${x - 14}px - 100%)` : `${x + 14}px`}, ${y > map.height / 2 ? `calc(${y - 10}px - 100%)` : `${y + 14}px`})`;
      },
      focus(spot) {
        map.frame(spot);
        tell(spot);
      },
      open(spot) {
        const pod = spot.node ? snapshot.nodes.get(spot.node)?.pods[spot.pod] : undefined;
        const namespace = pod?.[1].split("/")[1];
        if (pod && namespace) setParameters({ show: `pod/${namespace}/${pod[0]}` });
        else if (spot.node) setParameters({ show: `node/${spot.node}` });
        else if (spot.group) setParameters({ show: `group/${spot.group}` });
      },
    });
    const watcher = new ResizeObserver(() => map.fit());
    watcher.observe(map.element);

    function draw(/** @type {Set<string> | null} */ changed) {
      const tabular = asTable();
      const some = snapshot.nodes.size > 0;
      box.hidden = tabular || !some;
      shapes.element.hidden = told.hidden = zoom.hidden = box.hidden;
      table.element.hidden = !tabular || !some;
      fill(blank, !some && nothing(snapshot));
      if (box.hidden && some) {
        table.show(snapshot.nodes);
        unseen = true;
      } else if (some) {
        // A narrow page scrolls anyway: then the map takes the height that its tiles need to be seen.
        const tall = innerWidth < NARROW_PX ? Math.min(Math.max(heightWith(snapshot.nodes, box.clientWidth, 30), innerHeight / 2), 2 * innerHeight) : 0;
        box.style.height = tall > 0 ? `${Math.ceil(tall)}px` : "";
        map.fit();
        map.update(unseen ? null : changed);
        unseen = false;
        const zones = map.arrangement.zones.length;
        map.element.setAttribute("aria-label", `Map of ${counted(snapshot.nodes.size, "node")} in ${counted(zones, "zone")}. The table shows the same.`);
      }
    }

    return {
      update(changes) {
        if (changes.whole || changes.nodes.size > 0) {
          draw(changes.whole ? null : changes.nodes);
          const sum = totals(snapshot);
          showTotals(figures, sum, snapshot);
          tell(map.framed);
        } else if (changes.pending.size > 0) showTotals(figures, totals(snapshot), snapshot);
      },
      filter(text) {
        light = lightOf(text);
        map.filter = light;
        for (const button of forms.children) button.setAttribute("aria-pressed", String(button.dataset.value === (asTable() ? "table" : "map")));
        draw(new Set());
        if (!box.hidden && map.width > 0) map.paint();
      },
      repaint() {
        map.repaint();
        shapes.repaint();
      },
      leave: () => watcher.disconnect(),
    };
  },
};

function nothing(/** @type {import("../snapshot.js").Snapshot} */ snapshot) {
  if (!snapshot.known) return h("p", { class: "muted waiting" }, "Waiting for the first snapshot of the cluster…");
  return empty("No node yet", h("span", {}, "The operator sees no node in this cluster. Is it connected to the right one? ", h("code", {}, "kubectl get nodes"), " should name some."));
}
