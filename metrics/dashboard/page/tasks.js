// The nodes' rewards by task during training.
import { get, of } from "./api.js";
import { h, put } from "./dom.js";
import * as f from "./format.js";
import { empty, loader, part } from "./load.js";
import { sparkline } from "./nodes.js";
import { chartIn } from "./overlay.js";
import { table } from "./table.js";

// course draws a sparkline of a task's steps.
function course(steps) {
  const line = sparkline();
  line.to(steps || []);
  return line.el;
}

export class Tasks {
  constructor(route, detail) {
    this.run = route.run;
    this.round = detail.status.round;
    this.part = part("Rewards by task", { note: "Training rewards: mean over the nodes' own completions of the task." });
    this.place = h("div");
    this.rows = h("div");
    this.part.body.append(this.rows, this.place);
    this.chart = chartIn(this.place);
    this.el = this.part.el;
    this.load = loader(this.part.problem, (signal) => this.#fetch(signal), 8000);
    this.load.now();
  }

  async #fetch(signal) {
    const t = await get(of(this.run, "tasks"), null, signal);
    if (!t.tasks?.length) {
      this.chart.destroy();
      return void put(this.rows, empty("No round is done yet."));
    }
    put(this.rows, table("Rewards by task", [
      { label: "Task", text: (r) => f.words(r.task) }, { label: "Reward", number: true, text: (r) => f.reward(r.reward) },
      { label: "Completions", number: true, minor: true, text: (r) => f.number(r.completions) }, { label: "Course", cell: (r) => course(r.steps) }],
        t.tasks));
    this.chart.draw("lines", { title: "Reward by task", x: t.round, xLabel: "round", yLabel: "reward", height: 280, yMin: 0,
      series: t.tasks.map((r, i) => ({ label: f.words(r.task), values: r.steps, color: i, dash: i })) });
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
    this.chart.destroy();
  }
}
