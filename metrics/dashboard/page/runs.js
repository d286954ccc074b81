// The first view: all runs, the verdict of their study, the curves of the chosen ones, and their comparison.
import { Compare } from "./compare.js";
import { h, put, select } from "./dom.js";
import * as f from "./format.js";
import { part } from "./load.js";
import { Overlay, mostExperiments } from "./overlay.js";
import { change } from "./route.js";
import { RunsTable, groupings } from "./runs-table.js";
import { StudyPart } from "./study.js";

const shownAtFirst = 6; // number of newest experiments whose curves are drawn if none is chosen
const grouped = 12; // more runs than this are grouped by experiment, unless the user chooses otherwise

// colors gives every experiment its own color, independent of the choice.
function colors(runs) {
  const names = [...new Set([...runs].sort((a, b) => a.started - b.started).map((r) => r.experiment))];
  return Object.fromEntries(names.map((name, i) => [name, i]));
}

// RunsView: update(document of api/runs) shows it.
export class RunsView {
  constructor(route) {
    this.route = route;
    this.runs = [];
    const p = route.params;
    this.chosen = new Set((p.get("sel") || "").split(",").filter(Boolean).map(decodeURIComponent));
    this.filter = h("input", { type: "search", id: "filter", placeholder: "name, model, state", value: p.get("q"),
      oninput: () => this.#set({ q: this.filter.value }) });
    this.group = select("Group by", groupings, p.get("group") || "", (v) => this.#set({ group: v || "none" }));
    this.clear = h("button", { type: "button", onclick: () => this.#choose([...this.chosen], false) });
    this.part = part("Runs", { anchor: "runs-title", tools: [
      h("label", { class: "choose", for: "filter" }, h("span", null, "Filter"), this.filter), this.group.el, this.clear] });
    this.table = new RunsTable({
      sorted: (key) => this.#set({ sort: this.#view().sort === key ? `-${key}` : key }),
      choose: (runs, on) => this.#choose(runs, on),
    });
    this.part.body.append(this.table.el);
    this.study = new StudyPart(route);
    this.overlay = new Overlay(route);
    this.compare = new Compare(route);
    this.el = h("div", null);
    this.title = "Runs";
  }

  #view() {
    const p = this.route.params;
    const chosen = p.get("group"), group = chosen === "none" ? "" : chosen ?? (this.runs.length > grouped ? "experiment" : "");
    return { group, folded: Boolean(group) && this.runs.length > grouped && !p.get("q"), sort: p.get("sort") || "-started", filter: p.get("q") || "", chosen: this.chosen };
  }

  #set(values) {
    change(this.route, values);
    this.#draw();
  }

  #choose(runs, on) {
    for (const run of runs) this.chosen[on ? "add" : "delete"](run);
    this.#set({ sel: [...this.chosen].map(encodeURIComponent).join(",") });
  }

  update(doc) {
    this.doc = doc;
    this.runs = doc.runs;
    for (const run of this.chosen) if (!this.runs.some((r) => r.run === run)) this.chosen.delete(run);
    this.#draw();
  }

  #draw() {
    if (!this.doc) return;
    if (!this.runs.length) return void put(this.el, this.#empty());
    if (!this.part.el.isConnected) put(this.el, this.part.el, this.study.el, this.overlay.el, this.compare.el);
    this.clear.hidden = this.chosen.size === 0;
    this.clear.textContent = `Choose none (${this.chosen.size})`;
    const newest = [...this.runs].sort((a, b) => b.started - a.started);
    const some = this.chosen.size ? newest.filter((r) => this.chosen.has(r.run)) : newest;
    const names = [...new Set(some.map((r) => r.experiment))], drawn = names.slice(0, this.chosen.size ? mostExperiments : shownAtFirst);
    const lines = some.filter((r) => drawn.includes(r.experiment));
    const all = f.count(names.length, this.chosen.size ? "chosen experiment" : "experiment");
    const what = drawn.length < names.length ? `The newest ${drawn.length} of ${all}; choose others in the table` : all[0].toUpperCase() + all.slice(1);
    this.overlay.colors = colors(this.runs);
    const view = this.#view();
    this.group.box.value = view.group;
    this.table.set(this.runs, { ...view, drawn: new Set(lines.map((r) => r.run)), colors: this.overlay.colors });
    this.study.set(this.runs);
    this.overlay.set(lines, this.chosen.size > 0, what);
    this.compare.set(some);
  }

  #empty() {
    const problem = this.doc.database === "unusable";
    return h("section", { class: "part empty large", "data-empty": true, "aria-labelledby": "empty-title" },
      h("h2", { id: "empty-title" }, problem ? "The database can't be read" : "No run yet"),
      problem ? h("p", null, this.doc.problem) : [
        h("p", null, "Start a swarm in a terminal. It appears here by itself."),
        h("pre", null, h("code", null, "swarm up --config 4loc4ext --nodes auto")),
        h("p", null, "Or start a small one on the CPU, which takes about a minute."),
        h("pre", null, h("code", null, "swarm up --config 4loc4ext --model nano --device cpu --nodes 2 --rounds 12")),
        h("p", null, "Then start the baseline to compare it with."),
        h("pre", null, h("code", null, "swarm up --config 8loc0ext --model nano --device cpu --nodes 2 --rounds 12")),
      ]);
  }

  leave() {
    this.study.leave();
    this.overlay.leave();
    this.compare.leave();
  }
}
