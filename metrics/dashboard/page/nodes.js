// The nodes of a run as a grid of cards: state, round, reward, recent rewards, memory relative to the budget, restarts.
import { h, keyed, put, s as svg, say, set } from "./dom.js";
import * as f from "./format.js";
import { badge } from "./table.js";

const width = 120, height = 28;

// sparkline draws values, scaled between their extremes. null is unknown.
export function sparkline() {
  const path = svg("path", { class: "spark-line", fill: "none" });
  const el = svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" }, path);
  return {
    el,
    to(values) {
      const known = values.filter((v) => typeof v === "number");
      const low = Math.min(...known), span = Math.max(...known) - low || 1;
      let d = "", pen = false;
      values.forEach((v, i) => {
        if (typeof v !== "number") return void (pen = false);
        const x = (i / Math.max(1, values.length - 1)) * width, y = height - 2 - ((v - low) / span) * (height - 4);
        d += `${pen ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}${pen ? "" : "h0"}`; // h0: a single point is drawn as a dot
        pen = true;
      });
      path.setAttribute("d", d);
    },
  };
}

// memoryBar shows the stacked parts [{bytes, kind}] relative to a cap, and the peak as a line.
export function memoryBar() {
  const fills = h("span", { class: "membar-fills" }), peak = h("span", { class: "membar-peak" });
  const el = h("span", { class: "membar", role: "img" }, fills, peak);
  return {
    el,
    to({ segments, peakBytes, capBytes, label }) {
      const share = (v) => `${capBytes > 0 ? Math.min(100, (v / capBytes) * 100) : 0}%`;
      keyed(fills, segments, (g) => g.kind, (g) => h("span", { "data-kind": g.kind }), (node, g) => node.style.setProperty("width", share(g.bytes)));
      peak.hidden = !(peakBytes > 0 && capBytes > 0);
      peak.style.setProperty("left", share(peakBytes));
      set(el, { "aria-label": label, title: label, class: peakBytes > capBytes ? "membar over" : "membar" });
    },
  };
}

function card(run) {
  return (first) => {
    const state = badge(), spark = sparkline(), memory = memoryBar();
    const reward = h("span", { class: "big" }), recent = h("span", { class: "small" }), round = h("span", { class: "small" });
    const used = h("span", { class: "small" }), trouble = h("p", { class: "trouble" });
    const el = h("li", { class: "node" },
      h("div", { class: "node-head" }, h("h3", null, first.id), state.el),
      h("div", { class: "node-reward" }, h("div", null, reward, recent), spark.el), round, memory.el, used, trouble,
      h("p", { class: "node-links" },
        h("a", { href: `#/runs/${encodeURIComponent(run)}/rollouts?node=${encodeURIComponent(first.id)}` }, "rollouts",
          h("span", { class: "visually-hidden" }, ` of ${first.id}`)),
        h("a", { href: `#/runs/${encodeURIComponent(run)}/events?node=${encodeURIComponent(first.id)}` }, "events",
          h("span", { class: "visually-hidden" }, ` of ${first.id}`))));
    el.update = (n, rounds, values) => {
      set(el, { "data-node": n.id, "data-state": n.state });
      state.to(n.state, f.words(n.state));
      say(reward, f.reward(n.reward));
      say(recent, `reward · last 10: ${f.reward(n.recent_reward)}`);
      say(round, [`round ${n.round} / ${rounds}`, n.worker && `of ${n.worker}`, n.from > 0 && `from round ${n.from}`,
        n.generate_only && "generates only", n.restarts > 0 && f.count(n.restarts, "restart"),
        n.replayed_rounds > 0 && `${n.replayed_rounds} replayed`].filter(Boolean).join(" · "));
      memory.el.hidden = !(n.budget_bytes > 0 || n.memory_bytes > 0); // a peak without a cap has no scale
      const of = n.budget_bytes > 0 ? ` of ${f.bytes(n.budget_bytes)}` : "";
      const cap = n.budget_bytes || n.peak_memory_bytes;
      memory.to({ segments: [{ kind: "used", bytes: n.memory_bytes }], peakBytes: n.peak_memory_bytes, capBytes: cap,
        label: `memory ${f.bytes(n.memory_bytes)}${of}, peak ${f.bytes(n.peak_memory_bytes)}` });
      say(used, n.memory_bytes > 0 ? `${f.bytes(n.memory_bytes)}${of} · peak ${f.bytes(n.peak_memory_bytes)}`
        : `peak ${f.bytes(n.peak_memory_bytes)}${of}`);
      const failed = ["failed", "given_up"].includes(n.state);
      trouble.hidden = !failed;
      if (failed) say(trouble, [f.words(n.cause), f.clip(n.message, 160)].filter(Boolean).join(": "));
      if (values) spark.to(values);
    };
    return el;
  };
}

// NodeGrid: set(status, curve) shows the nodes. curve, a stats.Curve with their recent rewards, may be missing.
export class NodeGrid {
  constructor(run) {
    this.el = h("ul", { class: "nodes" });
    this.make = card(run);
  }

  set(status, curve) {
    if (!status.nodes.length) return void put(this.el, h("li", { class: "note" }, "No node has started yet."));
    const courses = new Map((curve?.nodes || []).map((n) => [n.node, n.values]));
    keyed(this.el, status.nodes, (n) => n.id, this.make, (el, n) => el.update(n, status.rounds, courses.get(n.id)));
  }
}
