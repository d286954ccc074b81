package store

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Names of experiments and runs are used as folder names. configs has the same rule for experiments. A run's key is its
// experiment's name and a number.
var (
	experimentName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	runName        = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
)

// ExperimentRule describes the names that ValidExperiment accepts.
const ExperimentRule = "1 to 64 characters of A-Z a-z 0-9 . _ -, starting with a letter or digit"

// ValidExperiment reports whether a name is valid for an experiment.
func ValidExperiment(name string) bool { return experimentName.MatchString(name) }

// ValidRun reports whether a key is valid for a run.
func ValidRun(key string) bool { return runName.MatchString(key) }

// longestName bounds the names of nodes and tasks, in bytes.
const longestName = 128

// CheckName rejects an untrusted name of a node or task that could affect a terminal or a path.
func CheckName(name string) error {
	switch {
	case len(name) > longestName:
		return fmt.Errorf("%.80q… is longer than %d bytes", name, longestName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("%.80q has control characters", name)
	case slices.Contains(strings.Split(name, "/"), ".."):
		return fmt.Errorf("%.80q would leave its folder", name)
	}
	return nil
}
