package sharedir

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
)

// entry is a file with the fields from its name.
type entry struct {
	name string // as listed; a copy has another name
	stem string
	size int64
	hash string // first half of the content's SHA-256, in hex
}

// core matches the part of a name that describes the content. Sync programs keep this part in names of copies: "core
// (1).json", "core.sync-conflict-….zst", "Copy of core.zst".
var core = regexp.MustCompile(`(?:^|[^a-z0-9_=-])([a-z0-9_=]+(?:-[a-z0-9_=]+)*)-([0-9]{1,12})-([0-9a-f]{32})(?:[^a-z0-9_=-]|$)`)

// maxName bounds the length of names. No file system has longer ones.
const maxName = 255

// parseName parses the name of a file that this package wrote, or of a copy of such a file.
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

// nameOf returns the name of a file with the given content.
func nameOf(stem, extension string, data []byte) string {
	return fmt.Sprintf("%s-%d-%s.%s", stem, len(data), hashOf(data), extension)
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// processLength is the length of newProcessID's result.
const processLength = 8

// newProcessID returns a random id for one opening of the folder by a node or worker.
func newProcessID() string {
	var b [processLength / 2]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
