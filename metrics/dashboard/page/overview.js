// A run at a glance: its nodes, its reward, its newest events.
import { get, of } from "./api.js";
import { h } from "./dom.js";
import { EventList } from "./events.js";
import { loader, part } from "./load.js";
import { NodeGrid } from "./nodes.js";
import { RunCurve } from "./run-charts.js";
import { WorkersPart } from "./workers.js";

const newest = 8; // events

export class Overview {
  constructor(route, detail) {
    this.run = route.run;
    this.last = detail.status;
    const nodes = part("Nodes"), events = part("Newest events",
      { tools: [h("a", { href: `#/runs/${encodeURIComponent(this.run)}/events` }, "all events")] });
    this.grid = new NodeGrid(this.run);
    nodes.body.append(this.grid.el);
    this.reward = new RunCurve(route, { metric: "reward", chooser: true });
    this.list = new EventList(this.run, { most: newest });
    events.body.append(this.list.el);
    this.workers = new WorkersPart(this.run);
    this.el = h("div", null, nodes.el, this.workers.el, this.reward.el, events.el);
    this.sparks = loader(nodes.problem, async (signal) => {
      this.curve = await get(of(this.run, "curve"), { metric: "reward", window: 10, points: 60 }, signal);
      this.grid.set(this.last, this.curve);
    }, 5000);
    this.events = loader(events.problem, async (signal) => {
      const { events: all } = await get(of(this.run, "events"), { tail: newest }, signal);
      this.list.set(all);
    }, 5000);
    this.sparks.now();
    this.events.now();
    this.workers.status(this.last);
  }

  status(s) {
    const further = s.round !== this.last.round;
    this.last = s;
    this.grid.set(s, this.curve);
    this.reward.status(s);
    this.workers.status(s);
    if (further) this.sparks.poke();
  }

  entry(e) {
    this.list.add(e);
  }

  refresh() {
    this.sparks.now();
    this.events.now();
    this.reward.refresh();
    this.workers.refresh();
  }

  leave() {
    this.sparks.stop();
    this.events.stop();
    this.reward.leave();
    this.workers.leave();
    this.list.leave();
  }
}
