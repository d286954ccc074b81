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

// secretsVariable gives a copy of this program the secrets of its arguments: others can read a process's arguments, and
// not its environment. It is taken out of the environment at once.
const secretsVariable = "_SWARM_SECRETS"

// Mask returns arguments without what is secret in them, and the variable, as NAME=VALUE, that gives it to the copy of
// this program that gets them; empty where nothing is secret.
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

// Unmask returns this process's arguments, as a copy, with the secrets that Mask took out of them.
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

// Hide overwrites what is secret in this process's own arguments, where the system shows them to other users. args are
// those of the process itself, after the program's name: whoever needs them takes a copy before. Elsewhere than on
// Linux it does nothing.
func Hide(args []string, grammar Grammar) {
	from, to := argumentsArea()
	for i, w := range grammar.words(args) {
		if maskWord(w) == w.text {
			continue
		}
		at := uintptr(unsafe.Pointer(unsafe.StringData(args[i])))
		if at < from || at+uintptr(len(args[i])) > to {
			continue // not where the system put it
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

// argumentsArea is where this process's arguments are in its memory (proc_pid_stat(5): arg_start, arg_end); nowhere
// where that can't be told.
func argumentsArea() (from, to uintptr) {
	data, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, 0
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:]) // the third field of all is the first here
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
