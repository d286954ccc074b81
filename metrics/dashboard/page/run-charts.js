// A run's curves: one metric of choice with its nodes, where the time of a round goes, and how training goes.
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

// groups are the charts below: metrics of one unit each.
const groups = [
  ["Rewards", "number", [["reward", "own completions"], ["training_reward", "training set"]],
    "The training set is chosen for its advantages, so its reward is not the swarm's; cumulative reward sums own completions."],
  ["Groups trained on", "number", [["trained_own", "own"], ["trained_external", "from others"]], null],
  ["Shares", "ratio", [["frac_reward_zero_std", "groups without advantage"], ["format_rate", "answers in format"],
    ["completions_clipped_ratio", "completions cut off"]], null],
  ["Policy", "number", [["entropy", "entropy"], ["grad_norm", "gradient norm"], ["kl", "KL"]], null],
  ["Sampler and trainer", "number", [["sampling_logp_difference_max", "largest"], ["sampling_logp_difference_mean", "mean"]],
    "Difference of log-probabilities in nats. Above 0.05 they disagree."],
  ["Others' tokens", "ratio", [["external_clip_ratio", "weight clipped"], ["external_ess", "effective sample size"]],
    "Where external_correction weighs them. An effective sample size near 0: few of them decide."],
];

// split is shown where the run's isn't fixed.
const split = ["I and J", "number", [["split_external", "J, others'"], ["split_own", "I, own"]],
  "What the run's rule chose, round by round. Their sum stays."];

// RunCurve draws one metric of a run: each node thin, their mean, the band. Its chooser can change the metric.
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

// align puts means (or another key) with rounds of their own on common ones: undefined where a series has no point, so that its line goes on.
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
    this.el.hidden = !curves.some((c) => c.mean.some((v) => v !== null)); // a run may have none of them
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

// Split draws how a run's rule chose I and J: means over nodes, with the band from the lowest to the highest. Of a fixed split it shows nothing.
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

// Charts is the section of all of them.
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
