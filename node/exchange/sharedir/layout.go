package sharedir

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// Names of folders below the experiment's folder.
const (
	base         = "swarm" // swarm's own files; the rest of the experiment's folder is rl-swarm's
	rolloutsPart = "rollouts"
	livesPart    = "lives"
	workersPart  = "workers"
	snapshotPart = "snapshots"
)

// blockRounds is the number of rounds per folder. With 8 nodes a listing has at most 128 names, and 2000 rounds need
// 125 folders.
const blockRounds = 16

// maxRounds bounds a round's number to keep names short.
const maxRounds = 99_999_999

// Folder returns an experiment's folder below a shared folder. rl-swarm uses the same path.
func Folder(shared, experiment string) (string, error) {
	if shared == "" {
		return "", fmt.Errorf("no shared folder is named. Try: --shared DIR")
	}
	if !plain(experiment, 64) {
		return "", fmt.Errorf("experiment %.70q is not a valid folder name: at most 64 letters, digits, '.', '_' and '-' are allowed. "+
			"Try: another --experiment NAME", experiment)
	}
	return filepath.Join(shared, "experiments", experiment), nil
}

// plain reports whether a name is valid and unambiguous on every file system.
func plain(name string, limit int) bool {
	if name == "" || len(name) > limit || strings.Trim(name, ".") == "" {
		return false
	}
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// longPart is the maximum length in bytes of an encoded name. A longer one is replaced by its hash.
const longPart = 96

// encode converts text to a part of a file name. The result has no '-', and stays unique on file systems that ignore
// case.
func encode(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "=%02x", c)
		}
	}
	if b.Len() > longPart || b.Len() == 0 {
		sum := sha256.Sum256([]byte(text))
		return "=h" + hex.EncodeToString(sum[:16])
	}
	return b.String()
}

// decode is the inverse of encode. It fails for hashed names.
func decode(part string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(part); i++ {
		if part[i] != '=' {
			b.WriteByte(part[i])
			continue
		}
		if i+2 >= len(part) {
			return "", false
		}
		c, err := strconv.ParseUint(part[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b.WriteByte(byte(c))
		i += 2
	}
	return b.String(), encode(b.String()) == part
}

// runPath returns the run's folder below base.
func runPath(run string) string { return encode(run) }

// blockOf returns the first round of a round's block.
func blockOf(round int) int { return round - round%blockRounds }

// blockPath returns the folder of a block's rollouts.
func blockPath(run string, block int) string {
	return path.Join(runPath(run), rolloutsPart, fmt.Sprintf("%08d", block))
}

// parseBlock parses the name of a block's folder.
func parseBlock(name string) (int, bool) {
	n, err := strconv.Atoi(name)
	return n, err == nil && len(name) == 8 && n >= 0 && n%blockRounds == 0
}

// rolloutStem returns the start of the name of a node's batch for a round, as written by one process of the node.
func rolloutStem(node string, round int, process string) string {
	return fmt.Sprintf("%s-%08d-%s", encode(node), round, process)
}

// rolloutFile is a batch's file with the fields from its name.
type rolloutFile struct {
	entry
	node    string // encoded
	round   int
	process string
}

func parseRollout(name string) (rolloutFile, bool) {
	e, ok := parseName(name)
	if !ok {
		return rolloutFile{}, false
	}
	parts := strings.Split(e.stem, "-")
	if len(parts) != 3 || len(parts[1]) != 8 || len(parts[2]) != processLength {
		return rolloutFile{}, false
	}
	round, err := strconv.Atoi(parts[1])
	return rolloutFile{entry: e, node: parts[0], round: round, process: parts[2]}, err == nil && round >= 0
}
