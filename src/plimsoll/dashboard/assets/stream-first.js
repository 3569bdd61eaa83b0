// Not a module: it requests the snapshot of a large cluster while the modules are loading. It keeps the messages that arrive
// before that for stream.js, which takes over the connection.
(() => {
  const source = new EventSource("api/v1/stream?events=snapshot");
  const heard = [];
  const handOver = new AbortController();
  for (const kind of ["snapshot", "change", "beat", "error"]) source.addEventListener(kind, (event) => heard.push(event), { signal: handOver.signal });
  globalThis.plimsollFirst = { source, heard, handOver };
})();
