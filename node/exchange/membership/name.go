package membership

import (
	"strconv"
	"strings"
)

// maxWorkerBytes leaves room in MaxNameBytes for the number of a worker's node.
const maxWorkerBytes = MaxNameBytes - 4

// maxNodeBytes bounds a node's name.
const maxNodeBytes = MaxNameBytes

// reserved are names that mean something else: the bus's users, the beginning of the coordinator's own nodes' names,
// and a word of the bus's subjects: every worker may listen to swarm.*.shared.>, where the requests of one called
// shared would go.
var reserved = map[string]bool{"enrol": true, "node": true, "coordinator": true, "shared": true, standing: true}

// checkName says what is wrong with a worker's or a node's name. It becomes part of a subject and of a path.
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

// numbered is name, or with the first number from 2 on that is free.
func numbered(name string, taken func(string) bool) string {
	candidate := name
	for n := 2; taken(candidate); n++ {
		suffix := "-" + strconv.Itoa(n)
		candidate = name[:min(len(name), maxWorkerBytes-len(suffix))] + suffix
	}
	return candidate
}

// isNumbered tells whether name is wished, or what numbered makes of it.
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
