// Converts options of swarmCharts.lines to uPlot's: data, series, bands, axes.
(function (charts) {
  "use strict";

  // uPlot reads a Date's local fields, even if charts show UTC.
  const zoneOf = (t) => -60 * new Date(1000 * t).getTimezoneOffset();

  const known = (v) => (v === undefined ? undefined : typeof v === "number" && Number.isFinite(v) ? v : null);
  const font = '12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

  // layout maps uPlot's series to o.series. Bands come first, so that lines are drawn over them.
  charts.layout = function (o) {
    const tracks = [];
    o.series.forEach((s, i) => {
      if (s.low && s.high && !o.stacked) tracks.push({ of: i, part: "high" }, { of: i, part: "low" });
    });
    o.series.forEach((s, i) => tracks.push({ of: i, part: "values" }));
    return tracks;
  };

  // data is uPlot's input: x and every track.
  charts.data = function (o, tracks) {
    const sums = o.x.map(() => 0);
    return [o.x.slice()].concat(tracks.map(({ of, part }) => {
      const values = o.x.map((_, i) => known(o.series[of][part][i]));
      if (!o.stacked || o.series[of].hidden || o.series[of].overlay) return values;
      return values.map((v, i) => (typeof v === "number" ? (sums[i] += v) : v));
    }));
  };

  function withAlpha(el, color, alpha) {
    const canvas = withAlpha.context || (withAlpha.context = document.createElement("canvas").getContext("2d"));
    canvas.fillStyle = "#888888";
    canvas.fillStyle = charts.color(el, color);
    const hex = canvas.fillStyle;
    return hex.length === 7 ? hex + Math.round(255 * alpha).toString(16).padStart(2, "0") : hex;
  }

  const stack = (o) => o.series.map((s, i) => i).filter((i) => !o.series[i].overlay && !o.series[i].hidden);

  function series(el, current, tracks) {
    const o = current();
    // In a stack, the lowest visible series is filled down to the axis, and each other one down to the series below it.
    const fill = (of, color) => () => (stack(current())[0] === of ? withAlpha(el, color, 0.45) : "transparent");
    const sparse = o.stacked ? { show: (u) => u.data[0].length < 3 } : {};
    return tracks.map(({ of, part }) => {
      const s = o.series[of], edge = part !== "values";
      const stroke = () => charts.color(el, s.color);
      return {
        label: "", show: !s.hidden, scale: s.axis === "right" ? "right" : "y",
        stroke: edge ? undefined : stroke, width: edge ? 0 : s.width || 2, dash: edge ? undefined : charts.dash(s.dash),
        fill: o.stacked && !s.overlay ? fill(of, s.color) : undefined,
        points: edge || s.parent || s.overlay ? { show: false } : { size: 5, stroke, fill: stroke, ...sparse },
      };
    });
  }

  charts.bands = function (el, o, tracks) {
    const fill = (color, alpha) => () => withAlpha(el, color, alpha);
    const out = [];
    if (o.stacked) {
      const shown = stack(o);
      shown.slice(1).forEach((top, k) => out.push({ series: [top + 1, shown[k] + 1], fill: fill(o.series[top].color, 0.45) }));
      return out;
    }
    tracks.forEach(({ of, part }, i) => {
      if (part === "high") out.push({ series: [i + 1, i + 2], fill: fill(o.series[of].color, 0.16) });
    });
    return out;
  };

  // A y axis reaches 0 if that is near, and includes the given bounds.
  function range(least, most) {
    return function (u, low, high) {
      const values = [low, high, least, most].filter((v) => Number.isFinite(v));
      if (values.every((v) => v === 0)) return [0, 1];
      return uPlot.rangeNum(Math.min(...values), Math.max(...values), { min: { pad: 0.06, soft: 0, mode: 3 }, max: { pad: 0.06, soft: 0, mode: 3 } });
    };
  }

  const wide = (u, texts) => 14 + 6.8 * Math.max(3, ...(texts || []).map((t) => String(t ?? "").length));

  function axes(el, o) {
    const ink = () => charts.color(el, "--muted");
    const grid = { stroke: () => charts.color(el, "--grid"), width: 1 };
    const quiet = { stroke: () => charts.color(el, "--grid"), width: 1, size: 4 };
    const label = (text) => (text ? { label: text, labelSize: 18, labelFont: font, labelGap: 2 } : {});
    const x = { stroke: ink, grid, ticks: quiet, font, space: 70, size: 30, ...label(o.xUnit === "time" ? "" : o.xLabel) };
    if (o.xUnit !== "time") {
      x.values = (u, splits, axis, space, step) => charts.ticks(splits, step, o.xUnit);
      x.incrs = charts.steps(o.xUnit) || [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1e6, 2e6,
        5e6, 1e7, 2e7, 5e7, 1e8, 2e8, 5e8, 1e9, 1e10];
      if (o.fine) delete x.incrs;
    }
    if (o.xUnit === "time") {
      x.space = 95;
      x.values = (u, splits, axis, space, step) => charts.timeTicks(splits, step);
    }
    const y = (unit, text) => ({
      stroke: ink, grid, ticks: quiet, font, space: 36, size: wide, ...label(text),
      values: (u, splits, axis, space, step) => charts.ticks(splits, step, unit),
      ...(charts.steps(unit) ? { incrs: charts.steps(unit) } : {}),
    });
    const out = [x, { scale: "y", ...y(o.unit, o.yLabel) }];
    if (o.series.some((s) => s.axis === "right")) out.push({ scale: "right", side: 1, ...y(o.rightUnit, o.rightLabel), grid: { show: false } });
    return out;
  }

  // Vertical lines at o.markers, each with its label if there is space.
  function drawMarkers(el, u, o) {
    const ctx = u.ctx, ratio = devicePixelRatio || 1;
    let free = -Infinity;
    ctx.save();
    ctx.font = 11 * ratio + "px system-ui, sans-serif";
    ctx.textBaseline = "top";
    ctx.textAlign = "left";
    for (const m of o.markers || []) {
      const x = Math.round(u.valToPos(m.x, "x", true));
      if (!(x >= u.bbox.left && x <= u.bbox.left + u.bbox.width)) continue;
      ctx.strokeStyle = ctx.fillStyle = charts.color(el, charts.kindColor(m.kind));
      ctx.lineWidth = ratio;
      ctx.setLineDash([3 * ratio, 3 * ratio]);
      ctx.beginPath();
      ctx.moveTo(x, u.bbox.top);
      ctx.lineTo(x, u.bbox.top + u.bbox.height);
      ctx.stroke();
      const width = ctx.measureText(m.label || "").width;
      if (m.label && x > free && x + width < u.bbox.left + u.bbox.width) {
        ctx.fillText(m.label, x + 4 * ratio, u.bbox.top + 2 * ratio);
        free = x + width + 8 * ratio;
      }
    }
    ctx.restore();
  }

  // plotOptions returns uPlot's options. current() returns the newest o, because markers may change without a new plot.
  charts.plotOptions = function (el, current, tracks, size, hooks) {
    const o = current();
    return {
      width: size.width, height: size.height, legend: { show: false }, padding: [8, o.xUnit === "time" ? 32 : 20, 0, 0],
      tzDate: (t) => new Date(1000 * (t + charts.zone(t) - zoneOf(t))),
      scales: {
        x: { time: o.xUnit === "time", range: (u, low, high) => (low === high ? [low - 1, high + 1] : [low, high]) },
        y: { range: range(o.yMin ?? (o.stacked ? 0 : undefined), o.yMax) }, right: { range: range(0) },
      },
      series: [{ label: "" }].concat(series(el, current, tracks)),
      bands: charts.bands(el, o, tracks),
      axes: axes(el, o),
      cursor: {
        y: false, drag: { x: true, y: false, dist: 4 }, hover: { skip: [undefined] },
        points: { show: (u, i) => tracks[i - 1].part === "values", size: 7 },
        ...(o.sync ? { sync: { key: o.sync, setSeries: false, scales: ["x", null] } } : {}),
      },
      hooks: { draw: [(u) => drawMarkers(el, u, current())], setCursor: [hooks.cursor], setScale: [(u, key) => key === "x" && hooks.zoom(u)] },
    };
  };
})(swarmCharts);
