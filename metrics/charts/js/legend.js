// The legend has a button for each series that shows or hides it. The button has the value under the cursor, else the
// latest value.
(function (charts) {
  "use strict";

  charts.legend = function (el, { entries, onToggle }) {
    const at = charts.make("span", "chart-at");
    const list = charts.make("ul", "chart-entries");
    const values = entries.map((entry) => {
      const item = charts.make("li");
      const button = charts.make("button", "chart-entry");
      const value = charts.make("span", "chart-value");
      button.type = "button";
      button.setAttribute("aria-pressed", String(!entry.hidden));
      button.title = "Show or hide";
      button.append(charts.swatch(entry.color, entry.dash, entry.width), charts.make("span", "chart-label", entry.label), value);
      button.addEventListener("click", () => {
        const shown = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(shown));
        onToggle(entry.label, shown);
      });
      item.append(button);
      list.append(item);
      return value;
    });
    el.replaceChildren(at, list);
    return {
      show(where, texts) {
        at.textContent = where;
        texts.forEach((text, i) => {
          values[i].textContent = text;
        });
      },
    };
  };
})(swarmCharts);
