// A run: its header, and the selected section.
import { get, of } from "./api.js";
import { h, put, say, set } from "./dom.js";
import * as f from "./format.js";
import { loader } from "./load.js";
import { format, sections } from "./route.js";
import { badge, bar } from "./table.js";
import { Charts } from "./run-charts.js";
import { Evaluation } from "./evaluation.js";
import { Events } from "./events.js";
import { Memory } from "./memory.js";
import { Overview } from "./overview.js";
import { Rollouts } from "./rollouts.js";
import { Setup } from "./setup.js";
import { Tasks } from "./tasks.js";

const parts = { overview: Overview, memory: Memory, charts: Charts, evaluation: Evaluation, tasks: Tasks, events: Events, rollouts: Rollouts,
  setup: Setup };

// RunView: status(document), entry(document) and refresh() update it.
export class RunView {
  constructor(route) {
    this.route = route;
    this.title = route.run;
    this.problem = h("div");
    this.el = h("div", null, h("p", { class: "crumbs" }, h("a", { href: "#/" }, "Runs")), this.problem);
    this.place = h("div");
    this.head = this.#head();
    this.load = loader(this.problem, (signal) => this.#fetch(signal), 2000);
    this.load.now();
  }

  async #fetch(signal) {
    this.detail = await get(of(this.route.run), null, signal);
    if (!this.section) this.#open();
    this.status(this.detail.status);
    if (this.el.parentElement) this.el.parentElement.dataset.ready = "";
  }

  // go shows another section of the same run.
  go(route) {
    this.route = route;
    this.section?.leave();
    this.section = null;
    if (!this.detail) return;
    this.#open();
    this.status(this.detail.status);
  }

  #open() {
    const name = this.route.section;
    this.section = new parts[name](this.route, this.detail);
    if (!this.nav) this.nav = this.#nav();
    for (const a of this.nav.querySelectorAll("a")) set(a, { "aria-current": a.dataset.section === name ? "page" : null });
    if (!this.head.el.isConnected) put(this.el, this.head.el, this.problem, this.nav, this.place);
    put(this.place, this.section.el);
    const current = this.nav.querySelector("[aria-current]");
    this.nav.scrollLeft = current.offsetLeft - (this.nav.clientWidth - current.offsetWidth) / 2;
  }

  status(s) {
    if (!this.detail || s.run !== this.detail.status.run) return;
    this.detail.status = s;
    this.#show(s);
    this.section?.status?.(s);
  }

  entry(e) {
    if (this.detail && e.run === this.detail.status.run) this.section?.entry?.(e);
  }

  refresh() {
    this.load.now();
    this.section?.refresh?.();
  }

  #nav() {
    return h("nav", { class: "sections", "aria-label": "Parts of this run" }, h("ul", null, sections.map((name) =>
      h("li", null, h("a", { href: format({ view: "run", run: this.route.run, section: name }), "data-section": name },
        name[0].toUpperCase() + name.slice(1))))));
  }

  #head() {
    const state = badge(), rounds = bar("rounds done"), title = h("h2", { id: "run-title" }), under = h("p", { class: "small" });
    const gone = h("div"), figures = h("dl", { class: "figures" }), done = h("span", { class: "done" });
    const el = h("section", { class: "run-head", "aria-labelledby": "run-title" },
      h("p", { class: "crumbs" }, h("a", { href: "#/" }, "Runs")), h("div", { class: "run-name" }, title, state.el), under, gone,
      h("div", { class: "run-progress" }, rounds.el, done), figures);
    return { el, state, rounds, title, under, gone, figures, done };
  }

  #show(s) {
    const head = this.head, cfg = this.detail.config || {};
    say(head.title, s.experiment);
    head.state.to(s.state, f.words(s.state));
    say(head.under, [s.run, `${s.model} on ${s.device || "?"}`, cfg.seed !== undefined && `seed ${cfg.seed}`,
      `started ${f.when(s.started)}`].filter(Boolean).join(" · "));
    head.rounds.to(s.round, s.rounds);
    say(head.done, `${f.number(s.round)} of ${f.number(s.rounds)} rounds`);
    this.#gone(s);
    const running = s.state === "running", part = (n, all) => (running ? `${n} / ${all}` : f.number(all));
    const cost = s.cost === null || s.cost === undefined ? null
      : f.money(s.cost, s.price_currency) + (typeof s.projected_cost === "number" ? ` of ${f.money(s.projected_cost, s.price_currency)}` : "");
    const values = [
      ["Time left", running ? f.seconds(s.eta_seconds) : null], ["Elapsed", f.seconds(s.elapsed_seconds), "without pauses"],
      ["A round", f.seconds(s.seconds_per_round)], ["Reward", f.reward(s.reward), "mean over nodes of the newest round"],
      ["Cumulative", f.number(s.cumulative_reward), "sum over nodes and rounds"],
        ["Nodes", part(s.nodes_alive, s.nodes_planned), "alive / planned"],
      ["Workers", s.workers > 0 ? part(s.workers_connected, s.workers) : null, "connected / joined"],
      ["Memory", s.memory_bytes > 0 ? f.bytes(s.memory_bytes) : null, "of its nodes now"], ["Restarts", f.number(s.restarts)],
        ["Cost", cost, "so far, and the projected total"],
    ].filter(([, v]) => v !== null);
    if (head.figures.children.length !== values.length) {
      put(head.figures, values.map(([name, , title]) => h("div", { title }, h("dt", null, name), h("dd"))));
    }
    values.forEach(([name, v], i) => {
      say(head.figures.children[i].firstChild, name);
      say(head.figures.children[i].lastChild, v);
    });
    set(head.el, { "data-state": s.state });
  }

  #gone(s) {
    const text = s.state === "crashed"
      ? `The coordinator of this run is gone. Continue with: swarm resume ${s.run}`
      : s.message || "";
    if (this.said === text) return;
    this.said = text;
    put(this.head.gone, text ? h("p", { class: "banner", "data-banner": s.state === "crashed" ? "gone" : "message", role: "status" }, text) : null);
  }

  leave() {
    this.load.stop();
    this.section?.leave();
  }
}
