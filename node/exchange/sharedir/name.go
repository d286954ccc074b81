package sharedir

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
)

// entry is a file by what its name says of its content.
type entry struct {
	name string // as listed; a copy's is another than the original's
	stem string
	size int64
	hash string // first half of the SHA-256 of the content, in hex
}

// core is the part of a name that tells the content. What sync programs make of a name leaves it whole: "core
// (1).json", "core.sync-conflict-….zst", "Copy of core.zst".
var core = regexp.MustCompile(`(?:^|[^a-z0-9_=-])([a-z0-9_=]+(?:-[a-z0-9_=]+)*)-([0-9]{1,12})-([0-9a-f]{32})(?:[^a-z0-9_=-]|$)`)

// maxName bounds the names that are looked at; no file system has longer ones.
const maxName = 255

// parseName reads the name of a file that this package wrote, or of a copy of it.
func parseName(name string) (entry, bool) {
	if len(name) > maxName {
		return entry{}, false
	}
	m := core.FindStringSubmatch(name)
	if m == nil {
		return entry{}, false
	}
	size, err := strconv.ParseInt(m[2], 10, 64)
	return entry{name: name, stem: m[1], size: size, hash: m[3]}, err == nil
}

// nameOf is the name of a file with that content.
func nameOf(stem, extension string, data []byte) string {
	return fmt.Sprintf("%s-%d-%s.%s", stem, len(data), hashOf(data), extension)
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// processLength is that of newProcessID's text.
const processLength = 8

// newProcessID names one opening of the folder by one node or worker.
func newProcessID() string {
	var b [processLength / 2]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
