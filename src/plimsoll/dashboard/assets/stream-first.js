// Not a module: the snapshot of a large cluster is on its way while the modules are still loading. What comes before they have
// loaded is kept for stream.js, which takes the connection over.
(() => {
  const source = new EventSource("api/v1/stream?events=snapshot");
  const heard = [];
  const handOver = new AbortController();
  for (const kind of ["snapshot", "change", "beat", "error"]) source.addEventListener(kind, (event) => heard.push(event), { signal: handOver.signal });
  globalThis.plimsollFirst = { source, heard, handOver };
})();
