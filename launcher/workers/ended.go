package workers

import (
	"errors"
	"fmt"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// EndedError says that the coordinator has ended the run, and how.
type EndedError struct{ State, Message string }

func (e *EndedError) Error() string {
	if e.Message != "" {
		return fmt.Sprintf("the coordinator ended the run: %s (%s)", e.State, e.Message)
	}
	return "the coordinator ended the run: " + e.State
}

// Verdict is how the command ends when the coordinator has ended the run.
func (e *EndedError) Verdict() error {
	if e.State == store.RunDone {
		return nil
	}
	return fail.Hint(e, "the same command again, after the coordinator has continued")
}

// Refused gives a coordinator's no its remedy and its exit code: what is wrong with the invitation, the version or a
// name is the user's to mend.
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
		return fail.Hint(err, "the coordinator's owner, who may lift it (there: swarm workers unban)")
	case membership.CodeVersion:
		return fail.Usage(err, "the same version of swarm on both hosts")
	case membership.CodeName:
		return fail.Usage(err, "--name OTHER, or --node-id OTHER")
	case membership.CodeRun, membership.CodeEnded:
		return fail.Hint(err, "the same command again, once the coordinator runs it")
	}
	return err
}

// Remedy says what to do where the coordinator has shut this host out, so that the same command would be refused, too;
// empty elsewhere.
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
