// Memory: the nodes' memory relative to the GPU's, now and over time.
import { get, of } from "./api.js";
import { h, put } from "./dom.js";
import * as f from "./format.js";
import { empty, loader, part } from "./load.js";
import { memoryBar } from "./nodes.js";
import { chartIn } from "./overlay.js";
import { table } from "./table.js";

const kinds = { resident: "resident", transient: "transient", peak: "peak" };

const notes = {
  ledger: "What each node keeps (resident) and needs for a phase beyond that (transient), against its budget; the mark is its peak.",
  host: "No GPU: resident and transient are the engine's beyond its interpreter, as a GPU would have to hold them; " +
    "the peak is of the node's processes on the host, as proportional shares (PSS) if the kernel reports them, else resident (RSS).",
};

// gauge returns a memory bar with its figures.
function gauge(options) {
  const bar = memoryBar();
  bar.to(options);
  return bar.el;
}

const hostTitles = { pss: "proportional share (PSS) now: memory that processes share counts once",
  rss: "resident (RSS) now: memory that processes share counts for each" };

const columns = (cap, kind) => [
  { label: "Node", text: (r) => r.node },
  { label: "Resident and transient", cell: (r) => gauge({
    segments: [{ kind: "resident", bytes: r.resident_bytes }, { kind: "transient", bytes: r.transient_bytes }], peakBytes: r.peak_bytes,
    capBytes: r.budget_bytes || cap || r.most,
      label: `${r.node}: resident ${f.bytes(r.resident_bytes)}, transient ${f.bytes(r.transient_bytes)}, peak ${f.bytes(r.peak_bytes)}` }) },
  { label: "Resident", minor: true, number: true, title: "between phases: weights, optimizer, context", text: (r) => f.bytes(r.resident_bytes) },
  { label: "Transient", minor: true, number: true, title: "highest of a phase, beyond resident", text: (r) => f.bytes(r.transient_bytes) },
  { label: "Peak", number: true, text: (r) => f.bytes(r.peak_bytes) },
  { label: "Budget", number: true, text: (r) => f.bytes(r.budget_bytes) },
  { label: "On the card", number: true, title: "as the driver sees it now", text: (r) => f.bytes(r.device_bytes), least: true },
  { label: `On the host (${kind.toUpperCase()})`, number: true, title: hostTitles[kind], least: true,
    text: (r) => f.bytes(kind === "pss" ? r.host_bytes : r.rss_bytes) },
];

// hostKind returns the kind of host memory figure that is known for every node.
const hostKind = (m) => (m.ledger?.every((r) => r.host_kind === "pss" || !r.peak_host_bytes) ? "pss" : "rss");

// alignTimes converts series with different times to common times.
function alignTimes(all, key) {
  const x = [...new Set(all.flatMap((o) => o.time))].sort((a, b) => a - b);
  const at = new Map(x.map((t, i) => [t, i]));
  return { x, values: all.map((o) => {
    const out = new Array(x.length).fill(undefined);
    o.time.forEach((t, i) => { out[at.get(t)] = o[key][i] ?? null; });
    return out;
  }) };
}

// The budget is a line if every node has the same one.
function budget(m, x) {
  const all = [...new Set(m.ledger.map((r) => r.budget_bytes))];
  if (all.length !== 1 || !(all[0] > 0) || !(m.card_bytes > 0)) return [];
  return [{ label: "budget", values: x.map(() => all[0]), color: "--bad", dash: [4, 4], width: 1 }];
}

export class Memory {
  constructor(route, detail) {
    this.run = route.run;
    this.ledger = part("Ledger", { note: notes.ledger });
    this.course = part("Over time");
    this.devices = part("Device");
    this.devices.el.hidden = true;
    this.places = [h("div"), h("div"), h("div")];
    this.charts = this.places.map(chartIn);
    this.course.body.append(this.places[0]);
    this.card = h("div");
    this.devices.body.append(this.places[1], this.places[2]);
    this.el = h("div", null, this.ledger.el, this.course.el, this.devices.el);
    this.round = detail.status.round;
    this.load = loader(this.ledger.problem, (signal) => this.#fetch(signal), 8000);
    this.load.now();
  }

  async #fetch(signal) {
    const m = await get(of(this.run, "memory"), null, signal);
    this.#ledger(m);
    this.#course(m);
    this.#devices(m.devices || []);
  }

  #ledger(m) {
    if (!m.ledger?.length) return void put(this.ledger.body, empty("No node has reported its memory yet."));
    const most = Math.max(...m.ledger.map((r) => r.peak_bytes));
    const rows = m.ledger.map((r) => ({ ...r, most }));
    put(this.ledger.body, m.card_bytes > 0 ? this.#cardBar(m)
      : h("p", { class: "note" }, notes.host),
      h("ul", { class: "keys" }, Object.entries(kinds).map(([k, text]) => h("li", null, h("span", { class: "key", "data-kind": k }), text)),
        h("li", null, "each bar is a node's budget")),
      table("Memory of each node", columns(m.card_bytes, hostKind(m)), rows));
  }

  #cardBar(m) {
    const now = m.ledger.some((r) => r.device_bytes > 0), what = now ? "a node, now" : "a node, resident when it last reported";
    const segments = m.ledger.map((r) => ({ kind: `node ${r.node}`, bytes: now ? r.device_bytes : r.resident_bytes }));
    segments.push({ kind: "unattributed", bytes: m.unattributed_bytes });
    const el = gauge({ segments, peakBytes: 0, capBytes: m.card_bytes,
      label: `the card: ${f.bytes(m.card_bytes)}; nodes, and ${f.bytes(m.unattributed_bytes)} that no node accounts for` });
    return h("div", { class: "card" }, h("ul", { class: "keys" }, h("li", null, `The card, ${f.bytes(m.card_bytes)}:`),
      h("li", null, h("span", { class: "key", "data-kind": "node" }), what),
      h("li", null, h("span", { class: "key", "data-kind": "unattributed" }), `unattributed, ${f.bytes(m.unattributed_bytes)}`)), el);
  }

  #course(m) {
    const nodes = (m.nodes || []).filter((n) => n.time.length);
    if (new Set(nodes.flatMap((n) => n.time)).size < 2) {
      this.charts[0].destroy();
      return void this.places[0].replaceChildren(empty("There are no two samples yet."));
    }
    const gpu = nodes.some((n) => n.device_bytes?.some((v) => v > 0));
    const { x, values } = alignTimes(nodes, gpu ? "device_bytes" : hostKind(m) === "pss" ? "host_bytes" : "rss_bytes");
    this.charts[0].draw("lines", { title: gpu ? "Device memory by node" : `Host memory by node (${hostKind(m).toUpperCase()})`, x, xUnit: "time", xLabel: "time", unit: "bytes",
      yMin: 0, height: 260, sync: "memory",
      series: [...nodes.map((n, i) => ({ label: n.node, values: values[i], color: i, dash: i })), ...budget(m, x)] });
  }

  #devices(devices) {
    this.devices.el.hidden = !devices.some((d) => d.time.length > 1);
    if (this.devices.el.hidden) return;
    const name = (d, what) => (devices.length > 1 ? `${d.name} ${d.uuid.slice(-4)}: ${what}` : what);
    const used = alignTimes(devices, "used_bytes"), rest = alignTimes(devices, "unattributed_bytes");
    this.charts[1].draw("lines", { title: "Card", x: used.x, xUnit: "time", xLabel: "time", unit: "bytes", yMin: 0, height: 220, sync: "memory",
      series: devices.flatMap((d, i) => [{ label: name(d, "size"), values: used.x.map(() => d.total_bytes), color: "--muted", dash: [4, 4],
        width: 1 }, { label: name(d, "used"), values: used.values[i], color: 2 * i, dash: 0 },
        { label: name(d, "unattributed"), values: rest.values[i], color: 2 * i + 1, dash: 1 }]) });
    const busy = alignTimes(devices, "utilization"), power = alignTimes(devices, "power_watts");
    this.charts[2].draw("lines", { title: "Utilization and power", x: busy.x, xUnit: "time", xLabel: "time", unit: "ratio", rightUnit: "watts",
      rightLabel: "power", yMin: 0, yMax: 1, height: 220,
      sync: "memory", series: devices.flatMap((d, i) => [{ label: name(d, "utilisation"), values: busy.values[i], color: 2 * i, dash: 0 },
        { label: name(d, "power"), values: power.values[i], color: 2 * i + 1, dash: 1, axis: "right" }]) });
  }

  status(s) {
    if (s.round !== this.round) this.load.poke();
    this.round = s.round;
  }

  refresh() {
    this.load.now();
  }

  leave() {
    this.load.stop();
    for (const c of this.charts) c.destroy();
  }
}
