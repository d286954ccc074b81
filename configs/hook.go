package configs

import "strings"

// The variables of --on-complete.
const (
	HookRun        = "SWARM_RUN"
	HookExperiment = "SWARM_EXPERIMENT"
	HookState      = "SWARM_STATE"
	HookExitCode   = "SWARM_EXIT_CODE"
	HookSummary    = "SWARM_SUMMARY"
)

// WithoutHook is an environment without the variables of --on-complete: a swarm that such a command starts must not
// take the name of the experiment that has ended for its own.
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
