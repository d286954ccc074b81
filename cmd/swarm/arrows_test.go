package main

import (
	"os/exec"
	"strings"
	"testing"
)

const modulePath = "github.com/sapo-swarm/swarm/"

// allowed says which of our packages a package may import, by prefix (docs/ARCHITECTURE.md). The longest matching row
// counts. Test files are held to it too.
var allowed = []struct{ from, to string }{
	{"cmd/", "cmd/ configs launcher node metrics internal/"},
	{"configs", "internal/"},
	{"configs/resolve", "configs internal/"},
	{"internal/", "internal/"},
	{"launcher", "launcher configs metrics/event node/protocol internal/"},
	{"launcher/doctor", "launcher/gpu launcher/mps launcher/plan metrics/store node/policy configs internal/"},
	{"launcher/gpu", "launcher/gpu configs metrics/event internal/"},
	{"launcher/job", "launcher/job/ launcher/fit launcher/gpu launcher/lifecycle launcher/supervise metrics configs internal/"},
	{"launcher/job/diagnose", "launcher/job/ configs internal/"},
	{"launcher/job/tune", "launcher/job launcher/fit launcher/gpu launcher/targets configs internal/"},
	{"launcher/job/", "launcher/job/ launcher/supervise configs internal/"},
	{"launcher/lifecycle", "launcher metrics configs internal/"},
	{"launcher/lifecycle/gpuwatch", "launcher/lifecycle launcher/fit launcher/gpu launcher/job/workload metrics configs internal/"},
	{"launcher/study", "launcher node metrics configs internal/"},
	{"launcher/coordinator", "launcher node metrics configs internal/"},
	{"launcher/plan", "launcher node metrics configs internal/"},
	{"launcher/workers", "launcher node metrics configs internal/"},
	{"node", "node configs metrics/event internal/"},
	{"node/protocol", "node/protocol metrics/event"},
	{"metrics/event", "internal/"},
	{"metrics/store", "metrics/store metrics/event internal/"},
	{"metrics/stats", "metrics/stats metrics/store metrics/event internal/"},
	{"metrics/query", "metrics/query metrics/stats metrics/store metrics/event configs internal/"},
	{"metrics/wording", "metrics/wording metrics/stats metrics/store metrics/event internal/"},
	{"metrics/charts", "metrics/charts internal/"},
	{"metrics/terminal", "metrics/terminal metrics/wording metrics/query metrics/stats metrics/store metrics/event configs internal/"},
	{"metrics/report", "metrics/report metrics/charts metrics/wording metrics/query metrics/stats metrics/store metrics/event internal/"},
	{"metrics/dashboard", "metrics/dashboard metrics/export/prometheus metrics/charts metrics/wording metrics/query metrics/stats metrics/store metrics/event internal/"},
	{"metrics/export", "metrics/export metrics/wording metrics/query metrics/stats metrics/store metrics/event internal/"},
	{"metrics/figures", "metrics/figures metrics/export metrics/wording metrics/query metrics/stats metrics/store metrics/event internal/"},
	{"metrics/rlswarm", "metrics/rlswarm metrics/store metrics/event internal/"},
}

// pure packages do no I/O and read no clock.
var pure = map[string][]string{
	"launcher/fit":    {"os", "net", "time", "os/exec", "database/sql"},
	"node/sapo":       {"os", "net", "time", "os/exec", "database/sql", "sync"},
	"metrics/stats":   {"os", "net", "os/exec", "sync"},
	"metrics/wording": {"os", "net", "os/exec", "sync"},
	"configs":         {"os", "net", "os/exec"},

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
	packages := 0
	for line := range strings.Lines(string(out)) {
		code, tests, _ := strings.Cut(strings.TrimSpace(line), "|")
		fields := strings.Fields(code)
		from := strings.TrimPrefix(fields[0], modulePath)
		packages++
		for _, to := range append(fields[1:], strings.Fields(tests)...) {
			if to, ours := strings.CutPrefix(to, modulePath); ours && !mayImport(t, from, to) {
				t.Errorf("%s must not import %s", from, to)
			}
		}
		for _, to := range fields[1:] {
			if to == modulePath+"internal/hermetic" {
				t.Errorf("%s imports %s, which is for tests", from, to)
			}
			for _, banned := range pure[from] {
				if to == banned {
					t.Errorf("%s is pure and must not import %s", from, to)
				}
			}
		}
	}
	if packages < 15 {
		t.Errorf("go list found only %d packages", packages)
	}
}

func mayImport(t *testing.T, from, to string) bool {
	best, rule := -1, ""
	for _, row := range allowed {
		if strings.HasPrefix(from, row.from) && len(row.from) > best {
			best, rule = len(row.from), row.to
		}
	}
	if best < 0 {
		t.Errorf("%s is in no known folder", from)
		return true
	}
	for _, prefix := range strings.Fields(rule) {
		if strings.HasPrefix(to, prefix) {
			return true
		}
	}
	return false
}
