// The rollouts of a node's round: its own questions with their completions, and those of other nodes that it used. All
// texts come from models or other hosts, and are shown as plain text.
import { get, of } from "./api.js";
import { fillSelect, h, put, select } from "./dom.js";
import * as f from "./format.js";
import { empty, loader, part } from "./load.js";
import { change } from "./route.js";

const longest = 4000; // characters of a text shown at first

export class Rollouts {
  constructor(route, detail) {
    this.route = route;
    this.detail = detail;
    const p = route.params;
    this.node = select("Node", detail.status.nodes.map((n) => [n.id, n.id]), p.get("node") || detail.status.nodes[0]?.id || "",
      (v) => this.#go({ node: v }));
    this.round = h("input", { type: "number", id: "round", min: "0", step: "1", onchange: () => this.#go({ round: this.round.value }) });
    const step = (by, text, label) => h("button", { type: "button", "aria-label": label, onclick: () => this.#step(by) }, text);
    this.before = step(-1, "‹", "round before");
    this.after = step(1, "›", "round after");
    this.of = h("span", { class: "small" });
    this.newest = h("button", { type: "button", onclick: () => this.#go({ round: "" }) }, "newest");
    this.part = part("Rollouts", { tools: [this.node.el,
      h("span", { class: "choose" }, h("label", { for: "round" }, "Round"), h("span", { class: "stepper" }, this.before, this.round, this.after),
        this.of), this.newest] });
    this.el = this.part.el;
    this.part.body.dataset.rollouts = "";
    this.load = loader(this.part.problem, (signal) => this.#fetch(signal), 0);
    this.load.now();
  }

  #go(values) {
    change(this.route, values);
    this.load.now();
  }

  #step(by) {
    const at = Number(this.round.value) + by;
    if (at >= 0 && (!this.rounds || at < this.rounds)) this.#go({ round: String(at) });
  }

  async #fetch(signal) {
    const p = this.route.params;
    const doc = await get(of(this.route.run, "rollouts"), { node: p.get("node"), round: p.get("round") }, signal);
    this.rounds = doc.rounds;
    if (doc.nodes?.length) fillSelect(this.node.box, doc.nodes.map((n) => [n, n]), doc.node);
    this.round.max = String(Math.max(0, doc.rounds - 1));
    this.round.value = String(doc.round);
    this.of.textContent = doc.rounds > 0 ? `of 0 … ${doc.rounds - 1}` : "";
    this.before.disabled = !(doc.round > 0);
    this.after.disabled = !(doc.round < doc.rounds - 1);
    this.#draw(doc);
  }

  #draw(doc) {
    const own = doc.questions || [], others = doc.externals || [];
    if (!own.length && !others.length) {
      return void put(this.part.body, empty(doc.note || "This node has no rollouts of that round."));
    }
    put(this.part.body, doc.note ? h("p", { class: "note" }, doc.note) : null,
      h("h3", null, `Its own: ${f.count(own.length, "question")}`), own.map((q, i) => group(q, i === 0)),
      h("h3", null, `Taken from others: ${f.count(others.length, "question")}`),
      others.length ? others.map((q) => group(q, false)) : h("p", { class: "note" }, "It trained only on its own rollouts."));
  }

  refresh() {
    if (!this.route.params.get("round")) this.load.now();
  }

  leave() {
    this.load.stop();
  }
}

// group shows one question and its completions. The rewards are visible without opening it.
function group(q, open) {
  const all = q.completions || [];
  return h("details", { class: "rollout", open, "data-from": q.from },
    h("summary", null, "from" in q ? h("span", { class: "badge" }, q.from ? `from ${q.from}` : "source not found") : null,
      q.task ? h("span", { class: "badge" }, f.words(q.task)) : null,
      h("span", { class: "rollout-title", title: f.clip(q.question, 400) }, f.clip(q.question, 140)),
      h("span", { class: "chips", role: "img", "aria-label": `rewards ${all.map((c) => f.reward(c.reward)).join(", ")}` },
        all.map((c) => chip(c.reward)))),
    h("div", { class: "rollout-body" },
      h("p", { class: "label" }, "Question"), long(q.question),
      h("p", { class: "label" }, "Answer key"), q.answer === null || q.answer === undefined
        ? h("p", { class: "small" }, "none: the verifier judges by the question") : long(q.answer),
      h("ol", { class: "completions", "aria-label": "completions" }, all.map((c) => h("li", null,
        h("p", { class: "label" }, chip(c.reward), ` reward ${f.reward(c.reward)}`,
          c.terminated === false ? h("span", { class: "badge warn" }, "cut off at the length limit") : null), long(c.text))))));
}

// chip is a small square that shows a reward: full for 1.
function chip(reward) {
  const known = typeof reward === "number";
  const fill = h("span", { class: "chip-fill" });
  fill.style.setProperty("height", `${known ? Math.max(0, Math.min(1, reward)) * 100 : 0}%`);
  return h("span", { class: known ? "chip" : "chip unknown", "aria-hidden": "true", title: f.reward(reward) }, fill);
}

// long shows a text. It shows only the beginning of a very long one, with a button for the rest.
function long(text) {
  const whole = String(text ?? "");
  const pre = h("pre", { class: "said", dir: "auto" }, whole.slice(0, longest) || "(empty)");
  if (whole.length <= longest) return pre;
  const more = h("button", { type: "button", onclick: () => { put(pre, whole); more.remove(); } }, `Show all ${f.number(whole.length)} characters`);
  return [pre, more];
}
