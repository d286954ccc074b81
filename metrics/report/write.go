package report

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/charts"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/evaluation"
	"github.com/sapo-swarm/swarm/metrics/stats/times"
	"github.com/sapo-swarm/swarm/metrics/stats/workers"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

//go:embed page
var pages embed.FS

// page is the template of the file.
var page = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"number": number, "percent": percent, "share": share, "pvalue": pvalue, "gigabytes": gigabytes, "duration": duration,
	"optionalDuration": optionalDuration, "energy": energy, "clock": clock, "label": label, "passes": passes, "money": money, "count": units.Plural[int],
	"interval": interval, "tone": tone, "guide": guide,
	"list":     func(names []string) string { return units.List(names, "and") },
	"numbers":  func(low, high *float64) string { return interval(low, high, number) },
	"percents": func(low, high *float64) string { return interval(low, high, percent) },
	"measure":  wording.Measure,
	"cut":      cut, "pairDifferences": pairDifferences,
	"one":   func(v float64) *float64 { return &v },
	"ratio": func(v stats.Value) string { return share((*float64)(&v)) },
}).ParseFS(pages, "page/*.html"))

// view is the data of the template.
type view struct {
	*Report
	Comparison stats.Comparison // with a study's short names
	Published  []stats.Row      // rows whose I/J have published figures
	Verdict    Verdict
	Per        wording.Table // a study's held-out pass@1 by cost
	Policy     string
	Style      template.CSS
	Script     template.JS
	Charts     template.JS // JSON
	Documents  template.JS // JSON
}

// document is one run in the file's embedded documents, which are for programs that read reports.
type document struct {
	Row         stats.RunRow        `json:"row"`
	Status      stats.Status        `json:"status"`
	Resources   stats.Resources     `json:"resources"`
	Evaluations evaluation.Document `json:"evaluations"`
	RoundTimes  times.Rounds        `json:"round_times"`
	Workers     []workers.Row       `json:"workers,omitempty"`
}

// Write writes the report as an HTML file.
func (r *Report) Write(w io.Writer) error {
	v := view{Report: r, Comparison: r.Comparison.Shortened()}
	v.Verdict = verdict(v.Comparison)
	if v.Comparison.Study != nil {
		v.Per = wording.PerTable(v.Comparison.Study.Per)
	}
	for _, row := range v.Comparison.Rows {
		if row.PaperReward != nil || row.Guide != nil {
			v.Published = append(v.Published, row)
		}
	}
	v.Style, v.Script = template.CSS(style()), template.JS(script()) //nolint:gosec // ours, not a database's
	v.Policy = fmt.Sprintf("default-src 'none'; style-src %s; script-src %s; base-uri 'none'; form-action 'none'",
		hash(string(v.Style)), hash(string(v.Script)))
	runs := make([]document, len(r.Runs))
	for i, run := range r.Runs {
		runs[i] = document{run.Row, run.Status, run.Resources, run.Evaluations, run.Times, run.Workers}
	}
	var err error
	if v.Charts, err = embedded(r.charts()); err != nil {
		return err
	}
	if v.Documents, err = embedded(map[string]any{"made": r.Made, "window": r.Window, "comparison": r.Comparison, "runs": runs}); err != nil {
		return err
	}
	var out bytes.Buffer
	if err := page.Execute(&out, v); err != nil {
		return fmt.Errorf("make the report: %w", err)
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// embedded encodes v as JSON for a script element. It escapes <, >, & and U+2028/9, which could end the element or a
// line.
func embedded(v any) (template.JS, error) {
	text, err := json.Marshal(v) // escapes these characters
	if err != nil {
		return "", fmt.Errorf("make the report: %w", err)
	}
	return template.JS(text), nil //nolint:gosec // see above
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func style() string  { return assets(".css") + file("page/report.css") }
func script() string { return assets(".js") + file("page/report.js") }

// assets concatenates the files of metrics/charts whose names have a suffix.
func assets(suffix string) string {
	var text strings.Builder
	for _, a := range charts.Assets() {
		if strings.HasSuffix(a.Name, suffix) {
			text.WriteString(a.Text)
			text.WriteByte('\n')
		}
	}
	return text.String()
}

func file(name string) string {
	text, err := pages.ReadFile(name)
	if err != nil {
		panic(err) // embedded file
	}
	return string(text)
}

// tone returns the CSS class of a row's verdict.
func tone(outcome string) string {
	return map[string]string{stats.OutcomeBetter: "good", stats.OutcomeWorse: "bad", stats.OutcomeUndecided: "warn"}[outcome]
}

// money formats an optional amount.
func money(amount *float64, currency string) string {
	if amount == nil {
		return unknown
	}
	return units.Money(*amount, currency)
}

// guide formats guide 4's estimate.
func guide(g *stats.Guide) string {
	if g == nil {
		return unknown
	}
	text := fmt.Sprintf("%g to %g", g.Reward[0], g.Reward[1])
	if i := g.Improvement; i != nil {
		text += fmt.Sprintf(" (%+.0f to %+.0f\u00a0%%)", 100*i[0], 100*i[1])
	}
	return text
}
