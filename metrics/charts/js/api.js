// swarmCharts: charts for swarm's pages. A classic script after uPlot. Each file of this folder adds its part.
//
//   swarmCharts.lines(el, {title, x, xLabel, xUnit, yLabel, unit, series, markers, height, yMin, yMax, stacked, sync, empty})
//     x           ascending numbers. xUnit: number (default), seconds, or time (Unix seconds)
//     unit        unit of y: number (default), bytes, seconds, ratio, watts, celsius
//     series      [{label, values, low, high, color, dash, width, hidden, parent}]. values, low and high have one entry
//                 per x: a number, null (unknown: a gap) or undefined (no point here: the line continues).
//                 low..high is drawn as a band. edges are the names of its edges in the table (lowest, highest).
//                 color: an index into the palette, the name of a CSS variable, or a CSS color.
//                 dash: an index into the dash patterns, or a pattern. parent: the label of another series. This series
//                 then has no legend entry and is shown and hidden with the other one.
//                 axis: "right" for a second unit (rightUnit, rightLabel)
//     markers     [{x, label, kind}]: vertical lines. kind: good, bad, warn, info
//     yMin, yMax  values that the axis must include
//     stacked     draw series on top of each other, except those with overlay: true. Legend and table show the series'
//                 own values
//     fine        x may have ticks between whole numbers
//     sync        charts with the same name share the cursor
//     empty       text to show if there is no value
//   swarmCharts.curves(el, curves, options)  curves: documents stats.Curve. Options as above, and {nodes, band (default
//                 true), colors: {EXPERIMENT: index}, by: "round" (default) or "time" (since the run's start)}. Each
//                 experiment has one color and dash
//   swarmCharts.experiments(el, curves, options)  curves: documents stats.ExperimentCurve. Options as for lines, and
//                 {axis: {name, label, unit}, band (default true), single (default false): a line per run,
//                 colors: {EXPERIMENT: index}}
//   swarmCharts.timeline(el, {title, from, to, lanes: [{label, items: [{time, end, kind, label}]}], onSelect, empty})
//                 Times are Unix seconds
//     Each of these returns {update(same arguments without el), destroy()}.
//   swarmCharts.format(value, unit)  text; "–" for an unknown value
//   swarmCharts.utc = true shows times in UTC instead of the viewer's time zone. Set it before the first chart
//   swarmCharts.dashes, swarmCharts.color(el, color), swarmCharts.swatch(color, dash)
//
// Keys on a focused chart: left and right move the cursor (with shift by ten), and so do home and end. Plus and minus
// zoom. Escape or 0 shows everything.
var swarmCharts = {};
