// Draws the report's charts, each when it comes into view.
(function () {
  "use strict";

  swarmCharts.utc = true; // like the report's tables, because readers may be in any time zone
  const all = JSON.parse(document.getElementById("charts").textContent);
  const waiting = new Set(document.querySelectorAll("[data-chart]"));
  const drawn = new Map(); // element -> chart
  const smooth = document.getElementById("smooth");

  const nameOf = (el) => (el.dataset.smooth && smooth.checked ? el.dataset.smooth : el.dataset.chart);

  function draw(el) {
    if (!waiting.delete(el)) return;
    const chart = all[nameOf(el)];
    if (!chart) return;
    try {
      if (chart.kind === "experiments") experiments(el, chart);
      else if (chart.kind === "curves") swarmCharts.curves(el, chart.curves || [], chart.options);
      else drawn.set(el, swarmCharts[chart.kind](el, { x: [], series: [], ...chart.options }));
    } catch (error) {
      el.textContent = "This chart can't be drawn: " + error.message;
      throw error;
    }
  }

  // experiments draws one line per experiment, with a chooser of the axis and switches for bands and single runs.
  function experiments(el, chart) {
    const make = swarmCharts.make, axes = chart.axes || [];
    const tools = make("p", "switch"), place = make("div");
    let view;
    const axis = make("select");
    axes.forEach((a) => {
      const option = make("option", "", a.label);
      option.value = a.name;
      axis.append(option);
    });
    const first = axes.find((a) => a.name === chart.options.by) || axes[0];
    if (first) axis.value = first.name;
    const box = (text, on) => {
      const input = make("input"), label = make("label");
      input.type = "checkbox";
      input.checked = on;
      input.addEventListener("change", show);
      label.append(input, " " + text);
      tools.append(label);
      return input;
    };
    const against = make("label", "", (chart.options.choice || "Against") + " ");
    against.append(axis);
    tools.append(against);
    axis.addEventListener("change", show);
    const band = box("95 % band", true);
    const single = box("Single runs", Boolean(chart.options.single));
    if (axes.length > 0) el.append(tools);
    el.append(place);
    show();

    function show() {
      const now = axes.find((a) => a.name === axis.value);
      const options = { ...chart.options, axis: chart.options.choice ? undefined : now, band: band.checked, single: single.checked };
      if (view) view.update(now?.experiments || [], options);
      else view = swarmCharts.experiments(place, now?.experiments || [], options);
    }
  }

  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      observer.unobserve(entry.target);
      draw(entry.target);
    }
  }, { rootMargin: "600px" });
  waiting.forEach((el) => observer.observe(el));

  smooth?.addEventListener("change", () => {
    for (const [el, chart] of drawn) {
      if (el.dataset.smooth) chart.update({ x: [], series: [], ...all[nameOf(el)].options });
    }
  });

  window.addEventListener("beforeprint", () => {
    document.querySelectorAll("details.prints").forEach((d) => (d.open = true));
    [...waiting].forEach(draw);
  });
})();
