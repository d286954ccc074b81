// Line charts.
(function (charts) {
  "use strict";

  const present = (v) => v !== null && v !== undefined;

  function lastKnown(values) {
    for (let i = values.length - 1; i >= 0; i--) if (present(values[i])) return i;
    return -1;
  }

  const axisName = (o) => o.xLabel || (o.xUnit === "time" ? "" : "x");
  const place = (o, x) => (axisName(o) + " " + charts.format(x, o.xUnit)).trim();

  // An update that changes only numbers, markers and title needs no new plot.
  function structure(o) {
    const drawn = o.series.map((s) => [s.label, s.color, s.dash, s.width, s.parent, s.axis, s.overlay, Boolean(s.low && s.high)]);
    return JSON.stringify([drawn, o.xUnit, o.fine, o.unit, o.rightUnit, o.xLabel, o.yLabel, o.yMin, o.yMax, o.stacked, o.sync, o.height]);
  }

  // Text for screen readers: the first and the latest value of each series.
  function words(o) {
    const shown = o.series.filter((s) => !s.parent && lastKnown(s.values) >= 0);
    if (!shown.length) return (o.title || "Chart") + ": " + (o.empty || "no data yet");
    const tell = shown.slice(0, 12).map((s) => {
      const first = s.values.findIndex(present), last = lastKnown(s.values), unit = charts.unitOf(o, s);
      const tellAt = (i) => charts.format(s.values[i], unit) + " at " + place(o, o.x[i]);
      return `${s.label}: ${tellAt(first)}, ${tellAt(last)}`;
    });
    if (shown.length > tell.length) tell.push(`and ${shown.length - tell.length} more`);
    const keys = "Arrow keys move the cursor; the button Table shows the numbers.";
    return `${o.title || "Chart"}: line chart of ${shown.length} series. ${tell.join("; ")}. ${keys}`;
  }

  function texts(o, at) {
    return o.series.filter((s) => !s.parent).map((s) => {
      const i = at(s), unit = charts.unitOf(o, s);
      if (i === null || i < 0 || s.hidden) return "";
      const band = s.low && s.high && present(s.low[i]) && s.low[i] !== s.high[i];
      return charts.format(s.values[i], unit) + (band ? ` (${charts.format(s.low[i], unit)} to ${charts.format(s.high[i], unit)})` : "");
    });
  }

  charts.lines = function (el, options) {
    let o, tracks, plot = null, legend, was = "", zoomed = false;
    const hidden = new Map(); // label -> whether the user shows it
    const frame = charts.frame(el, { table: () => charts.linesTable(o), onReset: reset });

    function take(next) {
      o = { unit: "number", xUnit: "number", height: 260, markers: [], ...next };
      o.series = (next.series || []).map((s, i) => {
        const owner = s.parent || s.label;
        return { ...s, color: s.color ?? i, dash: s.dash ?? 0, hidden: hidden.has(owner) ? hidden.get(owner) : Boolean(s.hidden) };
      });
    }

    function size() {
      return { width: Math.max(160, Math.floor(frame.plot.clientWidth) || 600), height: o.height };
    }

    function build() {
      plot?.destroy();
      tracks = charts.layout(o);
      const entries = o.series.filter((s) => !s.parent);
      legend = charts.legend(frame.legend, { entries, onToggle: toggle });
      const given = charts.plotOptions(frame.root, () => o, tracks, size(), { cursor: onCursor, zoom: onZoom });
      plot = new uPlot(given, charts.data(o, tracks), frame.plot);
      zoomed = false;
      frame.zoomed(false);
    }

    function showLatest() {
      const last = o.series.reduce((most, s) => Math.max(most, lastKnown(s.values)), -1);
      legend.show(last < 0 ? "" : "latest, " + place(o, o.x[last]), texts(o, (s) => lastKnown(s.values)));
    }

    function onCursor(u) {
      if (!legend) return;
      const i = u.cursor.idx;
      if (!present(i) || u.cursor.left < 0) return showLatest();
      const idxs = u.cursor.idxs || [];
      const track = (s) => 1 + tracks.findIndex((t) => o.series[t.of] === s && t.part === "values");
      legend.show(place(o, o.x[i]), texts(o, (s) => idxs[track(s)] ?? null));
    }

    function onZoom(u) {
      const { min, max } = u.scales.x, x = o.x;
      zoomed = x.length > 1 && present(min) && (min > x[0] || max < x[x.length - 1]);
      frame.zoomed(zoomed);
    }

    function toggle(label, shown) {
      hidden.set(label, !shown);
      o.series.forEach((s) => {
        if ((s.parent || s.label) === label) s.hidden = !shown;
      });
      if (o.stacked) {
        plot.delBand(null);
        charts.bands(frame.root, o, tracks).forEach((band) => plot.addBand(band));
        plot.setData(charts.data(o, tracks), !zoomed);
      }
      tracks.forEach((t, i) => plot.setSeries(i + 1, { show: !o.series[t.of].hidden }));
      showLatest();
    }

    function reset() {
      if (o.x.length) plot.setScale("x", { min: o.x[0], max: o.x[o.x.length - 1] });
    }

    function zoom(factor) {
      const { min, max } = plot.scales.x, x = o.x;
      if (!present(min) || x.length < 2) return;
      const middle = plot.cursor.left >= 0 ? plot.posToVal(plot.cursor.left, "x") : (min + max) / 2;
      const low = Math.max(x[0], middle - (middle - min) * factor), high = Math.min(x[x.length - 1], middle + (max - middle) * factor);
      if (high > low) plot.setScale("x", { min: low, max: high });
    }

    function move(to) {
      const i = Math.min(o.x.length - 1, Math.max(0, to));
      if (i < 0) return;
      plot.setCursor({ left: plot.valToPos(o.x[i], "x"), top: plot.over.clientHeight / 2 });
      const told = o.series.filter((s) => !s.parent).map((s) => [s, texts({ ...o, series: [s] }, () => i)[0]])
        .filter(([, text]) => text && text !== "–");
      frame.say(place(o, o.x[i]) + ": " + told.map(([s, text]) => s.label + " " + text).join("; "));
    }

    function onKey(event) {
      const last = o.x.length - 1, i = plot.cursor.left >= 0 && present(plot.cursor.idx) ? plot.cursor.idx : last;
      const step = event.shiftKey ? 10 : 1;
      const actions = {
        ArrowLeft: () => move(i - step), ArrowRight: () => move(i + step), Home: () => move(0), End: () => move(last),
        "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "0": reset, Escape: reset,
      };
      const action = actions[event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey || (event.key === "Escape" && !zoomed)) return;
      event.preventDefault();
      action();
    }

    function update(next) {
      take(next);
      const now = structure(o);
      if (now !== was) {
        was = now;
        build();
      } else if (zoomed) {
        const { min, max } = plot.scales.x;
        plot.setData(charts.data(o, tracks), false);
        plot.setScale("x", { min, max });
      } else {
        plot.setData(charts.data(o, tracks));
      }
      const nothing = !o.series.some((s) => lastKnown(s.values) >= 0);
      charts.empty(frame, nothing ? o.empty || "No data yet" : "");
      frame.describe(o.title, words(o));
      frame.refreshTable();
      onCursor(plot);
    }

    const observer = new ResizeObserver(() => {
      const { width, height } = size();
      if (plot && frame.plot.clientWidth && width !== plot.width) plot.setSize({ width, height });
    });
    const stopTheme = charts.onTheme(() => plot?.redraw(false, true));
    frame.plot.addEventListener("keydown", onKey);
    update(options);
    observer.observe(frame.plot);
    return {
      update,
      destroy() {
        observer.disconnect();
        stopTheme();
        plot.destroy();
        frame.root.remove();
      },
    };
  };
})(swarmCharts);
