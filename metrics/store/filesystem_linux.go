package store

import "golang.org/x/sys/unix"

// filesystemMagic returns the kind of the file system that holds dir.
func filesystemMagic(dir string) (uint32, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return uint32(st.Type), nil //nolint:gosec // the kernel's magic numbers have 32 bits
}
