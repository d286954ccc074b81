package sqlite

import "golang.org/x/sys/unix"

// filesystemOf returns the kind of the file system that holds dir, and whether it is mounted read-only.
func filesystemOf(dir string) (magic uint32, readOnly bool, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, false, err
	}
	return uint32(st.Type), st.Flags&unix.ST_RDONLY != 0, nil //nolint:gosec // the kernel's magic numbers have 32 bits
}
