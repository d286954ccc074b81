package configs

import "strings"

// Environment variables that swarm sets for the --on-complete command.
const (
	HookRun        = "SWARM_RUN"
	HookExperiment = "SWARM_EXPERIMENT"
	HookState      = "SWARM_STATE"
	HookExitCode   = "SWARM_EXIT_CODE"
	HookSummary    = "SWARM_SUMMARY"
)

// WithoutHook returns the environment without the variables of --on-complete. Otherwise a swarm that such a command
// starts would take the finished experiment's name from SWARM_EXPERIMENT.
func WithoutHook(environ []string) []string {
	inHook := false
	for _, entry := range environ {
		inHook = inHook || strings.HasPrefix(entry, HookExitCode+"=")
	}
	if !inHook {
		return environ
	}
	var kept []string
	for _, entry := range environ {
		switch name, _, _ := strings.Cut(entry, "="); name {
		case HookRun, HookExperiment, HookState, HookExitCode, HookSummary:
		default:
			kept = append(kept, entry)
		}
	}
	return kept
}
