// Package fail defines the errors that users of the program see: what failed, the command or edit that mends it,
// and the exit code. It prints nothing and depends on no command.
package fail

import (
	"errors"
	"fmt"
	"strings"
)

// Exit codes of every command. Users' scripts depend on them.
const (
	ExitDone   = 0
	ExitFailed = 1
	ExitUsage  = 2
	ExitNoRoom = 3
	ExitLost   = 4
	ExitSignal = 128 // plus the signal's number: 130, 143
)

// UsageError is a mistake on the command line.
type UsageError struct {
	Err error
	Try string
}

// Usage returns a UsageError with err and what to type instead.
func Usage(err error, try string) error { return &UsageError{err, try} }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// HintError is a failure with a remedy.
type HintError struct {
	Err error
	Try string
}

// Hint returns a HintError with err and the command or edit that mends it.
func Hint(err error, try string) error { return &HintError{err, try} }

func (e *HintError) Error() string { return e.Err.Error() }
func (e *HintError) Unwrap() error { return e.Err }

// ExitError carries an exit code for a failure that the user has already been told about.
type ExitError struct{ Code int }

// Exit returns an ExitError.
func Exit(code int) error { return &ExitError{code} }

func (e *ExitError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// Remedy returns the hint of the outermost HintError in err's tree, else that of the outermost UsageError, else "".
func Remedy(err error) string {
	var usage *UsageError
	var hint *HintError
	switch {
	case errors.As(err, &hint):
		return hint.Try
	case errors.As(err, &usage):
		return usage.Try
	}
	return ""
}

// SplitRemedy splits "what. Try: remedy" into its parts. It drops a remedy inside the text, which belongs to a
// quoted cause in brackets.
func SplitRemedy(text string) (what, try string) {
	const mark = ". Try: "
	at := strings.LastIndex(text, mark)
	if at < 0 {
		return text, ""
	}
	what, try = text[:at], text[at+len(mark):]
	if before, after, found := strings.Cut(what, mark); found {
		_, after, _ = strings.Cut(after, ")")
		what = before + ")" + after
	}
	return what, try
}

// OneLine joins the lines of text with "; ". Joined errors and output of other programs have several lines.
func OneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}
