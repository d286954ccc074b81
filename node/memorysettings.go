package node

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/node/protocol"
)

const (
	memorySettingsFile    = "memory.json"
	memorySettingsVersion = 1
)

// memorySettings is what running out of memory has taught a node. It is kept in the node's folder, so that its next
// process starts there, and belongs to one assignment: another configuration or device starts anew. None of it changes
// what the model learns, rounding aside.
type memorySettings struct {
	Version     int    `json:"version"`
	Assignment  string `json:"assignment"` // hash
	BudgetBytes int64  `json:"budget_bytes"`

	Generate              pace `json:"generate"`
	Update                pace `json:"update"`
	GradientCheckpointing bool `json:"gradient_checkpointing"`
	OptimizerOffload      bool `json:"optimizer_offload"`
	FellIn                int  `json:"fell_in"` // round, from 1, in which the kernel last killed the engine for its memory; 0: never
}

// assignmentHash names what the lessons depend on.
func assignmentHash(start protocol.Start) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%s\n%d\n", start.ModelDir, start.Device, start.Ranks)
	sum.Write(start.Config)
	return hex.EncodeToString(sum.Sum(nil))
}

// recall reads what a previous process of the node learnt. What is missing, damaged or of another assignment is as if
// nothing had been learnt; an error says so where the file is there and can't be used. A larger budget than then gives
// failed sizes another chance.
func recall(start protocol.Start) (memorySettings, error) {
	fresh := memorySettings{Version: memorySettingsVersion, Assignment: assignmentHash(start), BudgetBytes: start.BudgetBytes}
	data, err := os.ReadFile(filepath.Join(start.Dir, memorySettingsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, nil
	}
	if err != nil {
		return fresh, err
	}
	var l memorySettings
	if err := json.Unmarshal(data, &l); err != nil {
		return fresh, fmt.Errorf("%s: %w", memorySettingsFile, err)
	}
	if l.Version != memorySettingsVersion || l.Assignment != fresh.Assignment {
		return fresh, nil
	}
	if min(l.Generate.Limit, l.Generate.Failed, l.Update.Limit, l.Update.Failed) < 0 {
		return fresh, fmt.Errorf("%s: a negative number of sequences", memorySettingsFile)
	}
	l.rebudget(start.BudgetBytes)
	return l, nil
}

// rebudget takes a new budget.
func (l *memorySettings) rebudget(bytes int64) {
	if more(bytes, l.BudgetBytes) {
		l.Generate.relieve()
		l.Update.relieve()
	}
	l.BudgetBytes = bytes
}

// more tells whether a budget is larger than another; 0 is without end.
func more(bytes, than int64) bool {
	return than != 0 && (bytes == 0 || bytes > than)
}

// keep writes the lessons for the node's next process.
func (l *memorySettings) keep(dir string) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return files.Write(filepath.Join(dir, memorySettingsFile), data)
}

// pace is that of a phase, nil for one without sequences.
func (l *memorySettings) pace(phase string) *pace {
	switch phase {
	case phaseGenerate:
		return &l.Generate
	case phaseUpdate:
		return &l.Update
	}
	return nil
}
