// The live connection: server-sent events. It reconnects when the connection breaks.

const silence = 40_000; // ms without a message, heartbeats included, after which a connection counts as dead
const waits = [1000, 2000, 4000, 8000, 15_000]; // ms before the next try

// Stream dispatches `runs`, `status`, `entry` (detail: the document), `connection` (detail: connecting, live, lost) and `again` when it is live
// after having been lost.
export class Stream extends EventTarget {
  #source = null;
  #tries = 0;
  #timer = 0;
  #watch = 0;
  #last = "";
  state = "connecting";
  retryAt = 0; // ms, of the next try

  open() {
    clearTimeout(this.#timer);
    this.#source?.close();
    const source = new EventSource(this.#last ? `api/stream?last_event_id=${encodeURIComponent(this.#last)}` : "api/stream");
    this.#source = source;
    source.onopen = () => {
      const again = this.#tries > 0 || this.state === "lost";
      this.#tries = 0;
      this.#heard();
      this.#to("live");
      if (again) this.dispatchEvent(new Event("again"));
    };
    source.onerror = () => this.#lost();
    for (const name of ["runs", "status", "entry", "beat"]) source.addEventListener(name, (e) => this.#take(name, e));
    this.#heard();
  }

  #take(name, e) {
    this.#heard();
    if (e.lastEventId) this.#last = e.lastEventId;
    if (name === "beat") return;
    let detail;
    try {
      detail = JSON.parse(e.data);
    } catch {
      return; // cut off: the next message is complete
    }
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }

  #heard() {
    clearTimeout(this.#watch);
    this.#watch = setTimeout(() => this.#lost(), silence);
  }

  #lost() {
    clearTimeout(this.#watch);
    this.#source?.close();
    const wait = waits[Math.min(this.#tries, waits.length - 1)];
    this.#tries++;
    this.retryAt = Date.now() + wait;
    this.#to("lost");
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.open(), wait);
  }

  // now reconnects at once: the network is back, or the user pressed the button.
  now() {
    if (this.state !== "live") this.open();
  }

  // sleep ends the connection while the page is hidden, and wake restores it.
  sleep() {
    this.close();
    this.#tries = 1; // missed entries are fetched
    this.asleep = true;
  }

  wake() {
    if (this.asleep || this.state === "lost") this.open();
    this.asleep = false;
  }

  close() {
    clearTimeout(this.#timer);
    clearTimeout(this.#watch);
    this.#source?.close();
  }

  #to(state) {
    if (this.state === state) return;
    this.state = state;
    this.dispatchEvent(new CustomEvent("connection", { detail: state }));
  }
}
