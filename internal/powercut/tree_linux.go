package powercut

import (
	"context"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// system is the state of a mounted file system.
type system struct {
	mu    sync.Mutex
	log   Log
	nodes int
	fail  int // syncs of files that are still to fail
}

// note appends a change to the log.
func (s *system) note(c change) { s.log.Changes = append(s.log.Changes, c) }

// node is a file, folder or link. system.mu guards its fields.
type node struct {
	fusefs.Inode
	system *system
	id     int
	mode   uint32
	data   []byte
}

var (
	_ fusefs.NodeCreater    = (*node)(nil)
	_ fusefs.NodeMkdirer    = (*node)(nil)
	_ fusefs.NodeUnlinker   = (*node)(nil)
	_ fusefs.NodeRmdirer    = (*node)(nil)
	_ fusefs.NodeRenamer    = (*node)(nil)
	_ fusefs.NodeLinker     = (*node)(nil)
	_ fusefs.NodeSymlinker  = (*node)(nil)
	_ fusefs.NodeReadlinker = (*node)(nil)
	_ fusefs.NodeOpener     = (*node)(nil)
	_ fusefs.NodeReader     = (*node)(nil)
	_ fusefs.NodeWriter     = (*node)(nil)
	_ fusefs.NodeFsyncer    = (*node)(nil)
	_ fusefs.NodeFlusher    = (*node)(nil)
	_ fusefs.NodeGetattrer  = (*node)(nil)
	_ fusefs.NodeSetattrer  = (*node)(nil)
	_ fusefs.NodeStatfser   = (*node)(nil)
)

// add creates a child. The caller holds mu.
func (n *node) add(ctx context.Context, name string, mode uint32, data []byte, out *fuse.EntryOut) (*fusefs.Inode, *node) {
	s := n.system
	s.nodes++
	child := &node{system: s, id: s.nodes, mode: mode, data: data}
	inode := n.NewPersistentInode(ctx, child, fusefs.StableAttr{Mode: mode & syscall.S_IFMT, Ino: uint64(child.id)})
	s.note(change{Kind: created, Node: child.id, Mode: fileMode(mode), Dir: n.id, Name: name, Data: slices.Clone(data)})
	child.attributes(&out.Attr)
	return inode, child
}

func fileMode(mode uint32) os.FileMode {
	m := os.FileMode(mode & 0o777)
	switch mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		m |= fs.ModeDir
	case syscall.S_IFLNK:
		m |= fs.ModeSymlink
	}
	return m
}

func (n *node) Create(ctx context.Context, name string, _ uint32, mode uint32, out *fuse.EntryOut) (*fusefs.Inode, fusefs.FileHandle, uint32, syscall.Errno) {
	n.system.mu.Lock()
	defer n.system.mu.Unlock()
	inode, _ := n.add(ctx, name, syscall.S_IFREG|mode&0o777, nil, out)
	return inode, nil, 0, 0
}

func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fusefs.Inode, syscall.Errno) {
	n.system.mu.Lock()
	defer n.system.mu.Unlock()
	inode, _ := n.add(ctx, name, syscall.S_IFDIR|mode&0o777, nil, out)
	return inode, 0
}

func (n *node) Symlink(ctx context.Context, target, name string, out *fuse.EntryOut) (*fusefs.Inode, syscall.Errno) {
	n.system.mu.Lock()
	defer n.system.mu.Unlock()
	inode, _ := n.add(ctx, name, syscall.S_IFLNK|0o777, []byte(target), out)
	return inode, 0
}

func (n *node) Readlink(context.Context) ([]byte, syscall.Errno) {
	n.system.mu.Lock()
	defer n.system.mu.Unlock()
	return n.data, 0
}

func (n *node) Link(_ context.Context, target fusefs.InodeEmbedder, name string, out *fuse.EntryOut) (*fusefs.Inode, syscall.Errno) {
	n.system.mu.Lock()
	defer n.system.mu.Unlock()
	of, ok := target.(*node)
	if !ok {
		return nil, syscall.EXDEV
	}
	n.system.note(change{Kind: linked, Node: of.id, Dir: n.id, Name: name})
	of.attributes(&out.Attr)
	return of.EmbeddedInode(), 0
}

func (n *node) Unlink(_ context.Context, name string) syscall.Errno {
	n.system.mu.Lock()
	defer n.system.mu.Unlock()
	n.system.note(change{Kind: unlinked, Dir: n.id, Name: name})
	return 0
}

func (n *node) Rmdir(_ context.Context, name string) syscall.Errno {
	n.system.mu.Lock()
	defer n.system.mu.Unlock()
	if child := n.GetChild(name); child != nil && len(child.Children()) > 0 {
		return syscall.ENOTEMPTY
	}
	n.system.note(change{Kind: unlinked, Dir: n.id, Name: name})
	return 0
}

func (n *node) Rename(_ context.Context, name string, to fusefs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	n.system.mu.Lock()
	defer n.system.mu.Unlock()
	parent, ok := to.(*node)
	if !ok {
		return syscall.EXDEV
	}
	const noReplace = 1
	target := parent.GetChild(newName)
	switch {
	case flags&^noReplace != 0:
		return syscall.EINVAL
	case flags&noReplace != 0 && target != nil:
		return syscall.EEXIST
	case target != nil && target.IsDir() && len(target.Children()) > 0:
		return syscall.ENOTEMPTY
	}
	child, ok := n.GetChild(name).Operations().(*node)
	if !ok {
		return syscall.ENOENT
	}
	n.system.note(change{Kind: renamed, Node: child.id, Dir: n.id, Name: name, NewDir: parent.id, NewName: newName})
	return 0
}

func (n *node) Open(_ context.Context, flags uint32) (fusefs.FileHandle, uint32, syscall.Errno) {
	if flags&syscall.O_TRUNC != 0 { // if the kernel passes the flag on
		n.resize(0)
	}
	return nil, 0, 0
}

func (n *node) Read(_ context.Context, _ fusefs.FileHandle, into []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	n.system.mu.Lock()
	defer n.system.mu.Unlock()
	if at >= int64(len(n.data)) {
		return fuse.ReadResultData(nil), 0
	}
	return fuse.ReadResultData(into[:copy(into, n.data[at:])]), 0
}

func (n *node) Write(_ context.Context, _ fusefs.FileHandle, data []byte, at int64) (uint32, syscall.Errno) {
	n.system.mu.Lock()
	defer n.system.mu.Unlock()
	for int64(len(n.data)) < at+int64(len(data)) {
		n.data = append(n.data, make([]byte, at+int64(len(data))-int64(len(n.data)))...)
	}
	copy(n.data[at:], data)
	n.system.note(change{Kind: written, Node: n.id, Data: slices.Clone(data), Offset: at})
	return uint32(len(data)), 0 //nolint:gosec // a write is a MiB at most
}

// Fsync syncs a file or folder.
func (n *node) Fsync(context.Context, fusefs.FileHandle, uint32) syscall.Errno {
	n.system.mu.Lock()
	defer n.system.mu.Unlock()
	if n.system.fail > 0 && !n.IsDir() { // like Linux: the next sync has nothing left to write and succeeds
		n.system.fail--
		n.system.note(change{Kind: forgotten, Node: n.id})
		return syscall.EIO
	}
	n.system.note(change{Kind: synced, Node: n.id})
	return 0
}

func (n *node) Flush(context.Context, fusefs.FileHandle) syscall.Errno { return 0 }

func (n *node) resize(size int64) {
	n.system.mu.Lock()
	defer n.system.mu.Unlock()
	c := change{Kind: resized, Node: n.id, Offset: size}
	n.data = c.in(n.data)
	n.system.note(c)
}

func (n *node) Setattr(_ context.Context, _ fusefs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if size, ok := in.GetSize(); ok {
		n.resize(int64(size)) //nolint:gosec // of a file in memory
	}
	n.system.mu.Lock()
	defer n.system.mu.Unlock()
	if mode, ok := in.GetMode(); ok {
		n.mode = n.mode&^0o777 | mode&0o777
	}
	n.attributes(&out.Attr)
	return 0
}

func (n *node) Getattr(_ context.Context, _ fusefs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	n.system.mu.Lock()
	defer n.system.mu.Unlock()
	n.attributes(&out.Attr)
	return 0
}

func (n *node) attributes(out *fuse.Attr) {
	out.Mode, out.Size, out.Nlink, out.Ino = n.mode, uint64(len(n.data)), 1, uint64(n.id) //nolint:gosec // positive
	out.Blksize, out.Blocks = 4096, (out.Size+511)/512
	out.Uid, out.Gid = uint32(os.Getuid()), uint32(os.Getgid()) //nolint:gosec // positive
}

// Statfs reports more free space than any test needs.
func (n *node) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	out.Bsize, out.Frsize, out.NameLen = 4096, 4096, 255
	out.Blocks, out.Bfree, out.Bavail, out.Files, out.Ffree = 1<<28, 1<<28, 1<<28, 1<<28, 1<<28
	return 0
}
