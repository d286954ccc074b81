package workers

import (
	"errors"
	"fmt"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// EndedError reports that the coordinator has ended the run, and how.
type EndedError struct{ State, Message string }

func (e *EndedError) Error() string {
	if e.Message != "" {
		return fmt.Sprintf("the coordinator ended the run: %s (%s)", e.State, e.Message)
	}
	return "the coordinator ended the run: " + e.State
}

// Verdict returns the command's error after the coordinator has ended the run: nil if the run is done.
func (e *EndedError) Verdict() error {
	if e.State == store.RunDone {
		return nil
	}
	return fail.Hint(e, "the same command again when the coordinator has continued")
}

// Refused adds a remedy and an exit code to a coordinator's rejection. The user must fix the invitation, the
// version or a name.
func Refused(err error) error {
	var no *membership.Refusal
	if !errors.As(err, &no) {
		return err
	}
	if _, try := fail.SplitRemedy(err.Error()); try != "" {
		if no.Code == membership.CodeInternal || no.Code == membership.CodeFull || no.Code == membership.CodeRate || no.Code == membership.CodeEnded {
			return err
		}
		return fail.Usage(err, "")
	}
	switch no.Code {
	case membership.CodeToken, membership.CodeRevoked:
		return fail.Usage(err, "a new invitation from the coordinator (there: swarm workers invite)")
	case membership.CodeBanned:
		return fail.Hint(err, "ask the coordinator's owner to lift the ban (there: swarm workers unban)")
	case membership.CodeVersion:
		return fail.Usage(err, "the same version of swarm on both hosts")
	case membership.CodeName:
		return fail.Usage(err, "--name OTHER, or --node-id OTHER")
	case membership.CodeRun, membership.CodeEnded:
		return fail.Hint(err, "the same command again when the coordinator runs it")
	}
	return err
}

// Remedy returns what to do if the coordinator has banned this host or revoked its access, so that it would reject
// the same command again. Otherwise it returns "".
func (w *Worker) Remedy() string {
	if w == nil {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.no == nil {
		return ""
	}
	worker := w.credentials.Worker
	switch w.no.Code {
	case membership.CodeBanned:
		return fmt.Sprintf("the coordinator banned worker %s: ask its owner to lift the ban (there: swarm workers unban %[1]s)", worker)
	case membership.CodeRevoked, membership.CodeToken:
		return fmt.Sprintf("the coordinator revoked worker %s: ask its owner for a new invitation (there: swarm workers invite)", worker)
	}
	return ""
}
