package main

import (
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const modulePath = "github.com/sapo-swarm/swarm/"

// imports lists exactly which of our packages each package imports (docs/ARCHITECTURE.md, "Packages"). cmd/swarm may
// import all. All packages may import internal packages, which import only each other. A new arrow needs a reason:
// host packages (gpu, fit, lease, mps, supervise, runlog, systemd) never import what runs them, node and metrics
// never import launcher, and nothing imports cmd.
var imports = map[string]string{
	"configs":                     "",
	"configs/resolve":             "configs",
	"launcher/background":         "launcher/supervise",
	"launcher/commandline":        "configs configs/resolve launcher/lifecycle launcher/plan launcher/workers metrics/event metrics/stats metrics/store",
	"launcher/coordinator":        "configs launcher/fit launcher/gpu launcher/launch launcher/lifecycle launcher/mps launcher/plan launcher/runlog launcher/supervise launcher/workers metrics/event metrics/stats metrics/stats/alarm metrics/store metrics/store/neutral metrics/terminal metrics/wording node node/exchange/membership node/journal node/model node/policy node/protocol",
	"launcher/doctor":             "launcher/gpu launcher/mps launcher/plan metrics/store node/policy",
	"launcher/fit":                "configs",
	"launcher/gpu":                "metrics/event",
	"launcher/gpu/fakenvml":       "",
	"launcher/job":                "configs launcher/fit launcher/gpu launcher/job/attempt launcher/job/queue launcher/job/retry launcher/job/settings launcher/job/shortage launcher/lifecycle launcher/supervise metrics/event metrics/query metrics/stats/jobstats metrics/store",
	"launcher/job/attempt":        "configs launcher/job/shortage launcher/supervise",
	"launcher/job/diagnose":       "configs launcher/job/settings launcher/job/shortage launcher/job/workload",
	"launcher/job/queue":          "launcher/supervise",
	"launcher/job/retry":          "launcher/job/shortage",
	"launcher/job/settings":       "configs",
	"launcher/job/shortage":       "",
	"launcher/job/tune":           "configs configs/resolve launcher/fit launcher/gpu launcher/job launcher/job/attempt launcher/job/queue launcher/job/settings launcher/job/workload",
	"launcher/job/workload":       "configs",
	"launcher/launch":             "launcher/fit launcher/lease launcher/runlog launcher/supervise metrics/event node/protocol",
	"launcher/lease":              "",
	"launcher/lifecycle":          "configs launcher/mps launcher/supervise metrics/event metrics/query metrics/stats metrics/store",
	"launcher/lifecycle/gpuwatch": "launcher/fit launcher/gpu launcher/job/workload launcher/lifecycle metrics/event metrics/stats metrics/store metrics/terminal",
	"launcher/mps":                "launcher/gpu launcher/supervise",
	"launcher/mps/fakemps":        "",
	"launcher/notify":             "configs",
	"launcher/plan":               "configs configs/resolve launcher/fit launcher/gpu launcher/job/queue launcher/mps metrics/event metrics/store node/exchange/membership node/model node/policy node/profile node/task",
	"launcher/recorded":           "configs configs/resolve launcher/coordinator launcher/fit launcher/gpu launcher/lifecycle launcher/plan metrics/event metrics/stats metrics/stats/evaluation metrics/store metrics/terminal node node/best node/evaluate node/model node/policy node/protocol node/tokenizer node/verify",
	"launcher/runlog":             "",
	"launcher/runs":               "configs launcher/commandline launcher/coordinator launcher/job launcher/lifecycle launcher/plan launcher/runlog launcher/supervise metrics/event metrics/query metrics/stats metrics/stats/jobstats metrics/store metrics/terminal",
	"launcher/study":              "configs configs/resolve launcher/coordinator launcher/fit launcher/lifecycle launcher/plan metrics/event metrics/query metrics/stats metrics/stats/alarm metrics/stats/rates metrics/stats/sample metrics/stats/sweep metrics/store node node/model node/profile",
	"launcher/supervise":          "metrics/event node/protocol",
	"launcher/systemd":            "",
	"launcher/targets":            "configs",
	"launcher/web":                "configs launcher/lifecycle launcher/runlog metrics/dashboard metrics/store node/exchange node/journal node/model node/policy node/task node/tokenizer",
	"launcher/workers":            "configs configs/resolve launcher/lifecycle metrics/event metrics/query metrics/stats/workers metrics/store node/exchange/membership node/exchange/natsbus node/exchange/sharedir node/protocol",
	"metrics/charts":              "",
	"metrics/dashboard":           "metrics/charts metrics/event metrics/export/prometheus metrics/query metrics/stats metrics/stats/workers metrics/store metrics/wording",
	"metrics/event":               "",
	"metrics/export":              "configs metrics/event metrics/query metrics/stats metrics/store",
	"metrics/export/prometheus":   "metrics/event metrics/stats metrics/stats/workers metrics/store",
	"metrics/figures":             "metrics/query metrics/stats metrics/stats/evaluation metrics/stats/sample metrics/store",
	"metrics/query":               "configs metrics/stats metrics/stats/evaluation metrics/stats/jobstats metrics/stats/times metrics/stats/workers metrics/store metrics/store/neutral metrics/wording",
	"metrics/report":              "metrics/charts metrics/event metrics/query metrics/stats metrics/stats/evaluation metrics/stats/times metrics/stats/workers metrics/store metrics/wording",
	"metrics/rlswarm":             "metrics/event metrics/store",
	"metrics/stats":               "metrics/event metrics/stats/heldout metrics/stats/sample metrics/store",
	"metrics/stats/alarm":         "metrics/event metrics/stats/sample",
	"metrics/stats/evaluation":    "metrics/event metrics/stats metrics/stats/heldout metrics/stats/sample metrics/store",
	"metrics/stats/heldout":       "metrics/stats/sample",
	"metrics/stats/jobstats":      "metrics/store",
	"metrics/stats/rates":         "metrics/event metrics/stats metrics/stats/alarm metrics/stats/sample",
	"metrics/stats/sample":        "",
	"metrics/stats/sweep":         "metrics/stats metrics/stats/sample metrics/store",
	"metrics/stats/times":         "metrics/event metrics/stats metrics/stats/sample",
	"metrics/stats/workers":       "metrics/event metrics/stats metrics/store",
	"metrics/store":               "metrics/event metrics/store/extract metrics/store/sqlite",
	"metrics/store/extract":       "metrics/event metrics/store/neutral metrics/store/sqlite",
	"metrics/store/neutral":       "",
	"metrics/store/sqlite":        "",
	"metrics/terminal":            "configs metrics/event metrics/stats metrics/stats/evaluation metrics/stats/jobstats metrics/store metrics/wording",
	"metrics/wording":             "metrics/event metrics/stats metrics/stats/alarm metrics/stats/jobstats metrics/stats/sample metrics/store",
	"node":                        "configs metrics/event node/best node/exchange node/exchange/membership node/exchange/natsbus node/exchange/sharedir node/journal node/mpsclient node/policy node/protocol node/sapo node/task node/tokenizer",
	"node/best":                   "metrics/event node/policy",
	"node/evaluate":               "configs metrics/event node node/policy node/sapo node/task node/tokenizer",
	"node/exchange":               "",
	"node/exchange/exchangetest":  "node/exchange",
	"node/exchange/membership":    "configs metrics/event node/exchange node/protocol",
	"node/exchange/natsbus":       "node/exchange node/exchange/membership",
	"node/exchange/netlab":        "",
	"node/exchange/sharedir":      "node/exchange node/exchange/membership",
	"node/journal":                "metrics/event node/policy",
	"node/model":                  "configs node/model/hub node/tokenizer",
	"node/model/hub":              "",
	"node/model/hub/hubtest":      "",
	"node/mpsclient":              "",
	"node/policy":                 "",
	"node/policy/policytest":      "node/policy",
	"node/pretrain":               "configs node/model node/policy node/sapo node/task node/tokenizer",
	"node/profile":                "configs node/policy",
	"node/protocol":               "metrics/event",
	"node/sapo":                   "",
	"node/task":                   "configs",
	"node/tokenizer":              "",
	"node/verify":                 "configs metrics/event node node/exchange node/journal node/policy node/protocol node/sapo node/task node/tokenizer",
}

// testImports lists imports of a package's tests only.
var testImports = map[string]string{
	"launcher/background":         "launcher/runlog",
	"launcher/commandline":        "node/model",
	"launcher/coordinator":        "launcher/gpu/fakenvml",
	"launcher/gpu":                "launcher/gpu/fakenvml",
	"launcher/lifecycle/gpuwatch": "launcher/gpu/fakenvml",
	"launcher/mps":                "launcher/mps/fakemps",
	"launcher/runlog":             "launcher/supervise",
	"metrics/figures":             "metrics/event metrics/export",
	"metrics/query":               "metrics/event",
	"metrics/stats/alarm":         "metrics/store",
	"metrics/stats/rates":         "metrics/store",
	"node":                        "node/model node/policy/policytest node/pretrain",
	"node/exchange":               "node/tokenizer",
	"node/exchange/natsbus":       "node/exchange/exchangetest",
	"node/exchange/sharedir":      "node/exchange/exchangetest node/protocol",
	"node/model/hub":              "node/model/hub/hubtest",
	"node/policy":                 "node/policy/policytest",
	"node/pretrain":               "node/policy/policytest",
	"node/verify":                 "node/exchange/natsbus node/model node/policy/policytest",
}

// pure packages do no I/O and read no clock. The values are imports that they must not have.
var pure = map[string][]string{
	"launcher/fit":             {"os", "net", "time", "os/exec", "database/sql"},
	"node/sapo":                {"os", "net", "time", "os/exec", "database/sql", "sync"},
	"metrics/stats":            {"os", "net", "os/exec", "sync"},
	"metrics/stats/alarm":      {"os", "net", "time", "os/exec", "sync"},
	"metrics/stats/evaluation": {"os", "net", "time", "os/exec", "sync"},
	"metrics/stats/heldout":    {"os", "net", "time", "os/exec", "sync"},
	"metrics/stats/jobstats":   {"os", "net", "time", "os/exec", "sync"},
	"metrics/stats/rates":      {"os", "net", "time", "os/exec", "sync"},
	"metrics/stats/sample":     {"os", "net", "time", "os/exec", "sync"},
	"metrics/stats/sweep":      {"os", "net", "time", "os/exec", "sync"},
	"metrics/store/neutral":    {"os", "net", "time", "os/exec", "database/sql", "sync"},
	"metrics/wording":          {"os", "net", "os/exec", "sync"},
	"configs":                  {"os", "net", "os/exec"},

	"internal/shell":   {"os", "net", "time", "os/exec", "database/sql", "sync"},
	"internal/table":   {"os", "net", "time", "os/exec", "database/sql", "sync"},
	"internal/charset": {"os", "net", "time", "os/exec", "database/sql", "sync"},
	"internal/units":   {"os", "net", "os/exec", "database/sql", "sync"},

	"launcher/job/retry":    {"os", "net", "time", "os/exec", "database/sql", "sync"},
	"launcher/job/shortage": {"os", "net", "time", "os/exec", "database/sql"},
	"launcher/job/workload": {"os", "net", "time", "os/exec", "database/sql", "sync"},
}

func TestImportArrows(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}} | {{join .TestImports " "}} {{join .XTestImports " "}}`, modulePath+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		code, tests, _ := strings.Cut(strings.TrimSpace(line), "|")
		fields := strings.Fields(code)
		from := strings.TrimPrefix(fields[0], modulePath)
		found[from] = true
		for _, to := range fields[1:] {
			if from != "internal/chromium" && (to == modulePath+"internal/hermetic" || to == modulePath+"internal/chromium") {
				t.Errorf("%s imports %s, which is for tests", from, to)
			}
			if slices.Contains(pure[from], to) {
				t.Errorf("%s is pure and must not import %s", from, to)
			}
		}
		if strings.HasPrefix(from, "cmd/") {
			continue
		}
		row, known := imports[from]
		if !known && !strings.HasPrefix(from, "internal/") {
			t.Errorf("%s has no row", from)
		}
		own := ours(fields[1:])
		allowed := strings.Fields(row)
		compare(t, from, own, allowed)
		more := slices.DeleteFunc(ours(strings.Fields(tests)), func(to string) bool { return to == from || slices.Contains(own, to) })
		compare(t, from+"'s tests", more, strings.Fields(testImports[from]))
	}
	for _, from := range slices.Sorted(maps.Keys(imports)) {
		if !found[from] {
			t.Errorf("%s has a row, and is no package", from)
		}
	}
}

// ours returns the imports of this module's packages, without internal packages and duplicates.
func ours(list []string) (out []string) {
	for _, path := range list {
		if to, ok := strings.CutPrefix(path, modulePath); ok && !strings.HasPrefix(to, "internal/") && !slices.Contains(out, to) {
			out = append(out, to)
		}
	}
	return out
}

// compare fails unless the imports equal the row.
func compare(t *testing.T, from string, got, row []string) {
	t.Helper()
	for _, to := range got {
		if !slices.Contains(row, to) {
			t.Errorf("%s must not import %s", from, to)
		}
	}
	for _, to := range row {
		if !slices.Contains(got, to) {
			t.Errorf("%s does not import %s any more: its row says so", from, to)
		}
	}
}
