// Which nodes and pods match a filter. The words may match partly the node and partly one of its pods.
import { visible } from "../words.js";

/** Lower-case texts, cached per record because they cost more than the search itself. @type {WeakMap<object, {own: string, pods: string[]}>} */
const TEXTS = new WeakMap();

/** @param {string} name @param {import("../snapshot.js").ClusterNode} node */
function textsOf(name, node) {
  let texts = TEXTS.get(node);
  if (!texts) {
    const own = visible([name, node.zone, node.group, node.class, node.state].join("\n")).toLowerCase();
    texts = { own, pods: node.pods.map((pod) => visible(`${pod[0]}\n${pod[1]}${pod[3] ? "\nmisplaced" : ""}`).toLowerCase()) };
    TEXTS.set(node, texts);
  }
  return texts;
}

/** @param {string} filter @returns {((name: string, node: import("../snapshot.js").ClusterNode) => import("./paint.js").Lit) | null} */
export function lightOf(filter) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return null;
  return (name, node) => {
    const { own, pods } = textsOf(name, node);
    const left = words.filter((word) => !own.includes(word));
    if (left.length === 0) return true;
    const lit = new Set();
    pods.forEach((text, index) => left.every((word) => text.includes(word)) && lit.add(index));
    return lit.size > 0 && lit;
  };
}
