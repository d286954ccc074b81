// Package charts has the drawing code of the dashboard's page and the report: uPlot (MIT, npm package uplot 1.6.32,
// unchanged, in uplot/ with its license), the charts built on it, and the design tokens. It contains only assets and
// imports nothing of this module. Its JavaScript formats and lays out numbers that metrics/stats computed.
//
// The scripts are classic scripts without a build step, because they must also run from a file:// page. uplot.js
// defines uPlot. charts.js, loaded after it, defines swarmCharts (documented in js/api.js). Both insert text only
// through textContent and set styles only through the CSSOM, so that they work under a Content-Security-Policy without
// inline scripts and styles.
package charts

import (
	_ "embed" // the assets
	"strings"
)

//go:embed uplot/uPlot.iife.min.js
var uplotScript string

//go:embed uplot/uPlot.min.css
var uplotStyle string

//go:embed uplot/LICENSE
var uplotLicense string

//go:embed theme.css
var theme string

//go:embed js/api.js
var apiScript string

//go:embed js/format.js
var formatScript string

//go:embed js/palette.js
var paletteScript string

//go:embed js/frame.js
var frameScript string

//go:embed js/legend.js
var legendScript string

//go:embed js/table.js
var tableScript string

//go:embed js/plot.js
var plotScript string

//go:embed js/lines.js
var linesScript string

//go:embed js/curves.js
var curvesScript string

//go:embed js/timeline.js
var timelineScript string

// Asset is one file as sent to a browser.
type Asset struct {
	Name string // uplot.js, uplot.css, charts.js, theme.css
	Type string // content type
	Text string
}

// Assets returns the files in the order in which a page must load them.
func Assets() []Asset {
	const script, style = "text/javascript; charset=utf-8", "text/css; charset=utf-8"
	charts := strings.Join([]string{
		apiScript, formatScript, paletteScript, frameScript, legendScript, tableScript, plotScript, linesScript, curvesScript, timelineScript,
	}, "\n")
	return []Asset{
		{"uplot.css", style, "/*\n" + uplotLicense + "\n*/\n" + uplotStyle},
		{"theme.css", style, theme},
		{"uplot.js", script, "/*!\n" + uplotLicense + "\n*/\n" + uplotScript},
		{"charts.js", script, charts},
	}
}
