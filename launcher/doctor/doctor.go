// Package doctor checks this machine for what swarm needs, and reports what is missing and how to fix it (swarm
// doctor). It checks the home, the database, the GPUs and the Python interpreters, and starts an engine. It creates
// the home and changes nothing else. It must not import packages that run nodes.
package doctor

import (
	"context"
	"fmt"
	"runtime"

	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/launcher/gpu"
	"github.com/sapo-swarm/swarm/node/policy"
)

// Finding is the result of one check.
type Finding struct {
	Check string `json:"check"`
	OK    bool   `json:"ok"`
	Found string `json:"found"`
	Unfit bool   `json:"unfit,omitempty"` // an interpreter that cannot be used, while another can
	Try   string `json:"try,omitempty"`   // remedy; if OK is true, a possible improvement
}

// Options configure Check.
type Options struct {
	Version     string // of swarm
	Home        layout.Home
	Python      *policy.Interpreter
	StartEngine func(ctx context.Context, threads int) (*policy.Engine, error)
	Remedy      func(error) string // returns the remedy for an error; may return ""
	MinFreeDisk uint64             // bytes that a run needs to start
}

// Check runs all checks, the most basic first.
func Check(ctx context.Context, o Options) ([]Finding, error) {
	findings := []Finding{
		{Check: "swarm", OK: true, Found: fmt.Sprintf("%s, %s, %s/%s", o.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)},
		checkHome(o.Home, o.MinFreeDisk),
		checkDatabase(ctx, o),
	}
	host, err := gpu.Detect(ctx)
	if err != nil {
		return nil, err
	}
	findings = append(findings, checkHost(host)...)
	return append(findings, checkPython(ctx, o, host)...), nil
}

// Table formats findings for people.
func Table(findings []Finding) *table.Table {
	t := table.New(table.Column{}, table.Column{}, table.Column{Wrap: true})
	for _, f := range findings {
		mark := "ok"
		switch {
		case !f.OK:
			mark = "MISSING"
		case f.Unfit:
			mark = "skipped"
		}
		t.Add(mark, f.Check, f.Found)
		if f.Try != "" {
			t.Add("", "", "Try: "+f.Try)
		}
	}
	return t
}
