package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
)

// verdict says whether a kind of file system is suitable for SQLite, whose locks and shared memory require a single
// host.
type verdict int

const (
	local verdict = iota
	doubtful
	refused
)

// fileSystem describes a kind of file system.
type fileSystem struct {
	name string
	verdict
}

// fileSystems maps Linux's statfs f_type (statfs(2)) to known file systems. Only those listed as local count as local.
var fileSystems = map[uint32]fileSystem{
	0xEF53:     {"ext4", local}, // also ext2 and ext3
	0x58465342: {"XFS", local},
	0x9123683E: {"btrfs", local},
	0x2FC12FC1: {"ZFS", local},
	0xF2F52010: {"F2FS", local},
	0xCA451A4E: {"bcachefs", local},
	0x3153464A: {"JFS", local},
	0x52654973: {"ReiserFS", local},
	0x3434:     {"NILFS", local},
	0x7366746E: {"NTFS", local},
	0x4D44:     {"FAT", local},
	0x2011BAB0: {"exFAT", local},
	0x01021994: {"tmpfs", local},
	0x858458F6: {"ramfs", local},
	0x794C7630: {"overlayfs", local},
	0x61756673: {"AUFS", local},
	0xF15F:     {"eCryptfs", local},

	0x6969:     {"NFS", refused},
	0xFF534D42: {"SMB", refused},
	0xFE534D42: {"SMB", refused},
	0x517B:     {"SMB", refused},
	0x564C:     {"NCP", refused},
	0x5346414F: {"AFS", refused},
	0x73757245: {"Coda", refused},
	0x00C36400: {"CephFS", refused},
	0x0BD00BD0: {"Lustre", refused},
	0x47504653: {"GPFS", refused},
	0x19830326: {"BeeGFS", refused},
	0xAAD7AAEA: {"Panasas", refused},
	0x20030528: {"OrangeFS", refused},

	0x65735546: {"FUSE", doubtful}, // Google Drive on Colab, sshfs, but also local ntfs-3g
	0x01021997: {"9p", doubtful},
	0x01161970: {"GFS2", doubtful},
	0x7461636F: {"OCFS2", doubtful},
	0x786F4256: {"VirtualBox shared folder", doubtful},
	0xBACBACBC: {"VMware shared folder", doubtful},
}

// judge maps Linux's statfs f_type to a name and a verdict. An unlisted kind is doubtful. 0 means that the host reports
// no kinds, and counts as local.
func judge(magic uint32) (string, verdict) {
	if magic == 0 {
		return "", local
	}
	if known, ok := fileSystems[magic]; ok {
		return known.name, known.verdict
	}
	return "unknown", doubtful
}

// CheckFileSystem rejects the database at path if its folder is on a network file system. It reports doubtful file
// systems to warn.
func CheckFileSystem(path string, warn func(error)) error {
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
		if _, known := fileSystems[magic]; !known {
			e.Reason = fmt.Sprintf("its folder is on a file system that swarm does not know (%#x), where SQLite may not be safe", magic)
		}
		warn(e)
	}
	return nil
}

// ReadOnly adds the reason to an error from opening the database at path if its file system is read-only.
func ReadOnly(path string, err error) error {
	_, mounted, statErr := filesystemOf(filepath.Dir(path))
	if err == nil || !errors.Is(err, syscall.EROFS) && (statErr != nil || !mounted) {
		return err
	}
	return &Error{Path: path, Reason: "its folder is on a read-only file system", Try: "choose another --home, or mount it for writing"}
}
