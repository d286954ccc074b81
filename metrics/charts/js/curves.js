// Overlaid experiments: each has one color and dash. A run is its mean over nodes with a band, and its nodes are thin
// lines.
(function (charts) {
  "use strict";

  const units = [[/_time$/, "seconds"], [/(_rate|ratio|^frac_.*|^late$)/, "ratio"]];

  charts.metricUnit = function (metric) {
    const found = units.find(([pattern]) => pattern.test(metric || ""));
    return found ? found[1] : "number";
  };

  // The x values of all curves, ascending. Curves may lack different values, because they were thinned.
  function places(curves, where) {
    return [...new Set(curves.flatMap(where))].filter((x) => x !== null).sort((a, b) => a - b);
  }

  function labels(curves) {
    const runs = new Map();
    curves.forEach((c) => runs.set(c.experiment, (runs.get(c.experiment) || 0) + 1));
    const taken = new Map();
    return curves.map((c) => {
      let label = c.experiment;
      if (runs.get(c.experiment) > 1) label += " · seed " + c.seed;
      const again = (taken.get(label) || 0) + 1;
      taken.set(label, again);
      return again > 1 ? label + " (" + again + ")" : label;
    });
  }

  charts.curvesOptions = function (curves, options) {
    const given = { band: true, nodes: false, ...options };
    const byTime = given.by === "time", where = (c) => (byTime ? c.time || [] : c.round);
    const x = places(curves, where), at = new Map(x.map((place, i) => [place, i]));
    const spread = (curve, values) => {
      const out = new Array(x.length).fill(undefined);
      where(curve).forEach((place, i) => {
        if (place !== null) out[at.get(place)] = values[i] ?? null;
      });
      return out;
    };
    const names = labels(curves), order = [...new Set(curves.map((c) => c.experiment))];
    const series = [];
    curves.forEach((c, i) => {
      const color = given.colors?.[c.experiment] ?? order.indexOf(c.experiment);
      if (given.nodes) {
        for (const n of c.nodes || []) {
          series.push({ label: names[i] + " " + n.node, parent: names[i], values: spread(c, n.values), color, dash: 0, width: 0.6 });
        }
      }
      const band = given.band && c.low && c.high ? { low: spread(c, c.low), high: spread(c, c.high) } : {};
      series.push({ label: names[i], values: spread(c, c.mean || []), ...band, color, dash: color, width: 2 });
    });
    const { band, nodes, colors, by, ...rest } = given;
    const axis = byTime ? { xLabel: "time since start", xUnit: "seconds" } : { xLabel: "round" };
    return { ...axis, unit: charts.metricUnit(curves[0]?.metric), ...rest, x, series };
  };

  // Options of charts.lines for experiments: each has one line and dash, a band over seeds, and thin lines for single
  // runs.
  charts.experimentsOptions = function (curves, options) {
    const { band = true, single = false, colors, axis, by, ...rest } = options || {};
    const lines = (c) => (single && (c.single || []).length > 1 ? c.single : []);
    const x = places(curves, (c) => [...(c.x || []), ...lines(c).flatMap((l) => l.x)]);
    const at = new Map(x.map((place, i) => [place, i]));
    const spread = (own, values) => {
      const out = new Array(x.length).fill(undefined);
      own.forEach((place, i) => {
        if (place !== null) out[at.get(place)] = values[i] ?? null;
      });
      return out;
    };
    const series = [];
    curves.forEach((c, i) => {
      const color = colors?.[c.experiment] ?? i;
      const label = c.experiment + (c.seeds > 1 ? ` · ${c.seeds} seeds` : "");
      lines(c).forEach((l) => {
        series.push({ label: `${label} ${l.run}`, parent: label, values: spread(l.x, l.mean), color, dash: 0, width: 0.8 });
      });
      const edges = band && c.seeds > 1 && c.low && c.high ? { low: spread(c.x, c.low), high: spread(c.x, c.high),
        edges: ["95 % from", "95 % to"] } : {};
      series.push({ label, values: spread(c.x || [], c.mean || []), ...edges, color, dash: color, width: 2 });
    });
    const currency = curves.find((c) => c.currency)?.currency;
    const xLabel = axis ? axis.label + (currency && axis.name === "money" && !axis.label.includes(",") ? `, ${currency}` : "") : "round";
    return { xLabel, xUnit: axis?.unit || "number", fine: axis?.name === "money", unit: charts.metricUnit(curves[0]?.metric), ...rest, x, series };
  };

  charts.experiments = function (el, curves, options) {
    const chart = charts.lines(el, charts.experimentsOptions(curves, options));
    return {
      update: (next, nextOptions) => chart.update(charts.experimentsOptions(next, nextOptions || options)),
      destroy: chart.destroy,
    };
  };

  charts.curves = function (el, curves, options) {
    const chart = charts.lines(el, charts.curvesOptions(curves, options));
    return {
      update: (next, nextOptions) => chart.update(charts.curvesOptions(next, nextOptions || options)),
      destroy: chart.destroy,
    };
  };
})(swarmCharts);
