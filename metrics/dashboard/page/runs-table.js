// The table of runs: grouped, sorted and filtered, with checkboxes to choose runs for the charts below.
import { h, keyed, put, say, set } from "./dom.js";
import * as f from "./format.js";
import { badge, bar, classes } from "./table.js";

export const groupings = [["", "none"], ["experiment", "experiment"], ["config", "configuration"], ["state", "state"]];

const text = (a, b) => String(a).localeCompare(String(b), "en", { numeric: true });
const progress = (r) => (r.rounds > 0 ? r.round / r.rounds : 0);

// same returns the value that all runs share, else the range from the lowest to the highest. sum adds up the known
// values.
const same = (values) => {
  const all = [...new Set(values)].sort((a, b) => a - b);
  return all.length < 2 ? all[0] : `${all[0]} … ${all[all.length - 1]}`;
};
const sum = (values) => values.reduce((total, v) => total + (v || 0), 0);
const states = (runs) => [...new Set(runs.map((r) => r.state))].map((s) => `${runs.filter((r) => r.state === s).length} ${f.words(s)}`).join(", ");
const costs = (runs) => (runs.every((r) => typeof r.cost === "number" && r.price_currency === runs[0].price_currency)
  ? f.money(sum(runs.map((r) => r.cost)), runs[0].price_currency) : "");

// columns: by returns the value by which a column sorts. of returns the content of the column in the row of a group.
const columns = [
  { key: "experiment", label: "Experiment", by: (r) => r.experiment },
  { key: "config", label: "I/J", title: "own questions / rollouts taken from others, a round", by: (r) => r.config, minor: true,
    of: (runs) => [...new Set(runs.map((r) => r.config))].join(", ") },
  { key: "state", label: "State", by: (r) => r.state, of: states },
  { key: "progress", label: "Rounds", by: progress, of: (runs) => same(runs.map((r) => r.round)) },
  { key: "nodes", label: "Nodes", number: true, by: (r) => r.nodes, least: true,
    of: (runs) => same(runs.map((r) => r.nodes)) },
  { key: "reward", label: "Reward", title: "mean reward per node and round so far", number: true, by: (r) => r.reward_per_node_round },
  { key: "eval", label: "Held-out", title: "newest held-out evaluation, mean over nodes", number: true, by: (r) => r.eval_reward, minor: true },
  { key: "cumulative", label: "Cumulative", title: "sum of rewards over nodes and rounds", number: true, by: (r) => r.cumulative_reward,
    least: true },
  { key: "time", label: "Time", title: "time without pauses; of a running run, time left", number: true, by: (r) => r.active_seconds, minor: true,
    of: (runs) => f.seconds(sum(runs.map((r) => r.active_seconds))) },
  { key: "cost", label: "Cost", number: true, by: (r) => r.cost, least: true, of: costs },
  { key: "started", label: "Started", by: (r) => r.started, least: true,
    of: (runs) => f.when(Math.max(...runs.map((r) => r.started))) },
];

// RunsTable: set(runs, view) shows them; view: {group, sort, filter, chosen: Set of runs, drawn: Set of those
// with a curve below, colors: by experiment}. It calls sorted(key) and choose(runs, on).
export class RunsTable {
  constructor({ sorted, choose }) {
    this.choose = choose;
    this.all = h("input", { type: "checkbox", "aria-label": "choose all runs shown",
      onchange: () => choose(this.shown.map((r) => r.run), this.all.checked) });
    this.heads = columns.map((c) => h("th", { scope: "col", class: classes(c) },
      h("button", { type: "button", class: "sort", title: c.title, onclick: () => sorted(c.key) }, c.label)));
    this.table = h("table", { id: "runs", class: "data" }, h("caption", { class: "visually-hidden" },
      "Runs. Column heads sort the table. Checkboxes choose runs for the charts below."),
      h("thead", null, h("tr", null, h("th", { scope: "col", class: "pick" }, this.all), this.heads)));
    this.el = h("div", { class: "scroll" }, this.table);
    this.none = h("p", { class: "note", hidden: true, role: "status" }, "No run matches.");
    this.el.append(this.none);
    this.bodies = [];
    this.shown = [];
    this.folds = new Map(); // group -> whether the user opened or closed it
  }

  set(runs, view) {
    this.view = view;
    const wanted = (view.filter || "").toLowerCase();
    this.shown = runs.filter((r) => !wanted || [r.experiment, r.run, r.config, r.model,
      r.state].some((t) => String(t).toLowerCase().includes(wanted)));
    this.#sort(view.sort);
    const groups = new Map();
    for (const r of this.shown) {
      const name = view.group ? String(r[view.group]) : "";
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(r);
    }
    this.none.hidden = this.shown.length > 0;
    this.#draw([...groups.keys()], groups);
    this.all.checked = this.shown.length > 0 && this.shown.every((r) => view.chosen.has(r.run));
  }

  #sort(sort) {
    const down = sort.startsWith("-");
    const key = sort.replace(/^-/, "");
    const column = columns.find((c) => c.key === key) || columns[columns.length - 1];
    const missing = (v) => v === null || v === undefined || v === "";
    this.shown.sort((a, b) => {
      const x = column.by(a), y = column.by(b);
      if (missing(x) || missing(y)) return missing(x) - missing(y) || text(a.run, b.run);
      const order = typeof x === "number" ? x - y : text(x, y);
      return (down ? -order : order) || text(a.run, b.run);
    });
    columns.forEach((c, i) => set(this.heads[i], { "aria-sort": c === column ? (down ? "descending" : "ascending") : null }));
  }

  #draw(names, groups) {
    this.drawn = [names, groups];
    const bodies = new Map(this.bodies.map((b) => [b.dataset.key, b]));
    const next = names.map((name) => bodies.get(`${this.view.group}/${name}`) || h("tbody", { "data-key": `${this.view.group}/${name}` }));
    for (const b of this.bodies) if (!next.includes(b)) b.remove();
    this.bodies = next;
    names.forEach((name, i) => {
      if (this.table.tBodies[i] !== next[i]) this.table.insertBefore(next[i], this.table.tBodies[i] || null);
      const rows = groups.get(name);
      const open = !this.view.group || (this.folds.has(name) ? this.folds.get(name) : !this.view.folded);
      const items = this.view.group ? [{ heading: name, runs: rows, open }, ...(open ? rows : [])] : rows;
      keyed(next[i], items, (it) => (it.heading === undefined ? it.run : " group"),
        (it) => (it.heading === undefined ? this.#row(it) : this.#heading(it)),
        (el, it) => el.update(it));
    });
  }

  #heading() {
    let runs = [];
    const box = h("input", { type: "checkbox", onchange: () => this.choose(runs.map((r) => r.run), box.checked) });
    const label = h("span"), key = h("span");
    let name = "", open = true;
    const fold = h("button", { type: "button", class: "fold", onclick: () => {
      this.folds.set(name, !open);
      this.#draw(...this.drawn);
    } }, key, label);
    const el = h("tr", { class: "group" }, h("td", { class: "pick" }, box),
      h("th", { scope: "rowgroup" }, fold), columns.slice(1).map((c) => h("td", { class: classes(c) })));
    el.update = (it) => {
      runs = it.runs;
      [name, open] = [it.heading, it.open];
      set(fold, { "aria-expanded": String(open) });
      columns.slice(1).forEach((c, i) => say(el.children[i + 2], c.of ? String(c.of(runs) ?? "") : ""));
      this.#swatch(key, runs[0], this.view.group === "experiment");
      const what = groupings.find(([v]) => v === this.view.group)[1];
      say(label, `${what === "experiment" ? "" : `${what} `}${what === "state" ? f.words(it.heading) : it.heading || f.none} · ${f.count(runs.length, "run")}`);
      set(box, { "aria-label": `choose all of ${what} ${it.heading}` });
      box.checked = runs.every((r) => this.view.chosen.has(r.run));
      box.indeterminate = !box.checked && runs.some((r) => this.view.chosen.has(r.run));
    };
    return el;
  }

  #row(first) {
    const box = h("input", { type: "checkbox", "aria-label": `choose ${first.run}`, onchange: () => this.choose([first.run], box.checked) });
    const state = badge(), rounds = bar(`rounds of ${first.run}`), done = h("span", { class: "small" });
    const cells = Object.fromEntries(columns.map((c) => [c.key,
      h("td", { class: classes(c) })]));
    const title = h("a", { href: `#/runs/${encodeURIComponent(first.run)}` }, first.experiment);
    const seed = h("span"), model = h("span", { class: "model" }), key = h("span"), restarts = h("span", { class: "small restarts" });
    const under = h("span", { class: "small under" }, key, seed, model);
    cells.experiment = h("th", { scope: "row", class: "name" }, title, under);
    put(cells.state, state.el, restarts);
    put(cells.progress, rounds.el, done);
    const el = h("tr", { "data-run": first.run }, h("td", { class: "pick" }, box), columns.map((c) => cells[c.key]));
    el.update = (r) => {
      box.checked = this.view.chosen.has(r.run);
      set(el, { class: box.checked ? "chosen" : null, title: `${r.run} · seed ${r.seed} · ${r.model} on ${r.device}` });
      say(seed, `seed ${r.seed}`);
      say(model, ` · ${r.model}`);
      this.#swatch(key, r);
      state.to(r.state, f.words(r.state));
      say(restarts, r.restarts > 0 ? f.count(r.restarts, "restart") : "");
      rounds.to(r.round, r.rounds);
      say(done, `${r.round} / ${r.rounds}`);
      say(cells.config, r.config || f.none);
      say(cells.nodes, f.number(r.nodes));
      set(cells.nodes, { title: r.workers > 0 ? `some of ${f.count(r.workers, "worker")}` : null });
      say(cells.reward, f.reward(r.reward_per_node_round));
      say(cells.eval, f.reward(r.eval_reward));
      say(cells.cumulative, f.number(r.cumulative_reward));
      say(cells.time, r.state === "running" && r.eta_seconds !== null && r.eta_seconds !== undefined
        ? `${f.seconds(r.eta_seconds)} left` : f.seconds(r.active_seconds));
      say(cells.cost, f.money(r.cost, r.price_currency));
      say(cells.started, f.when(r.started));
    };
    cells.started.classList.add("when");
    return el;
  }

  // #swatch shows a drawn run's line in the style of the curves below.
  #swatch(key, r, shown = true) {
    const color = shown && this.view.drawn.has(r.run) ? this.view.colors[r.experiment] : "";
    if (key.dataset.color === String(color)) return;
    key.dataset.color = color;
    put(key, color === "" ? null : globalThis.swarmCharts.swatch(color, color, 2));
  }
}
