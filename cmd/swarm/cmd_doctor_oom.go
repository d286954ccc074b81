package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/job/shortage"
	"github.com/sapo-swarm/swarm/launcher/job/workload"
)

type oomOptions struct {
	log      string
	workload string
	dir      string
	output   string
}

// oomDocument is what swarm doctor --oom -o json prints.
type oomDocument struct {
	Log         string           `json:"log"`
	Lines       int64            `json:"lines"`
	Bytes       int64            `json:"bytes"`
	Shortage    *shortage.Report `json:"shortage"`     // null: none was found
	LastFailure bool             `json:"last_failure"` // nothing else failed after it
	Fault       *shortage.Fault  `json:"fault"`        // the latest failure that memory did not cause
	Means       []string         `json:"means"`        // what the figures say, in sentences
	Doubts      []string         `json:"doubts"`       // what is odd in them
	Workload    *oomWorkload     `json:"workload"`     // null: not known
	Values      []oomValue       `json:"values"`
	Ladder      []oomStep        `json:"ladder"`
	Advice      []string         `json:"advice"`
}

// runDoctorOOM explains a training's log. Exit code 0: it was a shortage of memory; 1: the log tells of none.
func runDoctorOOM(g *globals, o *oomOptions) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	if info, err := os.Stat(o.dir); err != nil || !info.IsDir() {
		return &configs.Error{Key: "dir", Value: o.dir, Allowed: "a folder"}
	}
	profiles, err := oomProfiles(o.workload)
	if err != nil {
		return err
	}
	log, err := openOOMLog(g, o.log)
	if err != nil {
		return err
	}
	defer log.Close()
	scanner, clues := shortage.NewScanner(), newOOMClues(profiles)
	if err := log.feed(g.stderr, scanner, clues.found); err != nil {
		return err
	}
	if what := scanner.Unreadable(); what != "" {
		remedy := "iconv -f " + what + " -t utf-8 " + o.log + " | swarm doctor --oom -"
		if strings.HasPrefix(what, "compressed") {
			remedy = "unpack it, or pipe it: zcat " + o.log + " | swarm doctor --oom -"
		}
		return &configs.Error{Problem: "can't read the log " + log.name + ": it is " + what, Remedy: remedy}
	}
	d := oomDocument{Log: log.name, Lines: scanner.Lines(), Bytes: log.read, LastFailure: scanner.Failed(),
		Means: []string{}, Doubts: []string{}, Values: []oomValue{}, Ladder: []oomStep{}, Advice: []string{}}
	if fault, ok := scanner.Fault(); ok {
		d.Fault = &fault
	}
	if report, ok := scanner.Shortage(); ok {
		d.Shortage = &report
		d.explain(report, clues, o)
	}
	if err := d.print(g, o.output); err != nil {
		return err
	}
	if d.Shortage == nil {
		return fail.Exit(fail.ExitFailed)
	}
	return nil
}

// explain fills what follows from the report.
func (d *oomDocument) explain(r shortage.Report, clues *oomClues, o *oomOptions) {
	d.Means = append(d.Means, oomMeans(r)...)
	d.Doubts = append(d.Doubts, r.Doubts()...)
	steps := oomBefore(r)
	w, named := clues.workload(o.workload)
	if named != nil {
		d.Workload = named
		d.Values = clues.values(w, o.dir)
	}
	switch {
	case r.OnHost:
		steps = append(steps, oomHost(r, d.offloads())...)
		if named != nil && len(w.Ladder) > 0 {
			d.Advice = append(d.Advice, "the ladder of "+w.Name+" is about GPU memory and does not help here: what it offloads comes on top")
		}
	case named != nil && len(w.Ladder) > 0:
		current := map[string]string{}
		for _, v := range d.Values {
			current[v.Name] = v.Value
		}
		for _, s := range workload.Ladder(w, current) {
			steps = append(steps, oomEdits(s, o.dir))
		}
		d.Advice = append(d.Advice, w.Advice...)
	default:
		steps = append(steps, oomGeneral(r, clues)...)
	}
	d.Ladder = append(d.Ladder, steps...)
}

// offloads tells whether the training may hold parts of a GPU's memory on the host: unless all values that would say so say no.
func (d *oomDocument) offloads() bool {
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

// oomLog is the log that is read.
type oomLog struct {
	name string
	from io.ReadCloser
	size int64 // 0: not known
	read int64
}

func (l *oomLog) Close() { _ = l.from.Close() }

// openOOMLog opens a file, stdin for "-", or the newest log in a folder.
func openOOMLog(g *globals, name string) (*oomLog, error) {
	refuse := func(why string) error {
		return &configs.Error{Key: "oom", Value: name, Allowed: "a log's file, a folder with one, or - for stdin (" + why + ")"}
	}
	if name == "-" {
		return &oomLog{name: "stdin", from: io.NopCloser(g.stdin)}, nil
	}
	info, err := os.Stat(name)
	if err == nil && info.IsDir() {
		newest, err := newestLog(name)
		if err != nil {
			return nil, refuse(err.Error())
		}
		return openOOMLog(g, newest)
	}
	if err != nil {
		return nil, refuse(plainPathError(err))
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, refuse(plainPathError(err))
	}
	log := &oomLog{name: name, from: file}
	if info.Mode().IsRegular() {
		log.size = info.Size()
	}
	return log, nil
}

// plainPathError leaves out the path, which the message names already.
func plainPathError(err error) string {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

// logEndings are the names of what a folder's newest is taken of.
var logEndings = []string{".log", ".err", ".out", ".txt"}

func newestLog(folder string) (string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", errors.New(plainPathError(err))
	}
	newest, at := "", time.Time{}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(folder, e.Name()))
		if err != nil || !info.Mode().IsRegular() || !slices.Contains(logEndings, strings.ToLower(filepath.Ext(e.Name()))) {
			continue
		}
		if newest == "" || info.ModTime().After(at) {
			newest, at = filepath.Join(folder, e.Name()), info.ModTime()
		}
	}
	if newest == "" {
		return "", fmt.Errorf("the folder has no file that ends in %s", strings.Join(logEndings, " "))
	}
	return newest, nil
}

// feed reads the log to its end and tells on a terminal how far it is.
func (l *oomLog) feed(stderr io.Writer, to ...interface {
	io.Writer
	Close()
}) error {
	line := screen.NewStatusLine(stderr, 10*time.Second)
	buffer := make([]byte, 256<<10)
	const between = 64 << 20
	next := int64(between)
	for {
		n, err := l.from.Read(buffer)
		for _, w := range to {
			_, _ = w.Write(buffer[:n]) // neither fails
		}
		l.read += int64(n)
		if l.read >= next {
			next += between
			if l.size > 0 {
				line.Say(fmt.Sprintf("read %s of %s", units.Bytes(l.read), units.Bytes(l.size)))
			} else {
				line.Say("read " + units.Bytes(l.read))
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return &configs.Error{Problem: fmt.Sprintf("can't read the log %s: %s", l.name, plainPathError(err)), Remedy: "a file that can be read"}
		}
	}
	line.End()
	for _, w := range to {
		w.Close()
	}
	return nil
}
