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

// memorySettings holds the settings that a node learned from running out of memory. The node's folder keeps them,
// so that its next process starts with them. They belong to one assignment: another configuration or device starts
// anew. They do not change what the model learns, rounding aside.
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

// assignmentHash is a hash of the assignment's settings on which memorySettings depend.
func assignmentHash(start protocol.Start) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%s\n%d\n", start.ModelDir, start.Device, start.Ranks)
	sum.Write(start.Config)
	return hex.EncodeToString(sum.Sum(nil))
}

// recall reads the memory settings of a previous process. If the file is missing, damaged or of another assignment,
// it returns fresh settings. It returns an error too if the file exists and cannot be used. A larger budget than
// before lets failed sizes be tried again.
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

// rebudget applies a new budget.
func (l *memorySettings) rebudget(bytes int64) {
	if more(bytes, l.BudgetBytes) {
		l.Generate.relieve()
		l.Update.relieve()
	}
	l.BudgetBytes = bytes
}

// more reports whether a budget is larger than another. 0 means no limit.
func more(bytes, than int64) bool {
	return than != 0 && (bytes == 0 || bytes > than)
}

// keep writes the settings for the node's next process.
func (l *memorySettings) keep(dir string) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return files.Write(filepath.Join(dir, memorySettingsFile), data)
}

// pace returns the pace of a phase, nil if the phase has no sequences.
func (l *memorySettings) pace(phase string) *pace {
	switch phase {
	case phaseGenerate:
		return &l.Generate
	case phaseUpdate:
		return &l.Update
	}
	return nil
}
