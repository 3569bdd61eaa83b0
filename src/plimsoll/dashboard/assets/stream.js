// The live connection. EventSource reconnects by itself, but reports neither the error nor the time of the next attempt,
// and gives up on some replies. Therefore every failure closes it here, and a new one is opened after a backoff.

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 15_000;
// The server sends a heartbeat every 15 s. After three missing ones the connection counts as broken, whatever TCP reports.
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
    // A browser opens six connections per server; requests without a reply must not occupy all of them.
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
    // A whole snapshot may be old.
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
    // With jitter: the pages of a whole team must not reconnect at the same instant.
    const wait = this.pause * (0.5 + Math.random() / 2);
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE_MS);
    this.tell("broken", new Date(Date.now() + wait), reason);
    this.retry = setTimeout(() => this.open(), wait);
    this.ask(reason);
  }

  /** Fetches the HTTP status of a failure, which EventSource hides and the user needs. */
  async ask(reason) {
    const stop = new AbortController();
    this.asking = stop;
    const words = await fetch(this.address, { signal: stop.signal, cache: "no-store" }).then(
      (reply) => (reply.ok ? null : (REFUSALS[reply.status] ?? `the server answers ${reply.status}`)),
      () => `${reason}, and the server does not answer`,
    );
    // A retry that started meanwhile reports its own result.
    if (words !== null && !stop.signal.aborted && this.brokenSince !== null) this.tell("broken", this.last?.retryAt ?? null, words);
    stop.abort();
  }

  /** @param {Connection["state"]} state @param {Date | null} retryAt @param {string} reason */
  tell(state, retryAt, reason) {
    this.last = { state, since: this.brokenSince ?? new Date(), retryAt, reason };
    this.onConnection(this.last);
  }
}

/** Returns the connection that stream-first.js opened, on the first call. */
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
