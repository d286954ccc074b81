package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
)

// verdict says what a kind of file system means for SQLite, whose locks and shared memory need one host.
type verdict int

const (
	local verdict = iota
	doubtful
	refused
)

// judge maps Linux's statfs f_type (statfs(2)) to a name and a verdict.
func judge(magic uint32) (string, verdict) {
	switch magic {
	case 0x6969:
		return "NFS", refused
	case 0xFF534D42, 0xFE534D42, 0x517B:
		return "SMB", refused
	case 0x00C36400:
		return "CephFS", refused
	case 0x0BD00BD0:
		return "Lustre", refused
	case 0x5346414F:
		return "AFS", refused
	case 0x65735546:
		return "FUSE", doubtful // Google Drive on Colab, sshfs, but also local ntfs-3g
	case 0x01021997:
		return "9p", doubtful
	}
	return "", local
}

// checkFilesystem refuses the database at path when its folder's file system is a network's; warn hears about doubtful ones.
func checkFilesystem(path string, warn func(error)) error {
	magic, _, err := filesystemOf(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("database %s: %w", path, err)
	}
	return judged(path, magic, warn)
}

func judged(path string, magic uint32, warn func(error)) error {
	name, v := judge(magic)
	e := &Error{Path: path, Reason: fmt.Sprintf("its folder is on a %s file system, where SQLite is not safe", name),
		Try: "keep --home on a local disk"}
	switch v {
	case refused:
		return e
	case doubtful:
		warn(e)
	}
	return nil
}

// readOnly gives err, met while the database at path was opened, the reason that its file system is read-only, where it is.
func readOnly(path string, err error) error {
	_, mounted, statErr := filesystemOf(filepath.Dir(path))
	if err == nil || !errors.Is(err, syscall.EROFS) && (statErr != nil || !mounted) {
		return err
	}
	return &Error{Path: path, Reason: "its folder is on a read-only file system", Try: "choose another --home, or mount it for writing"}
}
