// Package diagnose explains a training's log (swarm doctor --oom): the memory shortage in numbers, its meaning, the
// workload profile, and the ordered steps against it. launcher/job/shortage finds the shortage in the log. The ladder
// comes from the workload profile (launcher/job/workload), with line numbers in the training's own files
// (launcher/job/settings). Without a profile it is the general ladder. The package changes nothing, and imports
// neither cmd nor the packages that run jobs.
package diagnose

import (
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/launcher/job/shortage"
	"github.com/sapo-swarm/swarm/launcher/job/workload"
)

// Options are the options of swarm doctor --oom.
type Options struct {
	Log      string // a file, a folder (its newest log is read), or - for Stdin
	Workload string // a profile's name or YAML file; empty: guess it from the log
	Dir      string // folder of the training's configuration files

	Stdin  io.Reader
	Stderr io.Writer // for progress
}

// Document is the output of swarm doctor --oom -o json.
type Document struct {
	Log         string           `json:"log"`
	Lines       int64            `json:"lines"`
	Bytes       int64            `json:"bytes"`
	Shortage    *shortage.Report `json:"shortage"`     // null: none found
	LastFailure bool             `json:"last_failure"` // no other failure follows it
	Fault       *shortage.Fault  `json:"fault"`        // the latest failure with another cause than memory
	Means       []string         `json:"means"`        // meaning of the figures, in sentences
	Warnings    []string         `json:"doubts"`       // inconsistent figures
	Workload    *Workload        `json:"workload"`     // null: unknown
	Values      []Value          `json:"values"`
	Ladder      []Step           `json:"ladder"`
	Advice      []string         `json:"advice"`
}

// Explain reads a training's log to its end. It reports whether memory ran out, and the steps against it.
func Explain(o Options) (*Document, error) {
	if info, err := os.Stat(o.Dir); err != nil || !info.IsDir() {
		return nil, &configs.Error{Key: "dir", Value: o.Dir, Allowed: "a folder"}
	}
	profiles, err := profilesOf(o.Workload)
	if err != nil {
		return nil, err
	}
	log, err := openLog(o.Stdin, o.Log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	scanner, clues := shortage.NewScanner(), newClues(profiles)
	if err := log.feed(o.Stderr, scanner, clues.found); err != nil {
		return nil, err
	}
	if what := scanner.Unreadable(); what != "" {
		remedy := "iconv -f " + what + " -t utf-8 " + o.Log + " | swarm doctor --oom -"
		if strings.HasPrefix(what, "compressed") {
			remedy = "unpack it, or pipe it: zcat " + o.Log + " | swarm doctor --oom -"
		}
		return nil, &configs.Error{Problem: "cannot read the log " + log.name + ": it is " + what, Remedy: remedy}
	}
	d := Document{Log: log.name, Lines: scanner.Lines(), Bytes: log.read, LastFailure: scanner.Failed(),
		Means: []string{}, Warnings: []string{}, Values: []Value{}, Ladder: []Step{}, Advice: []string{}}
	if fault, ok := scanner.Fault(); ok {
		d.Fault = &fault
	}
	if report, ok := scanner.Shortage(); ok {
		d.Shortage = &report
		d.explain(report, clues, &o)
	}
	return &d, nil
}

// explain fills in everything that follows from the report.
func (d *Document) explain(r shortage.Report, clues *clues, o *Options) {
	d.Means = append(d.Means, meaning(r)...)
	d.Warnings = append(d.Warnings, r.Warnings()...)
	steps := causes(r)
	w, named := clues.workload(o.Workload)
	if named != nil {
		d.Workload = named
		d.Values = clues.values(w, o.Dir)
	}
	switch {
	case r.OnHost:
		steps = append(steps, hostLadder(r, d.offloads())...)
		if named != nil && len(w.Ladder) > 0 {
			d.Advice = append(d.Advice, "the ladder of "+w.Name+" is about GPU memory and does not help here: offloading would need even more host memory")
		}
	case named != nil && len(w.Ladder) > 0:
		current := map[string]string{}
		for _, v := range d.Values {
			current[v.Name] = v.Value
		}
		for _, s := range workload.Ladder(w, current) {
			steps = append(steps, withLines(s, o.Dir))
		}
		d.Advice = append(d.Advice, w.Advice...)
	default:
		steps = append(steps, generalLadder(r, clues)...)
	}
	d.Ladder = append(d.Ladder, steps...)
}

// offloads reports whether the training may keep GPU data on the host. It returns false only if known offload values
// are all off.
func (d *Document) offloads() bool {
	known := false
	for _, v := range d.Values {
		if !strings.Contains(v.Name, "offload") || strings.HasPrefix(v.From, presumed) {
			continue
		}
		known = true
		if on, err := strconv.ParseBool(v.Value); err != nil || on {
			return true
		}
	}
	return !known
}
