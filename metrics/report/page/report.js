// Draws the report's charts, each when it comes into view.
(function () {
  "use strict";

  swarmCharts.utc = true; // like the report's tables: it is read anywhere
  const all = JSON.parse(document.getElementById("charts").textContent);
  const waiting = new Set(document.querySelectorAll("[data-chart]"));

  function draw(el) {
    if (!waiting.delete(el)) return;
    const chart = all[el.dataset.chart];
    if (!chart) return;
    try {
      if (chart.kind === "curves") swarmCharts.curves(el, chart.curves || [], chart.options);
      else swarmCharts[chart.kind](el, { x: [], series: [], ...chart.options });
    } catch (error) {
      el.textContent = "This chart can't be drawn: " + error.message;
      throw error;
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

  window.addEventListener("beforeprint", () => {
    document.querySelectorAll("details.prints").forEach((d) => (d.open = true));
    [...waiting].forEach(draw);
  });
})();
