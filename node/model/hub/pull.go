package hub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/internal/units"
)

// diskReserve is the number of bytes that must stay free on the cache's disk.
const diskReserve = 256 << 20

// Result describes a finished pull.
type Result struct {
	ID         string   `json:"id"`
	Revision   string   `json:"revision"` // as requested
	Commit     string   `json:"commit"`
	Path       string   `json:"path"` // directory with the files
	Files      []string `json:"files"`
	Bytes      int64    `json:"bytes"`      // size of all files
	Downloaded int64    `json:"downloaded"` // bytes downloaded
}

// pull is the state of one Client.Pull.
type pull struct {
	client     *Client
	id, commit string
	repo       string // the model's folder in the cache
	progress   Progress
	downloaded int64
	began      time.Time
	told       time.Time
}

// Pull downloads the files that a model needs: config.json, the weights as safetensors, and the tokenizer's files.
// It skips files that are in the cache and resumes interrupted downloads. It checks each file's size and hash. It
// passes the text of config.json to accept before it looks for other files, and ends with the error of accept. Several
// processes may pull the same model at once. Errors fit on one line, and most end with ". Try: ".
func (c *Client) Pull(ctx context.Context, id, revision string, accept func(config []byte) error) (Result, error) {
	if c.Offline != "" {
		return Result{}, fmt.Errorf("%s forbids the download of model %s. Try: unset %s", c.Offline, id, c.Offline)
	}
	list, err := c.list(ctx, id, revision)
	if err != nil {
		return Result{}, err
	}
	p := &pull{client: c, id: id, commit: list.commit, repo: filepath.Join(c.Cache, folder(id)), began: time.Now()}
	snapshot := filepath.Join(p.repo, "snapshots", list.commit)
	config, err := p.config(ctx, list, snapshot, accept)
	if err != nil {
		return Result{}, err
	}
	rest, err := list.rest()
	if err == nil {
		rest, err = c.complete(ctx, list, rest)
	}
	if err != nil {
		return Result{}, err
	}
	if err := p.measure(append(rest, config)); err != nil {
		return Result{}, err
	}
	result := Result{ID: id, Revision: revision, Commit: list.commit, Path: snapshot, Files: []string{config.name}, Bytes: config.size}
	asked := c.Ready == nil
	for _, file := range rest {
		if !asked && ofWeights(file.name) {
			if err := c.Ready(snapshot); err != nil {
				return Result{}, err
			}
			asked = true
		}
		if err := p.bring(ctx, file, filepath.Join(snapshot, file.name)); err != nil {
			return Result{}, err
		}
		result.Files, result.Bytes = append(result.Files, file.name), result.Bytes+file.size
	}
	result.Downloaded = p.downloaded
	return result, p.point(revision, snapshot)
}

// config makes the model's folders, downloads config.json, and passes its text to accept.
func (p *pull) config(ctx context.Context, list listing, snapshot string, accept func(config []byte) error) (remote, error) {
	found, err := list.config()
	if err == nil {
		found, err = p.client.complete(ctx, list, found)
	}
	if err != nil {
		return remote{}, err
	}
	for _, dir := range []string{snapshot, p.blobs(), p.locks()} {
		if err := files.MakeFolder(dir, 0o755); err != nil {
			return remote{}, err
		}
	}
	path := filepath.Join(snapshot, configName)
	if err := p.bring(ctx, found[0], path); err != nil {
		return remote{}, err
	}
	text, err := os.ReadFile(path) // bounded by its listed size
	if err == nil {
		err = accept(text)
	}
	return found[0], err
}

func (p *pull) blobs() string { return filepath.Join(p.repo, "blobs") }
func (p *pull) locks() string { return filepath.Join(p.client.Cache, ".locks", folder(p.id)) }

// blob is the path of a file's content, to which snapshots link.
func (p *pull) blob(file remote) string { return filepath.Join(p.blobs(), file.hash) }

// measure adds up the bytes to download, for the progress, and fails if the disk lacks space.
func (p *pull) measure(files []remote) error {
	var missing int64
	p.progress = Progress{}
	for _, file := range files {
		p.progress.Total += file.size
		have := min(file.size, sizeOf(p.blob(file)+".incomplete"))
		if p.present(file) {
			have = file.size
		}
		p.progress.Done += have
		missing += file.size - have
	}
	free, err := p.client.free(p.repo)
	if err != nil {
		return err
	}
	if missing > 0 && free < missing+diskReserve {
		return fmt.Errorf("model %s needs %s more on the disk of %s, which has %s free. Try: free some space, or HF_HOME on a larger disk",
			p.id, units.Bytes(missing+diskReserve), p.client.Cache, units.Bytes(free))
	}
	return nil
}

// present reports whether a file's content is in the cache. The content was checked before the rename.
func (p *pull) present(file remote) bool {
	info, err := os.Stat(p.blob(file))
	return err == nil && info.Mode().IsRegular() && info.Size() == file.size
}

// bring downloads a file unless it is in the cache, and links it into the snapshot.
func (p *pull) bring(ctx context.Context, file remote, pointer string) error {
	unlock, err := p.lock(ctx, file)
	if err != nil {
		return err
	}
	defer unlock()
	if !p.present(file) {
		if err := p.download(ctx, file, p.blob(file)); err != nil {
			switch {
			case ctx.Err() != nil:
				return err
			case !isNetwork(err):
				return fmt.Errorf("download model %s: %w. Try: fix that and repeat the command, which resumes the download", p.id, err)
			}
			return p.client.explain(err, p.id, !errors.Is(err, errDamaged))
		}
	}
	return link(p.blob(file), pointer)
}

// lock takes the lock that huggingface_hub also holds while it downloads a file (flock on
// .locks/<model>/<hash>.lock).
func (p *pull) lock(ctx context.Context, file remote) (func(), error) {
	lock, err := os.OpenFile(filepath.Join(p.locks(), file.hash+".lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := files.Lock(lock)
		if err == nil || files.NoLocks(err) {
			return func() { _ = lock.Close() }, nil // on a file system without locks there is no lock to wait for
		}
		if errors.Is(err, files.ErrLocked) {
			p.progress.Waiting = true
			p.advance(file.name, 0)
			err = pause(ctx, 100*time.Millisecond)
			p.progress.Waiting = false
		}
		if err != nil {
			_ = lock.Close()
			return nil, err
		}
	}
}

// link links pointer to a blob: with a relative symbolic link, as huggingface_hub does, or with a hard link on
// disks without symbolic links.
func link(blob, pointer string) error {
	if info, err := os.Stat(pointer); err == nil && info.Size() == sizeOf(blob) {
		if target, err := os.Readlink(pointer); err != nil || filepath.Base(target) == filepath.Base(blob) {
			return nil
		}
	}
	relative, err := filepath.Rel(filepath.Dir(pointer), blob)
	if err != nil {
		return err
	}
	temporary := pointer + ".tmp"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(relative, temporary); err != nil {
		if err := os.Link(blob, temporary); err != nil {
			return fmt.Errorf("%w: the cache's disk does not support links. Try: HF_HOME on another disk", err)
		}
	}
	return os.Rename(temporary, pointer)
}

// point sets a branch or tag to the commit. It runs last, after the snapshot is complete and synced to disk.
func (p *pull) point(revision, snapshot string) error {
	if err := errors.Join(files.SyncFolder(p.blobs()), files.SyncFolder(snapshot)); err != nil {
		return err
	}
	if revision == p.commit {
		return nil
	}
	ref := filepath.Join(p.repo, "refs", revision)
	if err := files.MakeFolder(filepath.Dir(ref), 0o755); err != nil {
		return err
	}
	return files.Write(ref, []byte(p.commit))
}

// advance adds n bytes, which is negative if a part is discarded. It reports the progress about every second, once the
// size of the pull has been measured.
func (p *pull) advance(name string, n int64) {
	p.progress.File = name
	p.progress.Done += n
	if n > 0 {
		p.downloaded += n
	}
	now := time.Now()
	if p.client.Progress == nil || p.progress.Total == 0 || now.Sub(p.told) < time.Second && p.progress.Done < p.progress.Total {
		return
	}
	p.told = now
	p.progress.Rate = float64(p.downloaded) / max(now.Sub(p.began).Seconds(), 1e-3)
	p.client.Progress(p.progress)
}
