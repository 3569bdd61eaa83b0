// The live connection. EventSource would try again by itself, but says neither why it failed nor when it tries next,
// and gives up for good on some answers: so every failure closes it here, and a fresh one is opened after a pause.

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 15_000;
// The server sends a sign of life every 15 s: after three that did not come the connection is dead, whatever TCP believes.
const SILENCE_MS = 45_000;

/**
 * @typedef {{state: "connecting" | "live" | "broken", since: Date, retryAt: Date | null, reason: string}} Connection
 */

export class Stream {
  /**
   * @param {string} address
   * @param {(message: any) => void} onMessage
   * @param {(now: string) => void} onTime
   * @param {(connection: Connection) => void} onConnection
   */
  constructor(address, onMessage, onTime, onConnection) {
    this.address = address;
    this.onMessage = onMessage;
    this.onTime = onTime;
    this.onConnection = onConnection;
    this.pause = FIRST_PAUSE_MS;
    this.brokenSince = /** @type {Date | null} */ (null);
  }

  open() {
    clearTimeout(this.retry);
    this.source?.close();
    // A browser has six connections to a server: questions that nobody answers must not take them all.
    this.asking?.abort();
    if (this.brokenSince === null) this.tell("connecting", null, "");
    const first = takeFirst();
    const source = first?.source ?? new EventSource(this.address);
    this.source = source;
    this.alive();
    const hear = (/** @type {MessageEvent} */ event) => source === this.source && this.hear(event);
    for (const kind of ["snapshot", "change", "beat", "error"]) source.addEventListener(kind, hear);
    first?.heard.forEach(hear);
  }

  hear(/** @type {MessageEvent} */ event) {
    if (event.type === "error") {
      this.fail("the connection was closed");
      return;
    }
    this.alive();
    const message = JSON.parse(event.data);
    if (event.type === "beat") {
      this.onTime(message.now);
      return;
    }
    if (this.brokenSince !== null || event.type === "snapshot") {
      this.brokenSince = null;
      this.pause = FIRST_PAUSE_MS;
      this.tell("live", null, "");
    }
    // A whole snapshot may have been made long before.
    if (!message.whole) this.onTime(message.at);
    this.onMessage(message);
  }

  alive() {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.fail("nothing was heard for 45 seconds"), SILENCE_MS);
  }

  /** @param {string} reason */
  fail(reason) {
    clearTimeout(this.silence);
    this.source?.close();
    this.brokenSince ??= new Date();
    // Half of it by chance: the pages of a whole team must not come back in the same instant.
    const wait = this.pause * (0.5 + Math.random() / 2);
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE_MS);
    this.tell("broken", new Date(Date.now() + wait), reason);
    this.retry = setTimeout(() => this.open(), wait);
    this.ask(reason);
  }

  /** EventSource hides the status of a refusal, and a person needs it. */
  async ask(reason) {
    const stop = new AbortController();
    this.asking = stop;
    const words = await fetch(this.address, { signal: stop.signal, cache: "no-store" }).then(
      (reply) => (reply.ok ? null : (REFUSALS[reply.status] ?? `the server answers ${reply.status}`)),
      () => `${reason}, and the server does not answer`,
    );
    // Whoever tries again meanwhile learns the answer that way.
    if (words !== null && !stop.signal.aborted && this.brokenSince !== null) this.tell("broken", this.last?.retryAt ?? null, words);
    stop.abort();
  }

  /** @param {Connection["state"]} state @param {Date | null} retryAt @param {string} reason */
  tell(state, retryAt, reason) {
    this.last = { state, since: this.brokenSince ?? new Date(), retryAt, reason };
    this.onConnection(this.last);
  }
}

/** The connection that stream-first.js has opened, the first time. */
function takeFirst() {
  const first = globalThis.plimsollFirst;
  globalThis.plimsollFirst = undefined;
  first?.handOver.abort();
  return first;
}

/** @type {Record<number, string>} */
const REFUSALS = {
  401: "the server does not know who you are (401): sign in again, or renew the token",
  403: "you may not see this dashboard (403): ask for the role that docs/dashboard.md names",
  503: "the operator is not ready yet (503)",
};
