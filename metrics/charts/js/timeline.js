// Events by node over time, as SVG. Kinds differ by shape as well as by color.
(function (charts) {
  "use strict";

  const row = 26, top = 6, bottom = 24;
  const shapes = {
    bad: "M0,-6 L6,5 L-6,5 Z", // triangle
    warn: "M0,-6 L6,0 L0,6 L-6,0 Z", // diamond
    good: "M-4.5,-4.5 H4.5 V4.5 H-4.5 Z", // square
    info: "M-4,0 A4,4 0 1,0 4,0 A4,4 0 1,0 -4,0 Z", // circle
  };
  const kinds = {
    out_of_memory: "bad", failure: "bad", giveup: "bad", exit: "bad", memory_step: "bad", crash: "bad", lost: "bad", failed: "bad",
    restart: "warn", warning: "warn", stopped: "warn", checkpoint: "good", done: "good", eval: "good", run_ended: "good",
  };
  const look = (kind) => (shapes[kind] ? kind : kinds[kind] || "info");

  // Ticks of the axis: round times, in the viewer's time zone.
  function ticks(from, to, width) {
    const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
    const most = Math.max(2, Math.floor(width / 110));
    const step = steps.find((s) => (to - from) / s <= most) || (to - from) / most;
    const zone = charts.zone(from);
    const out = [];
    for (let t = Math.ceil((from + zone) / step) * step - zone; t <= to; t += step) out.push(t);
    return { times: out, step };
  }

  const cut = (words, most) => (words.length > most ? words.slice(0, Math.max(1, Math.floor(most) - 1)) + "…" : words);

  // Items of one kind that would overlap are drawn as one.
  function gather(items, scale) {
    const out = [];
    const ordered = items.slice().sort((a, b) => a.time - b.time);
    for (const item of ordered) {
      const x = scale(item.time), end = Number.isFinite(item.end) ? scale(item.end) : x, kind = look(item.kind);
      const last = out.findLast((g) => g.kind === kind);
      if (last && end === x && last.end === last.x && x - last.x < 5) last.items.push(item);
      else out.push({ x, end, kind, items: [item] });
    }
    return out;
  }

  function tell(lane, group) {
    const [first] = group.items, more = group.items.length - 1;
    const text = `${charts.format(first.time, "time")} · ${lane}: ${first.label}`;
    return more ? `${text} (and ${more} more until ${charts.format(group.items[more].time, "time")})` : text;
  }

  charts.timeline = function (el, options) {
    let o, marks = [], chosen = -1;
    const frame = charts.frame(el, { table, onReset() {} });
    const readout = charts.make("p", "chart-readout");
    frame.root.classList.add("chart-timeline");
    frame.legend.append(readout);

    function table() {
      const all = o.lanes.flatMap((lane) => lane.items.map((item) => ({ lane, item }))).sort((a, b) => a.item.time - b.item.time);
      const rows = all.map(({ lane, item }) => [charts.format(item.time, "time"), lane.label, item.kind || "", item.label || ""]);
      return charts.table(o.title, ["time", "node", "kind", "what"], rows);
    }

    function choose(i, speak) {
      marks[chosen]?.node.classList.remove("chosen");
      chosen = i;
      const mark = marks[i];
      readout.textContent = mark ? tell(mark.lane.label, mark.group) : "";
      mark?.node.classList.add("chosen");
      if (mark && speak) frame.say(readout.textContent);
    }

    function text(x, y, words, className, anchor) {
      const node = charts.svg("text", { x, y, class: className, "text-anchor": anchor });
      node.textContent = words;
      return node;
    }

    function draw() {
      const width = Math.max(200, frame.plot.clientWidth || 600), height = top + bottom + row * Math.max(1, o.lanes.length);
      const left = Math.min(width / 3, 12 + 7 * Math.max(4, ...o.lanes.map((l) => l.label.length))), right = width - 14;
      const from = o.from, to = o.to > o.from ? o.to : o.from + 1;
      const scale = (t) => left + ((Math.min(to, Math.max(from, t)) - from) / (to - from)) * (right - left);
      const svg = charts.svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
      const { times, step } = ticks(from, to, right - left);
      const words = charts.timeTicks(times, step);
      times.forEach((t, i) => {
        svg.append(charts.svg("line", { x1: scale(t), x2: scale(t), y1: top, y2: height - bottom, class: "tl-grid" }));
        const half = 3.7 * words[i].length; // of the text, so that it stays within the drawing
        svg.append(text(Math.min(Math.max(scale(t), half), width - half), height - 8, words[i], "tl-text", "middle"));
      });
      marks = [];
      o.lanes.forEach((lane, i) => {
        const y = top + row * (i + 0.5);
        svg.append(charts.svg("line", { x1: left, x2: right, y1: y, y2: y, class: "tl-lane" }));
        svg.append(text(left - 10, y + 4, cut(lane.label, (left - 12) / 7), "tl-text", "end"));
        for (const group of gather(lane.items, scale)) {
          const bar = group.end - group.x >= 2;
          const node = bar ? charts.svg("rect", { x: group.x, y: y - 5, width: group.end - group.x, height: 10, rx: 2 })
            : charts.svg("path", { d: shapes[group.kind], transform: `translate(${group.x},${y})` });
          const title = charts.svg("title"), index = marks.length;
          title.textContent = tell(lane.label, group);
          node.append(title);
          node.setAttribute("class", "tl-item tl-" + group.kind);
          node.addEventListener("mouseenter", () => choose(index, false));
          node.addEventListener("click", () => {
            choose(index, false);
            o.onSelect?.(group.items[0], lane);
          });
          svg.append(node);
          marks.push({ node, lane, group });
        }
      });
      frame.plot.replaceChildren(svg);
      choose(-1, false);
    }

    function onKey(event) {
      const inOrder = marks.map((_, i) => i).sort((a, b) => marks[a].group.x - marks[b].group.x), at = inOrder.indexOf(chosen);
      const next = { ArrowRight: at + 1, ArrowLeft: at < 0 ? inOrder.length - 1 : at - 1, Home: 0, End: inOrder.length - 1 }[event.key];
      if (event.key === "Enter" && marks[chosen]) o.onSelect?.(marks[chosen].group.items[0], marks[chosen].lane);
      else if (next !== undefined && inOrder.length) choose(inOrder[Math.min(inOrder.length - 1, Math.max(0, next))], true);
      else return;
      event.preventDefault();
    }

    function update(next) {
      o = { lanes: [], ...next };
      const count = o.lanes.reduce((n, lane) => n + lane.items.length, 0);
      draw();
      charts.empty(frame, count ? "" : o.empty || "No events");
      const by = o.lanes.filter((l) => l.items.length).map((l) => `${l.label} ${l.items.length}`).join(", ");
      const keys = "Arrow keys step through them; the button Table lists them.";
      frame.describe(o.title, `${o.title || "Timeline"}: ${count} events${by ? ": " + by : ""}. ${keys}`);
      frame.refreshTable();
    }

    let seen = 0;
    const observer = new ResizeObserver(() => {
      if (frame.plot.clientWidth && frame.plot.clientWidth !== seen) {
        seen = frame.plot.clientWidth;
        update(o);
      }
    });
    frame.plot.addEventListener("keydown", onKey);
    update(options);
    seen = frame.plot.clientWidth;
    observer.observe(frame.plot);
    return {
      update,
      destroy() {
        observer.disconnect();
        frame.root.remove();
      },
    };
  };
})(swarmCharts);
