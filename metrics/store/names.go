package store

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Experiments and runs name folders: configs has the same rule for experiments. A run's key is its experiment's name
// and a number.
var (
	experimentName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	runName        = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
)

// ExperimentRule says what ValidExperiment allows.
const ExperimentRule = "1 to 64 of A-Z a-z 0-9 . _ - that start with a letter or digit"

// ValidExperiment tells whether an experiment may have that name.
func ValidExperiment(name string) bool { return experimentName.MatchString(name) }

// ValidRun tells whether a run may have that key.
func ValidRun(key string) bool { return runName.MatchString(key) }

// longestName is that of nodes and tasks, in bytes.
const longestName = 128

// CheckName refuses a stranger's name of a node or a task that could do something to a terminal or to a path.
func CheckName(name string) error {
	switch {
	case len(name) > longestName:
		return fmt.Errorf("%.80q… is longer than %d bytes", name, longestName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("%.80q has control characters", name)
	case slices.Contains(strings.Split(name, "/"), ".."):
		return fmt.Errorf("%.80q leads out of a folder", name)
	}
	return nil
}
