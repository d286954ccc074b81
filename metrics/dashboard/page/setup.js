// The setup of a run: its configuration, plan, versions and attempts, and the rollouts used between nodes.
import { get, of } from "./api.js";
import { h, put } from "./dom.js";
import * as f from "./format.js";
import { loader, part } from "./load.js";
import { facts, table } from "./table.js";

const plain = (v) => (v === null || v === undefined ? "" : typeof v === "object" ? JSON.stringify(v) : String(v));

// flat lists the leaves of a document by their dotted names. Lists stay whole.
function flat(doc, prefix = "") {
  return Object.entries(doc || {}).flatMap(([key, v]) => {
    const name = prefix + key;
    if (v && typeof v === "object" && !Array.isArray(v)) return flat(v, `${name}.`);
    return [[name, v]];
  }).filter(([, v]) => plain(v) !== "" && plain(v) !== "[]");
}

const long = 60; // characters from which a value gets its own line

// value formats a leaf: bytes as sizes, everything else unchanged.
function value(name, v) {
  return name.endsWith("_bytes") && /^[0-9]+$/.test(v) ? f.bytes(Number(v)) : h("code", null, v);
}

// isList reports whether a value is a list of objects, which becomes a table.
const isList = (v) => Array.isArray(v) && v.length > 0 && v.every((x) => x && typeof x === "object" && !Array.isArray(x));

// list makes a table of a list of objects.
function list(name, rows) {
  const keys = [...new Set(rows.flatMap((r) => Object.keys(r)))];
  return h("details", null, h("summary", null, `${name}, ${f.count(rows.length, "row")}`), table(name, keys.map((k) => ({
    label: f.words(k), text: (r) => (k.endsWith("bytes") && typeof r[k] === "number" ? f.bytes(r[k]) : plain(r[k])) })), rows));
}

// sheet returns a part with the names and values of a document, or null if there are none.
function sheet(title, doc) {
  const all = flat(doc);
  if (!all.length) return null;
  const short = all.filter(([, v]) => !isList(v) && plain(v).length <= long), wide = all.filter(([, v]) => !isList(v) && plain(v).length > long);
  const p = part(title);
  p.body.append(facts([...short, ...wide].map(([name, v]) => [name, value(name, plain(v))])));
  for (const [name, v] of all) if (isList(v)) p.body.append(list(name, v));
  const items = p.body.firstChild.children;
  for (let i = short.length; i < items.length; i++) items[i].className = "wide";
  return p.el;
}

export class Setup {
  constructor(route, detail) {
    this.run = route.run;
    this.peers = part("Rollouts used between nodes", { note: "Rollouts that a node used from each peer over the run, and why it did not use others that were offered." });
    const attempts = part("Attempts");
    attempts.body.append(table("Attempts at this run", [
      { label: "#", text: (a) => f.number(a.attempt) }, { label: "Started", text: (a) => f.when(a.started) },
      { label: "Ended", text: (a) => (a.ended > 0 ? f.when(a.ended) : "–") }, { label: "State", text: (a) => f.words(a.state) },
      { label: "Host", text: (a) => a.host || "", minor: true }, { label: "Message", text: (a) => f.clip(a.message, 200) }], detail.attempts || []));
    this.el = h("div", null, this.peers.el, (detail.attempts || []).length ? attempts.el : null, sheet("Configuration", detail.config),
      sheet("Plan", detail.plan),
      sheet("Versions", detail.versions));
    this.load = loader(this.peers.problem, (signal) => this.#fetch(signal), 15_000);
    this.load.now();
  }

  async #fetch(signal) {
    const { peers } = await get(of(this.run, "peers"), null, signal);
    this.peers.el.hidden = !peers?.length;
    if (!peers?.length) return;
    const names = (key) => [...new Set(peers.map((p) => p[key]))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    const from = names("peer"), cells = new Map(peers.map((p) => [`${p.node}\n${p.peer}`, p]));
    const columns = [{ label: "Learner", text: (n) => n }, ...from.map((peer) => ({ label: `from ${peer}`, number: true, cell: (n) => {
      const p = cells.get(`${n}\n${peer}`);
      if (!p) return f.none;
      const rest = `filtered ${p.filtered}, rejected ${p.rejected}, rounds too late ${p.late}`;
      return h("span", { title: `available ${p.available}, used ${p.used}, ${rest}` }, f.number(p.used));
    } }))];
    put(this.peers.body, table("Rollouts used, by learner and source", columns, names("node")),
      h("details", null, h("summary", null, "In full"), table("Rollouts by learner and source", [
        { label: "Learner", text: (p) => p.node }, { label: "Source", text: (p) => p.peer },
        ...["available", "used", "filtered", "rejected", "late"].map((k) => ({ label: k === "late" ? "late rounds" : k, number: true,
          text: (p) => f.number(p[k]) }))], peers)));
  }

  refresh() {
    this.load.now();
  }

  leave() {
    this.load.stop();
  }
}
