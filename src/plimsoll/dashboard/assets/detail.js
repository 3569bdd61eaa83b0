// The side panel: the details of one object from the snapshot, and below them the operator's explanation.
import { describe } from "./describe.js";
import { fill, h } from "./dom.js";
import { showAnswer } from "./answer.js";
import { setParameters } from "./route.js";

export class Detail {
  /** @param {HTMLElement} host @param {import("./snapshot.js").Snapshot} snapshot */
  constructor(host, snapshot) {
    this.host = host;
    this.snapshot = snapshot;
    /** @type {string | null} such as `node/worker-3` or `workload/Deployment/shop/web` */
    this.subject = null;
    this.title = h("h2", { tabindex: "-1" });
    this.facts = h("div", { class: "facts" });
    this.answer = h("div", { class: "answer", "aria-live": "polite" });
    this.again = h("button", { type: "button", onclick: () => this.ask() }, "Ask again");
    fill(
      host,
      h("header", {}, this.title, h("button", { type: "button", class: "icon", "aria-label": "Close the details", title: "Close (Esc)", onclick: () => this.close() }, "×")),
      this.facts,
      h("section", { class: "why" }, h("header", {}, h("h3", {}, "What the operator answers"), this.again), this.answer),
    );
  }

  get open() {
    return this.subject !== null;
  }

  close() {
    setParameters({ show: null });
  }

  /** @param {string | null} subject */
  follow(subject) {
    if (subject === this.subject) return;
    if (this.subject === null) this.cameFrom = document.activeElement;
    this.subject = subject;
    this.host.hidden = subject === null;
    document.body.classList.toggle("with-detail", subject !== null);
    if (subject === null) {
      if (this.cameFrom instanceof HTMLElement && this.cameFrom.isConnected) this.cameFrom.focus();
      return;
    }
    this.question = undefined;
    this.draw();
    this.host.scrollTop = 0;
    this.title.focus({ preventScroll: true });
    this.ask();
  }

  /** @param {import("./snapshot.js").Changes} changes */
  update(changes) {
    if (this.subject === null) return;
    const [kind, ...rest] = this.subject.split("/");
    const name = rest.join("/");
    const kinds = { node: changes.nodes, workload: changes.workloads, group: changes.groups, pod: changes.nodes };
    if (changes.whole || kind === "pod" || kinds[kind]?.has(name)) this.draw();
  }

  draw() {
    const { title, facts, question } = describe(this.subject, this.snapshot);
    const had = this.question;
    this.question = question;
    fill(this.title, title);
    fill(this.facts, facts);
    // Opened from a URL before the snapshot arrived: only now is it known whether the object can be explained.
    if (had === null && question !== null) this.ask();
  }

  async ask() {
    const subject = this.subject;
    if (!this.question) {
      fill(this.answer, h("p", { class: "muted" }, "There is nothing to ask about this kind of object."));
      return;
    }
    fill(this.answer, h("p", { class: "muted" }, "Asking…"));
    let shown;
    try {
      const reply = await fetch(`api/v1/explain/${this.question}`, { cache: "no-store" });
      const body = await reply.text();
      if (reply.ok) shown = showAnswer(JSON.parse(body));
      else shown = h("p", { class: "bad" }, `The operator answers ${reply.status}: ${words(body)}`);
    } catch (error) {
      shown = h("p", { class: "bad" }, `No answer: ${error.message}. The snapshot above is what was last received.`);
    }
    if (subject === this.subject) fill(this.answer, shown);
  }
}

/** The message of an error reply, in JSON or text. @param {string} body */
function words(body) {
  try {
    const parsed = JSON.parse(body);
    return parsed.error ?? parsed.message ?? body;
  } catch {
    return body;
  }
}
