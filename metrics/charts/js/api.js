// swarmCharts: charts for swarm's pages. A classic script after uPlot; each file of this folder adds its part.
//
//   swarmCharts.lines(el, {title, x, xLabel, xUnit, yLabel, unit, series, markers, height, yMin, yMax, stacked, sync, empty})
//     x        ascending numbers; xUnit number (default), seconds, or time (Unix seconds)
//     unit     of y: number (default), bytes, seconds, ratio, watts, celsius
//     series   [{label, values, low, high, color, dash, width, hidden, parent}]; values, low and high go by x: a number, null (unknown: a
//              gap) or undefined (nothing at this x: the line goes on). low..high is drawn as a band, whose edges the table calls edges (lowest, highest). color: an index into the palette, a
//              CSS variable's name or a CSS color. dash: an index into the dash patterns, or a pattern. parent: a label; the series then
//              has no legend entry and shows and hides with that one. axis: "right" for a second unit (rightUnit, rightLabel).
//     markers  [{x, label, kind}]: vertical lines; kind good, bad, warn, info
//     yMin, yMax  values that the axis has to include
//     stacked  draw series on top of each other, but those with overlay: true (legend and table show all as they are)
//     fine     x may have ticks between whole numbers
//     sync     charts of one name share the cursor
//     empty    what to say when there is no value
//   swarmCharts.curves(el, curves, options)  curves: documents stats.Curve; options as above and {nodes, band (default true), colors:
//              {EXPERIMENT: index}, by: "round" (default) or "time" (since the run's start)}; one color and dash an experiment
//   swarmCharts.experiments(el, curves, options)  curves: documents stats.ExperimentCurve; options as for lines and {axis: {name, label, unit},
//              band (default true), single (default false): each run's line, colors: {EXPERIMENT: index}}
//   swarmCharts.timeline(el, {title, from, to, lanes: [{label, items: [{time, end, kind, label}]}], onSelect, empty})  Unix seconds
//     each of them returns {update(same arguments but el), destroy()}
//   swarmCharts.format(value, unit)  text; "–" for what isn't known
//   swarmCharts.utc = true shows times in UTC, not in the viewer's time zone; set it before the first chart
//   swarmCharts.dashes, swarmCharts.color(el, color), swarmCharts.swatch(color, dash)
//
// Keys on a focused chart: left and right move the cursor (with shift by ten), home and end; plus and minus zoom; escape or 0 shows everything.
var swarmCharts = {};
