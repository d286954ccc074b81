// A run's curves: one selectable metric with its nodes, the parts of a round's time, and the metrics of training.
import { get, of } from "./api.js";
import { h, select, toggle } from "./dom.js";
import { empty, loader, part } from "./load.js";
import { chartIn, chartUnit, metricChooser, metrics, windows } from "./overlay.js";
import { change } from "./route.js";

const points = 600;
const words = (name) => name.replaceAll("_", " ");

// times are the parts of a round, in the order in which they are done.
const times = [
  ["generate_time", "generate"], ["score_time", "score"], ["barrier_time", "wait for peers"], ["update_time", "update"],
  ["lease_time", "wait for the GPU"], ["journal_time", "journal"], ["step_time", "whole round"],
];

// groups are the charts below. Each has metrics of one unit.
const groups = [
  ["Rewards", "number", [["reward", "own completions"], ["training_reward", "training set"]],
    "Groups of the training set are selected by their advantages, so its reward is not the swarm's. Cumulative reward sums own completions."],
  ["Groups trained on", "number", [["trained_own", "own"], ["trained_external", "from others"]], null],
  ["Shares", "ratio", [["frac_reward_zero_std", "groups without advantage"], ["format_rate", "answers in format"],
    ["completions_clipped_ratio", "completions cut off"]], null],
  ["Policy", "number", [["entropy", "entropy"], ["grad_norm", "gradient norm"], ["kl", "KL"]], null],
  ["Sampler and trainer", "number", [["sampling_logp_difference_max", "largest"], ["sampling_logp_difference_mean", "mean"]],
    "Difference of log-probabilities in nats. Above 0.05 they disagree."],
  ["Others' tokens", "ratio", [["external_clip_ratio", "weight clipped"], ["external_ess", "effective sample size"]],
    "If external_correction weights them. With an effective sample size near 0, few of them decide."],
];

// split is shown if the run's split is not fixed.
const split = ["I and J", "number", [["split_external", "J, others'"], ["split_own", "I, own"]],
  "I and J of each round, as the run's rule chose them. Their sum is constant."];

// RunCurve draws one metric of a run: a thin line per node, their mean, and the band. A chooser changes the metric.
export class RunCurve {
  constructor(route, { metric, chooser }) {
    this.route = route;
    const p = route.params;
    const again = (key, standard) => (v) => {
      change(route, { [key]: v === standard ? "" : v });
      this.load.now();
    };
    this.metric = metricChooser(p.get("metric") || metric, again("metric", metric));
    this.window = select("Moving average", windows, p.get("window") || "10", again("window", "10"));
    this.nodes = toggle("Each node", p.get("nodes") !== "0", (on) => again("nodes", "1")(on ? "1" : "0"));
    this.part = part("Curve", { tools: chooser ? [this.metric.el, this.window.el, this.nodes.el] : [], anchor: "curve" });
    this.place = h("div");
    this.part.body.append(this.place);
    this.chart = chartIn(this.place);
    this.el = this.part.el;
    this.load = loader(this.part.problem, (signal) => this.#fetch(signal), 5000);
    this.load.now();
  }

  async #fetch(signal) {
    const metric = this.metric.box.value, window = this.window.box.value;
    const curve = await get(of(this.route.run, "curve"), { metric, window, points }, signal);
    const unit = chartUnit((await metrics()).find((m) => m.name === metric)?.unit);
    if (!curve.round.length) {
      this.chart.destroy();
      return void this.place.replaceChildren(empty("No round is done yet."));
    }
    const smooth = Number(window) > 1;
    this.chart.draw("curves", [curve], { title: smooth ? `${words(metric)}, moving average over ${window} rounds` : words(metric), xLabel: "round",
      yLabel: words(metric), unit, band: true, nodes: this.nodes.box.checked, height: 280 });
  }

  status(s) {
    if (this.round !== undefined && this.round !== s.round) this.load.poke();
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

// align converts means (or another key) of curves with different rounds to common rounds. It uses undefined if a series
// has no point, so that its line continues.
export function align(curves, key = "mean") {
  const x = [...new Set(curves.flatMap((c) => c.round))].sort((a, b) => a - b);
  const at = new Map(x.map((round, i) => [round, i]));
  return { x, values: curves.map((c) => {
    const out = new Array(x.length).fill(undefined);
    c.round.forEach((round, i) => { out[at.get(round)] = c[key][i]; });
    return out;
  }) };
}

// Group draws several metrics of a run, means over its nodes.
class Group {
  constructor(run, [title, unit, series, note], options = {}) {
    Object.assign(this, { run, title, unit, series, options });
    this.part = part(title, { note });
    this.place = h("div");
    this.part.body.append(this.place);
    this.chart = chartIn(this.place);
    this.el = this.part.el;
    this.load = loader(this.part.problem, (signal) => this.draw(signal), 8000);
    this.load.now();
  }

  async draw(signal) {
    const names = (await metrics()).map((m) => m.name);
    const wanted = this.series.filter(([name]) => names.includes(name));
    const curves = await Promise.all(wanted.map(([metric]) => get(of(this.run, "curve"), { metric, window: this.options.window || 10, points: 300 },
      signal)));
    if (!curves.some((c) => c.round.length)) {
      this.chart.destroy();
      return void this.place.replaceChildren(empty("No round is done yet."));
    }
    this.el.hidden = !curves.some((c) => c.mean.some((v) => v !== null)); // a run may have none of these metrics
    if (this.el.hidden) return;
    const { x, values } = align(curves);
    this.chart.draw("lines", { title: "Means over nodes, moving average over 10 rounds", x, xLabel: "round", unit: this.unit, height: 220,
      sync: "run", yMin: 0,
      series: wanted.map(([name, label], i) => ({ label, values: values[i], color: i, dash: i, width: name === "step_time" ? 3 : 1.5 })) });
  }

  leave() {
    this.load.stop();
    this.chart.destroy();
  }
}

// Split draws the I and J that a run's rule chose: means over nodes, with a band from the lowest to the highest node.
// It shows nothing for a fixed split.
class Split extends Group {
  constructor(run) {
    super(run, split);
    this.el.hidden = true;
  }

  async draw(signal) {
    if (this.fixed) return;
    const curves = [];
    for (const [metric] of this.series) {
      curves.push(await get(of(this.run, "curve"), { metric, window: 1, points: 300 }, signal));
      if (!curves[0].mean.some((v) => v !== null)) {
        this.fixed = curves[0].round.length > 0;
        return;
      }
    }
    this.el.hidden = false;
    const { x, values } = align(curves), low = align(curves, "low").values, high = align(curves, "high").values;
    this.chart.draw("lines", { title: "Means over nodes, bands from the lowest to the highest", x, xLabel: "round", unit: this.unit, height: 220,
      sync: "run", yMin: 0, series: this.series.map(([, label], i) => ({ label, values: values[i], low: low[i], high: high[i], color: i, dash: i, width: 1.5 })) });
  }
}

// Charts is the section with all of these charts.
export class Charts {
  constructor(route) {
    this.curve = new RunCurve(route, { metric: "reward", chooser: true });
    const time = ["Time of a round", "seconds", times, null];
    this.groups = [...[time, ...groups].map((g) => new Group(route.run, g)), new Split(route.run)];
    this.el = h("div", null, this.curve.el, h("div", { class: "two" }, this.groups.map((g) => g.el)));
  }

  status(s) {
    this.curve.status(s);
    if (this.round !== undefined && this.round !== s.round) for (const g of this.groups) g.load.poke();
    this.round = s.round;
  }

  refresh() {
    this.curve.refresh();
    for (const g of this.groups) g.load.now();
  }

  leave() {
    this.curve.leave();
    for (const g of this.groups) g.leave();
  }
}
