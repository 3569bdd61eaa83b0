// The route: `#/view?q=…&show=…`. The URL holds the whole state, so that it can be shared.

/** @typedef {{view: string, parameters: URLSearchParams}} Route */

/** @returns {Route} */
export function readRoute() {
  const [path, query = ""] = splitOnce(location.hash.replace(/^#\/?/, ""), "?");
  return { view: path || "attention", parameters: new URLSearchParams(query) };
}

/** @param {string} view @param {Record<string, string | null>} [parameters] */
export function addressOf(view, parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value));
  return `#/${view}${query.size ? `?${query}` : ""}`;
}

/** Changes parameters of the current URL; null removes one. Typing adds no history entries. */
export function setParameters(changes, { replace = false } = {}) {
  const { view, parameters } = readRoute();
  for (const [key, value] of Object.entries(changes)) {
    if (value) parameters.set(key, value);
    else parameters.delete(key);
  }
  const address = addressOf(view, Object.fromEntries(parameters));
  if (address === location.hash) return;
  if (replace) {
    history.replaceState(null, "", address);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    location.hash = address;
  }
}

function splitOnce(text, mark) {
  const at = text.indexOf(mark);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}
