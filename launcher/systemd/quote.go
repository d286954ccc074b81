package systemd

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// quoteCommand is an ExecStart=. The program itself is not looked up in the environment, so that its dollars stay
// single.
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

// errText is for text that no unit file can hold.
var errText = errors.New("systemd takes valid UTF-8 without NUL only")

// quoteWord quotes one word of a setting: what is in it stands for itself, whatever it is.
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

// escapePath writes a path where systemd takes the rest of the line as it is.
func escapePath(path string) (string, error) {
	plain := !strings.HasSuffix(path, `\`) && strings.TrimSpace(path) == path
	for _, r := range path {
		plain = plain && r >= ' ' && r != 0x7f && r != utf8.RuneError
	}
	if !plain {
		return "", fmt.Errorf("the folder %q can't stand in a systemd unit", path)
	}
	return strings.ReplaceAll(path, "%", "%%"), nil
}
