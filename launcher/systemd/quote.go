package systemd

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// quoteCommand returns the value of ExecStart=. systemd does not expand variables in the program's path, so a $ in
// it stays single.
func quoteCommand(exe string, args []string) (string, error) {
	word, err := quoteWord(exe, false)
	words := []string{word}
	for _, arg := range args {
		if err != nil {
			break
		}
		word, err = quoteWord(arg, true)
		words = append(words, word)
	}
	return strings.Join(words, " "), err
}

// errText reports text that a unit file cannot hold.
var errText = errors.New("systemd accepts only valid UTF-8 without NUL")

// quoteWord quotes one word of a setting such that systemd reads it literally.
func quoteWord(word string, inCommand bool) (string, error) {
	if !utf8.ValidString(word) || strings.ContainsRune(word, 0) {
		return "", fmt.Errorf("%q: %w", word, errText)
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range word {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '%':
			b.WriteString("%%")
		case r == '$' && inCommand:
			b.WriteString("$$")
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String(), nil
}

// escapePath escapes a path for settings that systemd reads to the end of the line without unquoting.
func escapePath(path string) (string, error) {
	plain := !strings.HasSuffix(path, `\`) && strings.TrimSpace(path) == path
	for _, r := range path {
		plain = plain && r >= ' ' && r != 0x7f && r != utf8.RuneError
	}
	if !plain {
		return "", fmt.Errorf("a systemd unit cannot contain the folder name %q", path)
	}
	return strings.ReplaceAll(path, "%", "%%"), nil
}
