// Creates elements. All content becomes text nodes, so that no name from a cluster is parsed as markup.
import { visible } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";

/**
 * @typedef {string | number | Node | null | undefined | false} Child
 * @param {string} tag
 * @param {Record<string, any>} [properties] attributes; `on…` are listeners, `data` is the dataset, `vars` custom properties of CSS
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function h(tag, properties = {}, ...children) {
  return dress(document.createElement(tag), properties, children);
}

/** The same for SVG. @returns {SVGElement} */
export function s(tag, properties = {}, ...children) {
  return dress(document.createElementNS(SVG, tag), properties, children);
}

/** @param {Element} element @param {...(Child | Child[])} children */
export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

/**
 * Sets the children in this order. Elements that stay are not moved, because a moved element loses the focus.
 * @param {Element} element @param {Element[]} wanted
 */
export function arrangeChildren(element, wanted) {
  const kept = new Set(wanted);
  for (const child of [...element.children]) if (!kept.has(child)) child.remove();
  wanted.forEach((child, index) => element.children[index] !== child && element.insertBefore(child, element.children[index] ?? null));
}

/** A name from the cluster, isolated from the text direction around it. @param {string} name */
export function nameOf(name, properties = {}) {
  return h("bdi", { class: "name", title: visible(name), ...properties }, name);
}

function dress(element, properties, children) {
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "data") Object.assign(element.dataset, value);
    // Through the CSSOM: the content security policy forbids style attributes.
    else if (key === "vars") for (const [name, one] of Object.entries(value)) element.style.setProperty(name, one);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...nodes(children));
  return element;
}

function nodes(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(visible(String(child)))));
}
