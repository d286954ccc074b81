//go:build !linux

package sqlite

// filesystemOf cannot detect kinds of file systems on this platform: every folder counts as local.
func filesystemOf(string) (magic uint32, readOnly bool, err error) { return 0, false, nil }
