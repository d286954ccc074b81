// A study: its question, its verdict in the words of `swarm compare --study`, and its experiments.
import { get } from "./api.js";
import { fillSelect, h, put, select } from "./dom.js";
import * as f from "./format.js";
import { loader, part } from "./load.js";
import { change } from "./route.js";
import { table } from "./table.js";

const tones = { best: "better", better: "better", worse: "worse" }; // by outcome of the study

// narrow has the columns of the experiments that narrow screens leave out, and the verdict.
const minor = { minor: true };
const narrow = [{}, minor, {}, { minor: true, least: true }, {}, minor, {},
  { number: false, cell: (r) => h("span", { class: "verdict", "data-verdict": r.at(-1) }, r.at(-1)) }];

// texts makes a table of the API's, whose cells are texts, with its notes. more(i) adds to a column.
const texts = (t, more, options) => [
  table(t.title, t.heads.map((label, i) => ({ label, number: i > 0, text: (r) => (r[i] === "-" ? f.none : r[i]), ...more?.(i) })), t.rows, options),
  t.notes && h("p", { class: "note" }, t.notes.map((n) => h("span", { class: "line" }, n))),
];

// StudyPart shows a study: call set(runs) with the rows of api/runs. It is hidden while no run belongs to a study.
export class StudyPart {
  constructor(route) {
    const p = route.params, named = p.get("study") || "", per = p.get("per") || "rounds";
    const again = (key, standard) => (v) => {
      change(route, { [key]: v === standard ? "" : v });
      this.load.now();
    };
    this.study = select("Study", [[named, named]], named, again("study"));
    this.per = select("At equal", [[per, per]], per, again("per", "rounds"));
    this.part = part("Study", { tools: [this.study.el, this.per.el], anchor: "study" });
    this.evidence = h("ul", { class: "verdicts" });
    this.more = h("details", null, h("summary", null, "Evidence, and runs that are not counted"), this.evidence);
    this.el = this.part.el;
    this.el.hidden = !named;
    this.load = loader(this.part.problem, (signal) => this.#fetch(signal), 10_000);
  }

  set(runs) {
    const key = runs.map((r) => `${r.run}/${r.state}`).join();
    if (key === this.key) return;
    this.key = key;
    this.load.poke();
  }

  async #fetch(signal) {
    const [study, model] = this.study.box.value.split("/");
    this.#draw(await get("api/studies", { study, model, per: this.per.box.value }, signal));
  }

  #draw({ study: s, studies, axes, arms, per }) {
    this.el.hidden = !s;
    if (!s) return;
    const key = (x) => `${x.name}/${x.model}`, title = (x) => [x.name, x.model].filter(Boolean).join(" ");
    fillSelect(this.study.box, studies.map((x) => [key(x), title(x)]), key(s));
    fillSelect(this.per.box, axes.map((a) => [a, a]), s.per?.axis || "rounds");
    this.study.el.hidden = studies.length < 2;
    this.study.el.title = title(s);
    this.per.el.hidden = !s.per;
    put(this.part.heading, `Study ${title(s)}`);
    let planned = 0, outcome = tones[s.outcome] || "undecided";
    const lines = s.lines.map((text, i) => {
      // An indented line belongs to the line before it.
      if (i > 0 && !text.startsWith(" ")) outcome = text.startsWith("Planned: ") ? s.contrasts[planned++].outcome : null;
      return { outcome, el: h("li", { "data-verdict": outcome }, text) };
    });
    put(this.evidence, lines.filter((l) => !l.outcome).map((l) => l.el));
    put(this.part.body, s.question ? h("p", { class: "question" }, s.question) : null,
      h("ul", { class: "verdicts" }, lines.filter((l) => l.outcome).map((l) => l.el)),
      texts(arms, (i) => narrow[i]),
      this.evidence.children.length ? this.more : null,
      per.rows ? texts(per, null, { shown: true }) : null);
  }

  leave() {
    this.load.stop();
  }
}
