package commandline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"
)

// secretsVariable passes the secrets of the arguments to a copy of this program. Other users can read a process's
// arguments but not its environment. Unmask removes it from the environment.
const secretsVariable = "_SWARM_SECRETS"

// Mask returns arguments without their secrets, and the variable (NAME=VALUE) that passes the secrets to a copy of
// this program. The variable is empty if there are no secrets.
func Mask(args []string, grammar Grammar) (masked []string, variable string, err error) {
	secrets := map[int]string{}
	for i, w := range grammar.words(args) {
		text := maskWord(w)
		masked = append(masked, text)
		if text != w.text {
			secrets[i] = w.text
		}
	}
	if len(secrets) == 0 {
		return masked, "", nil
	}
	data, err := json.Marshal(secrets)
	if err != nil {
		return nil, "", fmt.Errorf("encode the arguments: %w", err)
	}
	return masked, secretsVariable + "=" + string(data), nil
}

// Unmask returns a copy of this process's arguments with the secrets that Mask removed.
func Unmask(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = strings.Clone(a)
	}
	text, ok := os.LookupEnv(secretsVariable)
	if !ok {
		return out
	}
	os.Unsetenv(secretsVariable)
	var secrets map[int]string
	if json.Unmarshal([]byte(text), &secrets) != nil {
		return out
	}
	for i, secret := range secrets {
		if i >= 0 && i < len(out) && strings.Contains(out[i], masked) {
			out[i] = secret
		}
	}
	return out
}

// Hide overwrites the secrets in this process's own arguments, which the system shows to other users. args must be
// the process's original arguments, after the program's name. Callers that need the secrets must copy them first.
// Hide works on Linux only.
func Hide(args []string, grammar Grammar) {
	from, to := argumentsArea()
	for i, w := range grammar.words(args) {
		if maskWord(w) == w.text {
			continue
		}
		at := uintptr(unsafe.Pointer(unsafe.StringData(args[i])))
		if at < from || at+uintptr(len(args[i])) > to {
			continue // not in the memory that the system shows
		}
		secret := unsafe.Slice(unsafe.StringData(args[i]), len(args[i]))
		if name, _, ok := bytes.Cut(secret, []byte("=")); ok && w.inline && strings.HasPrefix(w.text, "--") {
			secret = secret[len(name)+1:]
		}
		for j := range secret {
			secret[j] = '*'
		}
	}
}

// argumentsArea returns the address range of this process's arguments (proc_pid_stat(5): arg_start, arg_end), or
// zeros if it is unknown.
func argumentsArea() (from, to uintptr) {
	data, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, 0
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:]) // fields[0] is the third field of the file
	const start, end = 48 - 3, 49 - 3
	if len(fields) <= end {
		return 0, 0
	}
	low, err := strconv.ParseUint(string(fields[start]), 10, 64)
	high, err2 := strconv.ParseUint(string(fields[end]), 10, 64)
	if err != nil || err2 != nil {
		return 0, 0
	}
	return uintptr(low), uintptr(high)
}
