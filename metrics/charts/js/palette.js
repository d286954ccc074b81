// Colors and dashes, and when to read them again. Series differ by dash as well as by color.
(function (charts) {
  "use strict";

  const colors = 8;
  charts.dashes = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 3], [12, 4, 4, 4], [2, 6], [6, 2, 2, 2, 2, 2]];

  charts.variable = function (color) {
    if (typeof color === "number") return "--series-" + ((((color % colors) + colors) % colors) + 1);
    if (typeof color === "string" && color.startsWith("--")) return color;
    return "";
  };

  // For an element's style: a CSS variable, which follows the theme.
  charts.cssColor = function (color) {
    const name = charts.variable(color);
    return name ? "var(" + name + ")" : String(color);
  };

  // For a canvas: the current value of the color.
  charts.color = function (el, color) {
    const name = charts.variable(color);
    if (!name) return String(color);
    return getComputedStyle(el).getPropertyValue(name).trim() || "#888";
  };

  charts.dash = function (dash) {
    if (Array.isArray(dash)) return dash;
    return charts.dashes[(dash || 0) % charts.dashes.length];
  };

  const kinds = { good: "--good", bad: "--bad", warn: "--warn", info: "--muted" };
  charts.kindColor = (kind) => kinds[kind] || kinds.info;

  // A short line in the style that the chart uses.
  charts.swatch = function (color, dash, width) {
    const svg = charts.svg("svg", { class: "chart-swatch", width: 26, height: 10, viewBox: "0 0 26 10", "aria-hidden": "true" });
    const line = charts.svg("line", { x1: 1, y1: 5, x2: 25, y2: 5, stroke: "currentColor", "stroke-width": Math.min(4, 1 + (width || 2)) });
    if (charts.dash(dash).length) line.setAttribute("stroke-dasharray", charts.dash(dash).join(" "));
    svg.append(line);
    svg.style.color = charts.cssColor(color);
    return svg;
  };

  charts.svg = function (name, attributes) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key of Object.keys(attributes || {})) node.setAttribute(key, attributes[key]);
    return node;
  };

  // Calls back when colors may have changed: another theme, another system scheme, printing. Returns a function that
  // stops it.
  charts.onTheme = function (callback) {
    const queries = ["(prefers-color-scheme: dark)", "print"].map((q) => window.matchMedia(q));
    queries.forEach((q) => q.addEventListener("change", callback));
    const observer = new MutationObserver(callback);
    observer.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme", "class"] });
    return function () {
      queries.forEach((q) => q.removeEventListener("change", callback));
      observer.disconnect();
    };
  };
})(swarmCharts);
