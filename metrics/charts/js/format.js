// Numbers as text, in the same form as in the terminal.
(function (charts) {
  "use strict";

  const unknown = "–";

  function pad(n) {
    return String(n).padStart(2, "0");
  }

  function number(v) {
    if (Number.isInteger(v) && Math.abs(v) < 1e6) return String(v);
    const size = Math.abs(v);
    if (size >= 1e6 || size < 1e-4) return v.toPrecision(3);
    return String(parseFloat(v.toPrecision(4)));
  }

  // 1 GB is 10^9 bytes, as memory is sold.
  function bytes(v) {
    const size = Math.abs(v);
    if (size < 1e6) return (v / 1e3).toFixed(0) + " kB";
    if (size < 1e9) return (v / 1e6).toFixed(0) + " MB";
    return (v / 1e9).toFixed(size < 100e9 ? 1 : 0) + " GB";
  }

  function seconds(v) {
    if (v < 0) return "-" + seconds(-v);
    if (v < 0.1) return parseFloat((1000 * v).toPrecision(2)) + " ms";
    if (v < 10) return v.toFixed(1) + " s";
    const s = Math.round(v);
    if (s < 60) return s + "s";
    if (s < 3600) return Math.floor(s / 60) + "m" + pad(s % 60) + "s";
    if (s < 86400) return Math.floor(s / 3600) + "h" + pad(Math.floor((s % 3600) / 60)) + "m";
    return Math.floor(s / 86400) + "d" + pad(Math.floor((s % 86400) / 3600)) + "h";
  }

  // Seconds by which local time is ahead of UTC at a time; 0 if swarmCharts.utc is set.
  charts.zone = (v) => (charts.utc ? 0 : -60 * new Date(1000 * v).getTimezoneOffset());

  function time(v) {
    const d = new Date(1000 * (v + charts.zone(v)));
    return Number.isNaN(d.getTime()) ? unknown : d.toISOString().slice(0, 19).replace("T", " ");
  }

  // Ticks of a time axis: the first tick, and the first tick of each day, has the date. Close ticks have seconds.
  charts.timeTicks = function (values, step) {
    let last = "";
    return values.map((v) => {
      const [day, clock] = time(v).split(" ");
      const text = step < 60 ? clock : clock.slice(0, 5), begins = day !== last;
      last = day;
      if (step >= 86400) return day;
      return begins ? day.slice(5) + " " + text : text;
    });
  };

  const units = {
    number, bytes, seconds, time,
    ratio: (v) => parseFloat((100 * v).toPrecision(3)) + " %",
    watts: (v) => v.toFixed(0) + " W",
    celsius: (v) => v.toFixed(0) + " °C",
  };

  charts.format = function (value, unit) {
    if (typeof value !== "number" || !Number.isFinite(value)) return unknown;
    return (units[unit] || number)(value);
  };

  function decimals(step) {
    for (let n = 0; n < 9; n++) {
      const scaled = step * 10 ** n;
      if (Math.abs(scaled - Math.round(scaled)) < 1e-6) return n;
    }
    return 9;
  }

  // All ticks of an axis share one unit, and have as many decimals as their distance needs.
  charts.ticks = function (values, step, unit) {
    const largest = Math.max(0, ...values.filter((v) => v !== null).map(Math.abs));
    let divisor = 1, suffix = "";
    if (unit === "bytes") [divisor, suffix] = largest >= 1e9 ? [1e9, " GB"] : largest >= 1e6 ? [1e6, " MB"] : [1e3, " kB"];
    if (unit === "ratio") [divisor, suffix] = [0.01, " %"];
    if (unit === "watts") suffix = " W";
    if (unit === "celsius") suffix = " °C";
    if (unit === "seconds") [divisor, suffix] = largest >= 3 * 3600 ? [3600, " h"] : largest >= 180 ? [60, " min"] : [1, " s"];
    const digits = decimals(step / divisor);
    return values.map((v) => (v === null ? "" : (v / divisor).toFixed(digits) + suffix));
  };

  // Distances between ticks; undefined: uPlot's default.
  charts.steps = function (unit) {
    if (unit !== "seconds") return undefined;
    return [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800,
      21600, 43200, 86400, 172800, 432000, 864000];
  };
})(swarmCharts);
