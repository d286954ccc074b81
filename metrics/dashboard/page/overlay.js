// Curves of several runs over each other: a metric, smoothed, with the band over nodes.
import { get, of } from "./api.js";
import { fillSelect, h, select, toggle } from "./dom.js";
import { empty, loader, part } from "./load.js";
import { change } from "./route.js";

export const windows = [["1", "none"], ["10", "10 rounds"], ["100", "100 rounds (paper)"], ["500", "500 rounds"]];
export const mostRuns = 12; // drawn at once: each is a request
const points = 600;

let known; // promise of the metrics there are, with their units

export function metrics() {
  known ||= get("api/metrics").then((m) => m.metrics, (error) => {
    known = undefined;
    throw error;
  });
  return known;
}

// unit as swarmCharts knows it.
export const chartUnit = (unit) => (["bytes", "seconds", "ratio", "watts", "celsius"].includes(unit) ? unit : "number");

// metricChooser is a chooser of metrics that fills itself.
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

// Overlay: set(runs) takes the rows of the runs to draw.
export class Overlay {
  constructor(route) {
    this.route = route;
    this.curves = new Map(); // run -> {key, curve}
    const p = route.params;
    const again = (key, standard) => (v) => {
      change(route, { [key]: v === standard ? "" : v });
      this.load.now();
    };
    this.metric = metricChooser(p.get("metric") || "reward", again("metric", "reward"));
    this.window = select("Moving average", windows, p.get("window") || "100", again("window", "100"));
    this.x = select("Against", [["round", "rounds"], ["time", "time"]], p.get("x") || "round", again("x", "round"));
    this.band = toggle("Band over nodes", p.get("band") !== "0", (on) => again("band", "1")(on ? "1" : "0"));
    this.part = part("Curves", { tools: [this.metric.el, this.window.el, this.x.el, this.band.el], anchor: "curves" });
    this.note = h("p", { class: "note" });
    this.place = h("div");
    this.part.body.append(this.place, this.note);
    this.chart = chartIn(this.place);
    this.el = this.part.el;
    this.runs = [];
    this.load = loader(this.part.problem, (signal) => this.#fetch(signal), 5000);
  }

  set(runs, what) {
    const key = (all) => all.map((r) => `${r.run}/${r.round}/${r.state}`).join();
    const next = runs.slice(0, mostRuns);
    const changed = key(next) !== key(this.runs);
    const others = next.map((r) => r.run).join() !== this.runs.map((r) => r.run).join();
    this.what = runs.length > mostRuns ? `${what}; the first ${mostRuns} of ${runs.length} are drawn` : what;
    this.runs = next;
    if (others) this.load.now();
    else if (changed) this.load.poke();
  }

  async #fetch(signal) {
    const metric = this.metric.box.value, window = this.window.box.value;
    const wanted = this.runs;
    const all = await Promise.all(wanted.map(async (r) => {
      const key = [r.run, r.round, r.state, metric, window].join("/");
      const have = this.curves.get(r.run);
      if (have?.key === key) return have.curve;
      const curve = await get(of(r.run, "curve"), { metric, window, points }, signal);
      this.curves.set(r.run, { key, curve });
      return curve;
    }));
    this.#draw(all, metric, window, await metrics());
  }

  #draw(all, metric, window, units) {
    const timed = all.length > 0 && all.every((c) => c.time?.length === c.round.length);
    this.x.el.hidden = !timed;
    const time = timed && this.x.box.value === "time";
    const curves = all.filter((c) => c.round.length > 0);
    const smooth = Number(window) > 1;
    this.note.textContent = curves.length
      ? `${this.what}. Lines are means over a run's nodes${smooth ? `, each node smoothed over ${window} rounds first` : ""}; ` +
      "the band reaches from the lowest to the highest node. Nodes of one swarm learn from each other: the band is no confidence interval." : "";
    if (!curves.length) {
      this.chart.destroy();
      this.place.replaceChildren(empty(this.runs.length ? "No round is done yet." : "Choose runs in the table above."));
      return;
    }
    const name = metric.replaceAll("_", " ");
    this.chart.draw("curves", curves, {
      title: smooth ? `${name}, moving average over ${window} rounds` : name, by: time ? "time" : "round", yLabel: name,
        unit: chartUnit(units.find((u) => u.name === metric)?.unit), band: this.band.box.checked, height: 320, colors: this.colors,
    });
  }

  leave() {
    this.load.stop();
    this.chart.destroy();
  }
}
