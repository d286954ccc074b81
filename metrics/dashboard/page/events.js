// The events of a run: a timeline by node, and a list whose entries open the log around their time.
import { get, of } from "./api.js";
import { fillSelect, h, keyed, put, say, select, toggle } from "./dom.js";
import * as f from "./format.js";
import { loader, part } from "./load.js";
import { chartIn } from "./overlay.js";
import { change } from "./route.js";

const atFirst = 200, atMost = 1000; // entries fetched
const lines = 60; // lines of a log excerpt
const moods = { error: "bad", warning: "warn" };
const mood = (e) => moods[e.level] || (["run_ended", "loaded", "join"].includes(e.type) ? "good" : "info");
const who = (e) => e.node || e.worker || "run";

// EventList shows a bounded number of entries, newest first. set(all) replaces them, add(one) adds one.
export class EventList {
  constructor(run, { most = atMost, shown = () => true } = {}) {
    Object.assign(this, { run, most, shown });
    this.entries = [];
    this.aborts = new AbortController();
    this.list = h("ol", { class: "events", reversed: true });
    this.none = h("p", { class: "note" }, "Nothing has happened yet.");
    this.el = h("div", null, this.list, this.none);
  }

  set(all) {
    const last = all.length ? all[all.length - 1].id : -1; // entries that the stream delivered during the request are newer
    this.entries = [...all, ...this.entries.filter((e) => e.id > last)];
    this.draw();
  }

  add(e) {
    if (this.entries.some((other) => other.id === e.id)) return;
    this.entries.push(e);
    this.draw();
  }

  draw() {
    const wanted = this.entries.filter(this.shown).slice(-this.most).reverse();
    this.none.hidden = wanted.length > 0;
    say(this.none, this.entries.length ? "No event matches." : "Nothing has happened yet.");
    keyed(this.list, wanted, (e) => e.id, (e) => this.#entry(e));
  }

  #entry(e) {
    const log = h("div", { class: "log", hidden: true });
    const button = h("button", { type: "button", class: "event", "aria-expanded": "false", onclick: () => this.#toggle(e, button, log) },
      h("time", { datetime: new Date(e.time * 1000).toISOString(), title: f.when(e.time) }, f.stamp(e.time)),
      h("span", { class: "event-node" }, who(e)), h("span", { class: `badge ${mood(e)}` }, f.words(e.type)),
      h("span", { class: "event-text" }, e.message || f.words(e.cause)));
    return h("li", { "data-event": e.id, "data-level": e.level }, button, log);
  }

  async #toggle(e, button, log) {
    const open = button.getAttribute("aria-expanded") !== "true";
    button.setAttribute("aria-expanded", String(open));
    log.hidden = !open;
    if (!open || log.dataset.loaded) return;
    log.dataset.loaded = "yes";
    put(log, h("p", { class: "small" }, "Reading the log …"));
    try {
      const doc = await get(of(this.run, "logs"), { node: e.node, around: e.time, lines }, this.aborts.signal);
      put(log, excerpt(doc, e));
    } catch (error) {
      delete log.dataset.loaded;
      put(log, h("p", { class: "problem" }, error.message));
    }
  }

  // reveal opens an entry and brings it into view.
  reveal(id) {
    const li = [...this.list.children].find((el) => el.dataset.key === String(id));
    const button = li?.querySelector("button");
    if (!button) return;
    if (button.getAttribute("aria-expanded") !== "true") button.click();
    li.scrollIntoView({ block: "center" });
    button.focus({ preventScroll: true });
  }

  leave() {
    this.aborts.abort();
  }
}

// excerpt shows log lines. Lines after the event look different.
function excerpt(doc, e) {
  const note = doc.note ? h("p", { class: "small" }, doc.note) : null;
  if (!doc.lines?.length) return note || h("p", { class: "small" }, "The log has no lines around this time.");
  return [note, h("pre", { tabindex: "0", "aria-label": `log of ${who(e)} around ${f.clock(e.time)}` }, doc.lines.map((l) =>
    h("span", { class: typeof l.time === "number" && l.time > e.time ? "line later" : "line" },
      typeof l.time === "number" ? `${f.clock(l.time)} ` : "", l.node && !e.node ? `${l.node} ` : "", l.text)))];
}

// Events is the section: filters, timeline, list.
export class Events {
  constructor(route, detail) {
    this.route = route;
    this.detail = detail;
    this.asked = atFirst;
    const p = route.params;
    const again = (key) => (v) => {
      change(route, { [key]: v });
      this.#draw();
    };
    this.node = select("Node", [["", "all"]], "", again("node"));
    this.quiet = toggle("Only warnings and errors", p.get("level") === "warning", (on) => again("level")(on ? "warning" : ""));
    this.part = part("Events", { tools: [this.node.el, this.quiet.el] });
    this.place = h("div");
    this.chart = chartIn(this.place);
    this.list = new EventList(route.run, { shown: (e) => this.#shown(e) });
    this.more = h("button", { type: "button", hidden: true, onclick: () => { this.asked = atMost; this.load.now(); } }, "Show older events");
    this.part.body.append(this.place, this.list.el, this.more);
    this.el = this.part.el;
    this.load = loader(this.part.problem, (signal) => this.#fetch(signal), 3000);
    this.load.now();
  }

  #shown(e) {
    const node = this.route.params.get("node") || "";
    return (!node || e.node === node) && (!this.quiet.box.checked || ["warning", "error"].includes(e.level));
  }

  async #fetch(signal) {
    const { events } = await get(of(this.route.run, "events"), { tail: this.asked }, signal);
    this.list.set(events);
    this.more.hidden = events.length < this.asked || this.asked === atMost;
    this.#draw();
  }

  #draw() {
    const s = this.detail.status, all = this.list.entries;
    const nodes = [...new Set([...s.nodes.map((n) => n.id), ...all.map((e) => e.node).filter(Boolean)])];
    const wanted = this.route.params.get("node") || "";
    fillSelect(this.node.box, [["", "all"], ...nodes.map((n) => [n, n])], nodes.includes(wanted) ? wanted : "");
    this.list.draw();
    if (!all.length) return;
    const lane = (node, label) => ({ label, items: all.filter((e) => e.node === node && this.#shown(e)).map((e) => ({ id: e.id, time: e.time,
      kind: mood(e), label: `${f.words(e.type)}: ${f.clip(e.message, 120)}` })) });
    const lanes = [lane("", "run"), ...nodes.filter((n) => !wanted || n === wanted).map((n) => lane(n, n))]
      .filter((l, i, every) => every.length <= 12 || l.items.length); // if there are many nodes, only those with entries
    const last = Math.max(all[all.length - 1].time, s.last_seen);
    this.chart.draw("timeline", { title: "Timeline", from: Math.min(all[0].time, all.length < this.asked ? s.started : all[0].time), to: last, lanes,
      onSelect: (item) => this.list.reveal(item.id) });
  }

  entry(e) {
    this.list.add(e);
    this.load.poke();
  }

  status(s) {
    this.detail.status = s;
  }

  refresh() {
    this.load.now();
  }

  leave() {
    this.load.stop();
    this.list.leave();
    this.chart.destroy();
  }
}
