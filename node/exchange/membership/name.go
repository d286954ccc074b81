package membership

import (
	"strconv"
	"strings"
)

// maxWorkerBytes reserves space in MaxNameBytes for the number of a worker's node.
const maxWorkerBytes = MaxNameBytes - 4

// maxNodeBytes bounds a node's name.
const maxNodeBytes = MaxNameBytes

// reserved lists names with another meaning: the bus's users, the prefix of the coordinator's own nodes, and a word of
// the bus's subjects. Every worker may subscribe to swarm.*.shared.>, which would match the requests of a worker called
// shared.
var reserved = map[string]bool{"enrol": true, "node": true, "coordinator": true, "shared": true, standing: true}

// checkName returns what is wrong with a worker's or a node's name. The name becomes part of a subject and of a path.
func checkName(what, name string, limit int) *Refusal {
	if name == "" || len(name) > limit || !plain(name, "-_") || name[0] == '-' {
		return Refuse(CodeName, "%s name %.40q: letters, digits, - and _ are allowed, 1 to %d of them. Try: another with --name", what, name, limit)
	}
	return nil
}

func checkWorker(name string) *Refusal {
	if refusal := checkName("worker", name, maxWorkerBytes); refusal != nil {
		return refusal
	}
	if reserved[strings.ToLower(name)] {
		return Refuse(CodeName, "worker name %q is reserved. Try: another with --name", name)
	}
	return nil
}

// numbered returns name, or name with the first free number from 2 on.
func numbered(name string, taken func(string) bool) string {
	candidate := name
	for n := 2; taken(candidate); n++ {
		suffix := "-" + strconv.Itoa(n)
		candidate = name[:min(len(name), maxWorkerBytes-len(suffix))] + suffix
	}
	return candidate
}

// isNumbered reports whether name is wished, or a result of numbered for it.
func isNumbered(name, wished string) bool {
	if name == wished {
		return true
	}
	at := strings.LastIndexByte(name, '-')
	if at < 0 {
		return false
	}
	n, err := strconv.Atoi(name[at+1:])
	return err == nil && n >= 2 && strings.HasPrefix(wished, name[:at])
}
