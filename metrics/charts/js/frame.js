// The frame of every chart: title, buttons, the plot, a line for screen readers, and the table.
(function (charts) {
  "use strict";

  function make(name, className, text) {
    const node = document.createElement(name);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  }
  charts.make = make;

  function button(text, className, onClick) {
    const b = make("button", className, text);
    b.type = "button";
    b.addEventListener("click", onClick);
    return b;
  }

  // frame fills el. It calls table for a new <table> whenever the table is shown. With onReset there is a reset button.
  charts.frame = function (el, { table, onReset }) {
    const root = make("figure", "chart");
    const head = make("figcaption", "chart-head");
    const title = make("span", "chart-title");
    const reset = button("Reset zoom", "chart-button", () => onReset());
    const toggle = button("Table", "chart-button", () => show(!open));
    const plot = make("div", "chart-plot");
    const legend = make("div", "chart-legend");
    const live = make("p", "visually-hidden");
    const drawer = make("div", "chart-table");
    let open = false;

    reset.hidden = true;
    drawer.hidden = true;
    drawer.tabIndex = 0;
    live.setAttribute("aria-live", "polite");
    plot.tabIndex = 0;
    plot.setAttribute("role", "img");
    toggle.setAttribute("aria-expanded", "false");
    head.append(title, reset, toggle);
    root.append(head, plot, legend, live, drawer);
    el.replaceChildren(root);

    function show(yes) {
      open = yes;
      toggle.setAttribute("aria-expanded", String(open));
      drawer.hidden = !open;
      drawer.replaceChildren(...(open ? [table()] : []));
    }

    return {
      root, plot, legend,
      describe(titleText, words) {
        title.textContent = titleText || "";
        toggle.setAttribute("aria-label", "Table: " + (titleText || "the chart's data"));
        drawer.setAttribute("aria-label", titleText || "data");
        drawer.setAttribute("role", "region");
        plot.setAttribute("aria-label", words);
      },
      refreshTable() {
        if (open) show(true);
      },
      zoomed(yes) {
        reset.hidden = !yes;
      },
      say(text) {
        live.textContent = text;
      },
    };
  };

  // empty shows a sentence instead of a plot; "" removes it.
  charts.empty = function (frame, text) {
    frame.plot.querySelector(".chart-empty")?.remove();
    frame.plot.classList.toggle("chart-nothing", text !== "");
    if (text !== "") frame.plot.append(make("p", "chart-empty", text));
  };
})(swarmCharts);
