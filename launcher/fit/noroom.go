package fit

// NoRoom returns err as an ErrDoesNotFit, with its exit code but without its text. Use it for a failure before there is
// a plan.
func NoRoom(err error) error { return &noRoom{err} }

type noRoom struct{ err error }

func (e *noRoom) Error() string        { return e.err.Error() }
func (e *noRoom) Unwrap() error        { return e.err }
func (e *noRoom) Is(target error) bool { return target == ErrDoesNotFit }
