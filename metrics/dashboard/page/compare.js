// Which configuration is better: the verdicts and the table of api/compare.
import { get } from "./api.js";
import { fillSelect, h, put, select } from "./dom.js";
import * as f from "./format.js";
import { empty, loader, part } from "./load.js";
import { change } from "./route.js";
import { table } from "./table.js";


const measures = [["auto", "pass@1, else reward"], ["reward", "own reward"], ["eval", "held-out reward"], ["pass", "held-out pass@1"]];
const names = { reward: "own reward per node and round", eval: "held-out reward", pass: "held-out pass@1" }; // as stats.MeasureName
const short = { reward: "Own reward", eval: "Held-out", pass: "Pass@1" };
const bases = { cumulative_reward: "cumulative own reward", reward_per_node_round: "own reward per node and round", eval_reward: "held-out reward",
  eval_pass_1: "held-out pass@1" };

// interval writes a 95 % confidence interval of an improvement.
function interval(row) {
  if (typeof row.ci_low !== "number" || typeof row.ci_high !== "number") return f.none;
  return `${f.percent(row.ci_low, true)} … ${f.percent(row.ci_high, true)}`;
}

// chance shows the probability that a run exceeds one of the baseline. Its title is the interval.
function chance(row) {
  if (typeof row.p_value !== "number") return h("span", {}, f.none);
  const [low, high] = [row.probability_ci_low, row.probability_ci_high];
  const ci = typeof low === "number" && typeof high === "number" ? `95 % bootstrap interval ${f.percent(low)} … ${f.percent(high)}` : "";
  return h("span", { title: ci }, f.percent(row.probability_of_improvement));
}

// columns of the table. The value is by the measure that decides.
const columns = (measure, cut) => [
  { label: "Experiment", text: (r) => r.name },
  { label: "I/J", text: (r) => r.config, minor: true },
  { label: "Verdict", cell: (r) => h("span", { class: "verdict", "data-verdict": r.outcome, title: r.verdict }, r.outcome || f.none), minor: true },
  { label: "Improvement", number: true, title: "over the baseline", text: (r) => f.percent(r.improvement, true) },
  { label: "95 % interval", number: true, title: "of the improvement, over seeds", text: interval },
  { label: "p", number: true, title: "permutation test over seeds (exact up to 20,000 arrangements), corrected for the other rows by Holm",
    text: (r) => f.p(r.p_value_holm) },
  { label: short[measure] || f.words(measure), number: true, title: "mean over seeds of what is compared",
    text: (r) => (r.measure === measure ? "" : `${short[r.measure]} `) + f.reward(r.value), minor: true },
  { label: "Seeds", number: true, text: (r) => f.number(r.seeds) },
  { label: "Reward", number: true, title: "own, per node and round, mean over seeds", text: (r) => f.reward(r.reward_per_node_round), minor: true },
  { label: "Cumulative", number: true, title: "mean over runs", text: (r) => f.number(r.cumulative_reward), least: true },
  { label: "P(better)", number: true, title: "probability that a run of it has more than one of the baseline", cell: chance, least: true },
  { label: "Rounds", number: true, title: "fewest of any run", text: (r) => f.number(r.rounds), least: true },
  { label: "Compared", number: true, title: "rounds that the baseline has, too", text: (r) => f.number(r.rounds_compared?.to), least: true },
  { label: "Paper", number: true, title: "improvement of this I/J over 8/0 in the paper", text: (r) => f.percent(r.paper_improvement, true),
    least: true },
].filter((c) => (measure !== "reward" || c.label !== "Reward") && (cut || c.label !== "Compared"));

// sentence returns a row's verdict as a sentence.
function sentence(row, baseline) {
  const ci = interval(row);
  const extent = typeof row.improvement === "number"
    ? ` (${f.percent(row.improvement, true)}${ci === f.none ? "" : `, 95 % interval ${ci}`})` : "";
  const decided = row.outcome === "better" || row.outcome === "worse";
  const by = `by ${names[row.measure] || f.words(row.measure)}`;
  return (decided ? `${row.name} is ${row.outcome} than ${baseline} ${by}${extent}.` : `${row.name} against ${baseline}, ${by}: ${row.verdict}${extent}.`)
    + differences(row);
}

// differences names the settings in which a row differs, except I and J, which have a column.
const shown = ["preset", "tasks.set", "num_train_samples", "num_transplant_trees"];
const most = 5;

function differences(row) {
  const list = row.differs.filter((d) => !shown.includes(d.key)).map((d) => `${d.key} ${d.value} against ${d.baseline} (${d.role})`);
  if (list.length > most) list.splice(most, Infinity, `and ${list.length - most} more`);
  return list.length ? ` Different: ${list.join(", ")}.` : "";
}

// Compare compares the experiments of the given runs: call set(runs) with rows of api/runs.
export class Compare {
  constructor(route) {
    this.route = route;
    const p = route.params;
    const again = (key, standard) => (v) => {
      change(route, { [key]: v === standard ? "" : v });
      this.load.now();
    };
    this.by = select("Group by", [["experiment", "experiment"], ["config", "configuration"]], p.get("by") || "experiment", again("by", "experiment"));
    this.measure = select("Decide by", measures, p.get("measure") || "auto", again("measure", "auto"));
    this.baseline = select("Baseline", [["", "automatic"]], "", again("baseline", ""));
    this.part = part("Comparison", { tools: [this.by.el, this.measure.el, this.baseline.el], anchor: "comparison" });
    this.el = this.part.el;
    this.names = [];
    this.load = loader(this.part.problem, (signal) => this.#fetch(signal), 10_000);
  }

  set(runs) {
    const names = [...new Set(runs.map((r) => r.experiment))];
    const key = runs.map((r) => `${r.run}/${r.round}/${r.state}`).join();
    if (key === this.key) return;
    this.key = key;
    const others = names.join() !== this.names.join();
    this.names = names;
    const wanted = this.route.params.get("baseline") || "";
    fillSelect(this.baseline.box, [["", "automatic"], ...names.map((n) => [n, n])], names.includes(wanted) ? wanted : "");
    if (others) this.load.now();
    else this.load.poke();
  }

  async #fetch(signal) {
    if (!this.names.length) return void put(this.part.body, empty("Nothing to compare yet."));
    const names = this.names.map((n) => ["names", n]);
    const params = { by: this.by.box.value, measure: this.measure.box.value, baseline: this.baseline.box.value };
    const query = new URLSearchParams([...names, ...Object.entries(params).filter(([, v]) => v)]);
    this.#draw(await get(`api/compare?${query}`, null, signal));
  }

  #draw(c) {
    const others = c.rows.filter((r) => c.baseline && r.outcome !== "baseline");
    const lines = others.length ? others.map((r) => h("li", { "data-verdict": r.outcome }, sentence(r, c.baseline)))
      : [h("li", null, c.rows.length > 1 ? "Nothing is decided: choose a baseline." : c.rows.length ? "One experiment alone: start another to compare it with." : "Nothing to compare yet.")];
    put(this.part.body, h("ul", { class: "verdicts" }, lines),
      table("Comparison of experiments", columns(c.measure, c.rows.some((r) => r.rounds_compared && r.rounds_compared.to !== r.rounds)), c.rows),
      h("p", { class: "note" }, `Decided by ${bases[c.basis] || f.words(c.basis)}. Intervals are over seeds, never over nodes of one swarm.`,
        (c.notes || []).map((n) => h("span", { class: "line" }, n))));
  }

  leave() {
    this.load.stop();
  }
}
