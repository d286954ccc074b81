// A chart's data as a real table.
(function (charts) {
  "use strict";

  function cell(name, text, scope) {
    const node = charts.make(name, name === "td" ? "number" : "", text);
    if (scope) node.scope = scope;
    return node;
  }

  // table makes a table from a caption, column heads and rows of texts. The first text of a row is its head.
  charts.table = function (caption, heads, rows) {
    const table = charts.make("table", "data");
    const head = charts.make("thead"), body = charts.make("tbody"), top = charts.make("tr");
    table.append(charts.make("caption", "", caption || "Data"));
    heads.forEach((text) => top.append(cell("th", text, "col")));
    head.append(top);
    for (const row of rows) {
      const line = charts.make("tr");
      row.forEach((text, i) => line.append(i === 0 ? cell("th", text, "row") : cell("td", text)));
      body.append(line);
    }
    table.append(head, body);
    return table;
  };

  // linesTable makes the table for options of swarmCharts.lines.
  charts.linesTable = function (o) {
    const shown = o.series.filter((s) => s.values.some((v) => v !== null && v !== undefined));
    const heads = [o.xLabel || "x"];
    for (const s of shown) {
      heads.push(s.label);
      if (s.low) heads.push(...(s.edges || ["lowest", "highest"]).map((edge) => `${s.label}, ${edge}`));
    }
    const rows = [];
    o.x.forEach((x, i) => {
      const columns = shown.flatMap((s) => (s.low ? [s.values, s.low, s.high] : [s.values]).map((v) => ({ v: v[i], unit: charts.unitOf(o, s) })));
      if (columns.every((c) => c.v === undefined)) return;
      rows.push([charts.format(x, o.xUnit), ...columns.map((c) => (c.v === undefined ? "" : charts.format(c.v, c.unit)))]);
    });
    return charts.table(o.title, heads, rows);
  };

  charts.unitOf = (o, s) => (s.axis === "right" ? o.rightUnit : o.unit) || "number";
})(swarmCharts);
