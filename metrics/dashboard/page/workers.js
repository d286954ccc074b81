// Workers: the other hosts of a run, and how useful their rollouts were to others. It is hidden until there is one.
import { get, of } from "./api.js";
import { put } from "./dom.js";
import * as f from "./format.js";
import { loader, part } from "./load.js";
import { badge, table } from "./table.js";

const note = "Other hosts that joined. Useful: share of their rollouts that others' nodes did not reject. Drawn: share that these trained on.";

function state(r) {
  const b = badge();
  b.to(r.state, f.words(r.state));
  return b.el;
}

const columns = [
  { label: "Worker", text: (r) => r.worker },
  { label: "State", cell: state },
  { label: "Nodes", minor: true, number: true, text: (r) => f.number(r.nodes) },
  { label: "Rounds", minor: true, number: true, title: "recorded, over its nodes", text: (r) => f.number(r.rounds) },
  { label: "Useful", number: true, title: "1 - rejected / (available + rejected), as judged by others' nodes", text: (r) => f.percent(r.useful_ratio) },
  { label: "Drawn", number: true, title: "used / available, at others' nodes", text: (r) => f.percent(r.used_ratio) },
  { label: "Refused", minor: true, number: true, title: "batches that the coordinator refused, of those offered since its newest start",
    text: (r) => `${f.number(r.refused)} of ${f.number(r.offered)}` },
  { label: "Device", minor: true, text: (r) => r.device },
  { label: "Host", minor: true, text: (r) => r.host },
  { label: "Seen", minor: true, text: (r) => f.when(r.last_seen) },
  { label: "Why", minor: true, text: (r) => f.clip(r.reason, 80) },
];

// WorkersPart: status(s) updates it.
export class WorkersPart {
  constructor(run) {
    this.part = part("Workers", { note });
    this.el = this.part.el;
    this.el.hidden = true;
    this.load = loader(this.part.problem, async (signal) => {
      const { workers } = await get(of(run, "workers"), null, signal);
      this.el.hidden = workers.length === 0;
      put(this.part.body, table("Workers of this run", columns, workers, { rowAttributes: (r) => ({ "data-worker": r.worker }) }));
    }, 10000);
  }

  status(s) {
    if (s.workers > 0) this.load.poke();
  }

  refresh() {
    if (!this.el.hidden) this.load.now();
  }

  leave() {
    this.load.stop();
  }
}
