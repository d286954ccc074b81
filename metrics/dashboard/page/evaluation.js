// Held-out evaluations of a run.
import { get, of } from "./api.js";
import { h, put } from "./dom.js";
import * as f from "./format.js";
import { empty, loader, part } from "./load.js";
import { chartIn } from "./overlay.js";
import { table } from "./table.js";

const pass = (row, k) => row.pass?.find((p) => p.k === k)?.value;
const kOf = (rows) => [...new Set(rows.flatMap((r) => (r.pass || []).map((p) => p.k)))].sort((a, b) => a - b);
const passColumns = (ks) => ks.map((k) => ({ label: `pass@${k}`, number: true, title: `at least one of ${k} completions is right`,
  text: (r) => f.percent(pass(r, k), false, 1) }));

export class Evaluation {
  constructor(route, detail) {
    this.run = route.run;
    this.round = detail.status.round;
    this.course = part("Held-out questions",
      { note: "No node trains on these questions, and they are the same for every experiment. They decide between experiments." });
    this.tasks = part("By task, newest evaluation");
    this.places = [h("div"), h("div")];
    this.charts = this.places.map(chartIn);
    this.rows = h("div");
    this.course.body.append(h("div", { class: "two" }, this.places), this.rows);
    this.el = h("div", null, this.course.el, this.tasks.el);
    this.load = loader(this.course.problem, (signal) => this.#fetch(signal), 8000);
    this.load.now();
  }

  async #fetch(signal) {
    const e = await get(of(this.run, "evaluations"), null, signal);
    this.tasks.el.hidden = !e.tasks?.length;
    if (!e.rows?.length) {
      for (const c of this.charts) c.destroy();
      put(this.places[0], empty("No held-out evaluation yet. Nodes are evaluated every eval_every rounds and at the end. To evaluate a checkpoint now:",
        `swarm eval ${this.run}`));
      return void put(this.rows);
    }
    const ks = kOf(e.rows), x = e.rows.map((r) => r.round);
    this.charts[0].draw("lines", { title: "Held-out reward, mean over nodes; band: worst to best node", x, xLabel: "round", yLabel: "reward",
      height: 240, sync: "eval", yMin: 0,
      series: [{ label: "reward", values: e.rows.map((r) => r.reward), low: e.rows.map((r) => r.reward_low), high: e.rows.map((r) => r.reward_high),
        color: 0 }] });
    this.charts[1].draw("lines", { title: "pass@k", x, xLabel: "round", unit: "ratio", height: 240, sync: "eval", yMin: 0, yMax: 1,
      series: ks.map((k, i) => ({ label: `pass@${k}`, values: e.rows.map((r) => pass(r, k) ?? null), color: i, dash: i })) });
    put(this.rows, table("Held-out evaluations", [
      { label: "Rounds learnt", text: (r) => f.number(r.round) },
      { label: "Reward", number: true, text: (r) => f.reward(r.reward) },
      { label: "Worst … best node", number: true, text: (r) => `${f.reward(r.reward_low)} … ${f.reward(r.reward_high)}` },
      ...passColumns(ks),
      { label: "In format", number: true, text: (r) => f.percent(r.format_rate), minor: true },
      { label: "Tokens", number: true, title: "mean length of a completion", text: (r) => f.number(r.completions_mean_length), minor: true },
      { label: "Nodes", number: true, text: (r) => f.number(r.nodes), minor: true },
      { label: "Questions × completions", number: true, text: (r) => `${r.questions} × ${r.generations}`, minor: true },
    ], [...e.rows].reverse()));
    put(this.tasks.body, table("Newest held-out evaluation by task", [
      { label: "Task", text: (t) => f.words(t.task) }, { label: "Questions", number: true, text: (t) => f.number(t.questions) },
      { label: "Reward", number: true, text: (t) => f.reward(t.reward) }, ...passColumns(ks)], e.tasks || []));
  }

  status(s) {
    if (s.round !== this.round || s.state !== this.state) this.load.poke();
    this.round = s.round;
    this.state = s.state;
  }

  refresh() {
    this.load.now();
  }

  leave() {
    this.load.stop();
    for (const c of this.charts) c.destroy();
  }
}
