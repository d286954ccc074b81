// Overlaid curves of experiments: the mean over seeds with its 95 % interval, and single runs on demand.
import { get } from "./api.js";
import { fillSelect, h, select, toggle } from "./dom.js";
import { empty, loader, part } from "./load.js";
import { change } from "./route.js";

export const windows = [["1", "none"], ["10", "10 rounds"], ["100", "100 rounds (paper)"], ["500", "500 rounds"]];
export const mostExperiments = 8; // drawn at once, because there are this many colors
const points = 600;

let known; // promise of api/metrics: the available metrics and axes

function tables() {
  known ||= get("api/metrics").catch((error) => {
    known = undefined;
    throw error;
  });
  return known;
}

// metrics returns the metrics that have curves, with their units.
export const metrics = () => tables().then((t) => t.metrics);

// unit in swarmCharts' terms.
export const chartUnit = (unit) => (["bytes", "seconds", "ratio", "watts", "celsius"].includes(unit) ? unit : "number");

// metricChooser returns a chooser that fills itself with the metrics.
export function metricChooser(value, chosen) {
  const choose = select("Metric", [[value, value.replaceAll("_", " ")]], value, chosen);
  metrics().then((all) => fillSelect(choose.box, all.map((m) => [m.name, m.name.replaceAll("_", " ")]), choose.box.value), () => {});
  return choose;
}

// chartIn keeps one chart in an element: draw(kind, ...arguments) makes it, then updates it.
export function chartIn(el) {
  let chart;
  return {
    draw(kind, ...rest) {
      if (chart) chart.update(...rest);
      else chart = globalThis.swarmCharts[kind](el, ...rest);
      el.dataset.drawn = "";
    },
    destroy() {
      chart?.destroy();
      chart = undefined;
      delete el.dataset.drawn;
    },
  };
}

// Overlay: set(runs, every, what) draws the runs of the given rows. Without every, each experiment is drawn with the
// runs that a comparison counts.
export class Overlay {
  constructor(route) {
    this.route = route;
    const p = route.params;
    const again = (key, standard) => (v) => {
      change(route, { [key]: v === standard ? "" : v });
      this.load.now();
    };
    const flag = (key, standard) => (on) => again(key, standard)(on ? "1" : "0");
    const per = { round: "rounds", time: "seconds" }[p.get("x")] || p.get("x") || "rounds"; // links from before there were five axes
    this.metric = metricChooser(p.get("metric") || "reward", again("metric", "reward"));
    this.window = select("Moving average", windows, p.get("window") || "100", again("window", "100"));
    this.x = select("Against", [[per, per]], per, again("x", "rounds"));
    tables().then((t) => fillSelect(this.x.box, t.axes.map((a) => [a.name, a.name]), this.x.box.value), () => {});
    this.band = toggle("95 % band", p.get("band") !== "0", flag("band", "1"));
    this.single = toggle("Single runs", p.get("single") === "1", flag("single", "0"));
    this.part = part("Curves", { tools: [this.metric.el, this.window.el, this.x.el, this.band.el, this.single.el], anchor: "curves" });
    this.note = h("p", { class: "note" });
    this.place = h("div");
    this.part.body.append(this.place, this.note);
    this.chart = chartIn(this.place);
    this.el = this.part.el;
    this.runs = [];
    this.load = loader(this.part.problem, (signal) => this.#fetch(signal), 5000);
  }

  set(runs, every, what) {
    const key = (all) => all.map((r) => `${r.run}/${r.round}/${r.state}`).join();
    const changed = key(runs) !== key(this.runs);
    const others = every !== this.every || runs.map((r) => r.run).join() !== this.runs.map((r) => r.run).join();
    Object.assign(this, { runs, every, what });
    if (others) this.load.now();
    else if (changed) this.load.poke();
  }

  async #fetch(signal) {
    if (!this.runs.length) return this.#draw([], "", "1", "rounds", await tables());
    const metric = this.metric.box.value, window = this.window.box.value, per = this.x.box.value;
    const names = this.every ? this.runs.map((r) => ["runs", r.run]) : [...new Set(this.runs.map((r) => r.experiment))].map((n) => ["names", n]);
    const query = new URLSearchParams([...names, ["metric", metric], ["window", window], ["points", points], ["per", per], ["single", "1"]]);
    const { experiments } = await get(`api/curves?${query}`, null, signal);
    this.#draw(experiments, metric, window, per, await tables());
  }

  #draw(all, metric, window, per, { metrics: units, axes }) {
    const curves = all.filter((c) => c.x.length > 0);
    const smooth = Number(window) > 1;
    const one = curves.every((c) => c.seeds < 2);
    this.note.textContent = curves.length
      ? `${this.what}. A line is an experiment's mean over seeds and nodes${smooth ? `, each node smoothed over ${window} rounds first` : ""}. ` +
        (one ? "With one seed there is no band." : "The band is the 95 % interval of that mean over seeds.") : "";
    if (!curves.length) {
      this.chart.destroy();
      const missing = all.length && per !== "rounds" ? `These runs have no known ${per}.` : "No round is done yet.";
      return void this.place.replaceChildren(empty(this.runs.length ? missing : "Choose runs in the table above."));
    }
    const name = metric.replaceAll("_", " ");
    this.chart.draw("experiments", curves, {
      title: smooth ? `${name}, moving average over ${window} rounds` : name, axis: axes.find((a) => a.name === per), yLabel: name,
      unit: chartUnit(units.find((u) => u.name === metric)?.unit), band: this.band.box.checked, single: this.single.box.checked, height: 320,
      colors: this.colors,
    });
  }

  leave() {
    this.load.stop();
    this.chart.destroy();
  }
}
