package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"time"
)

// errDamaged reports a complete file with another checksum than the hub listed.
var errDamaged = errors.New("damaged")

// download downloads remote to path, through path + ".incomplete". An earlier attempt of this or another program
// may have left the first part there. The file name is the content's hash, so the request names only an offset.
// Storage behind the hub's redirect has its own ETags, which would never match an If-Range. The hash of the whole
// file decides.
func (p *pull) download(ctx context.Context, file remote, path string) error {
	incomplete := path + ".incomplete"
	failed, damaged := 0, false
	for {
		before := sizeOf(incomplete)
		err := p.attempt(ctx, file, incomplete)
		var no *refusal
		switch {
		case err == nil:
			return publish(incomplete, path)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errDamaged):
			// The part from an earlier attempt may be damaged: the second try starts from zero.
			if removed := os.Remove(incomplete); removed != nil {
				return removed
			}
			p.advance(file.name, -file.size)
			if before == 0 || damaged {
				return err
			}
			damaged, before = true, 0
		case errors.As(err, &no), !isNetwork(err):
			return err
		}
		if sizeOf(incomplete) > before {
			failed = 0
		}
		if failed++; failed == attempts {
			return err
		}
		if err := p.client.pause(ctx, delay(err, failed)); err != nil {
			return err
		}
	}
}

// localError is a failure of this machine's disk. Another attempt would not help.
type localError struct{ error }

func (e *localError) Unwrap() error { return e.error }

func isNetwork(err error) bool {
	var local *localError
	return !errors.As(err, &local)
}

// attempt makes one request for the missing bytes of the incomplete file, and checks the file when it is complete.
func (p *pull) attempt(ctx context.Context, file remote, incomplete string) (err error) {
	out, err := os.OpenFile(incomplete, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return &localError{err}
	}
	defer func() {
		if closed := out.Close(); err == nil && closed != nil {
			err = &localError{closed}
		}
	}()
	digest := newDigest(file)
	have, err := io.Copy(digest, io.LimitReader(out, file.size))
	if err != nil {
		return &localError{err}
	}
	if have < file.size {
		if err := p.fetch(ctx, file, out, digest, have); err != nil {
			return err
		}
	}
	if err := errors.Join(out.Truncate(file.size), out.Sync()); err != nil {
		return &localError{err}
	}
	if got := hex.EncodeToString(digest.Sum(nil)); got != file.hash {
		return fmt.Errorf("%s was %w in transit: its hash is %s, but the hub lists %s", file.name, errDamaged, got, file.hash)
	}
	return nil
}

// fetch appends the rest of the file, from byte have on.
func (p *pull) fetch(ctx context.Context, file remote, out *os.File, digest hash.Hash, have int64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := p.client.idle
	watchdog := time.AfterFunc(idle, func() { cancel(fmt.Errorf("no data for %s", idle)) })
	defer watchdog.Stop()

	header := http.Header{"Accept-Encoding": {"identity"}} // offsets refer to the uncompressed file
	if have > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	response, err := p.client.do(ctx, http.MethodGet, p.client.resolve(p.id, p.commit, file.name), header)
	if err != nil {
		return withCause(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode == http.StatusPartialContent && rangeStart(response.Header) == have:
	case response.StatusCode == http.StatusOK:
		digest.Reset() // the server sends the whole file despite the range
		startDigest(digest, file)
		p.advance(file.name, -have)
		have = 0
	case response.StatusCode < 300:
		return &refusal{fmt.Sprintf("%s answers a request for bytes from %d on of %s with other bytes", p.client.Host(), have, file.name)}
	default:
		return p.client.judge(response, p.id, file.name+" of model "+p.id)
	}
	if _, err := out.Seek(have, io.SeekStart); err != nil {
		return &localError{err}
	}
	if err := out.Truncate(have); err != nil {
		return &localError{err}
	}
	if err := p.copy(file, out, digest, response.Body, have, func() { watchdog.Reset(idle) }); err != nil {
		return withCause(ctx, err)
	}
	return nil
}

// copy reads until the file is complete. A body that is too short or too long is an error.
func (p *pull) copy(file remote, out io.Writer, digest hash.Hash, body io.Reader, have int64, alive func()) error {
	buffer := make([]byte, 256<<10)
	for {
		n, err := body.Read(buffer)
		if n > 0 {
			alive()
			if have += int64(n); have > file.size {
				return fmt.Errorf("%s has more than the %d bytes that the hub lists", file.name, file.size)
			}
			if _, err := out.Write(buffer[:n]); err != nil {
				return &localError{err}
			}
			digest.Write(buffer[:n])
			p.advance(file.name, int64(n))
		}
		switch {
		case err == io.EOF && have == file.size:
			return nil
		case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF):
			return fmt.Errorf("%s ended after %d of %d bytes", file.name, have, file.size)
		case err != nil:
			return err
		}
	}
}

// newDigest makes the hash that names a file: sha256 for large files, otherwise git's blob hash (sha1 over a header
// with the size, and the content).
func newDigest(file remote) hash.Hash {
	if sha256Pattern.MatchString(file.hash) {
		return sha256.New()
	}
	digest := sha1.New()
	startDigest(digest, file)
	return digest
}

func startDigest(digest hash.Hash, file remote) {
	if digest.Size() == sha1.Size {
		fmt.Fprintf(digest, "blob %d\x00", file.size)
	}
}

// rangeStart returns the first offset of "bytes 100-199/200", -1 if there is none.
func rangeStart(h http.Header) int64 {
	var start, end int64
	if _, err := fmt.Sscanf(h.Get("Content-Range"), "bytes %d-%d/", &start, &end); err != nil {
		return -1
	}
	return start
}

// withCause returns the cause of the context's end if the context has ended, otherwise err.
func withCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// publish renames a checked file to its final name.
func publish(incomplete, path string) error {
	if err := os.Rename(incomplete, path); err != nil {
		return &localError{err}
	}
	return nil
}
