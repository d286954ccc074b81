// Package shell quotes words so that a shell reads them back unchanged.
package shell

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns a command as one line that bash and zsh read back as exactly these words. It quotes every word that
// is not plain. It writes a word with unprintable characters as $'…'.
func Line(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = Quote(word)
	}
	return strings.Join(quoted, " ")
}

// Quote returns one word, quoted as in Line.
func Quote(word string) string {
	if name, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(name, "--") && isPlain(name) && !isPlain(value) {
		return name + "=" + Quote(value) // --name='a b' reads better than '--name=a b'
	}
	switch {
	case isPlain(word):
		return word
	case !isPrintable(word):
		return ansiC(word)
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Assignment quotes NAME=value such that a shell parses it as an assignment. Before a command it sets the variable.
func Assignment(entry string) string {
	name, value, _ := strings.Cut(entry, "=")
	if value == "" {
		return name + "="
	}
	return name + "=" + Quote(value)
}

// isPlain reports whether the word needs no quoting in any shell.
func isPlain(word string) bool {
	return word != "" && word[0] != '~' && word[0] != '=' && strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=:,./@%") == ""
}

func isPrintable(word string) bool {
	return utf8.ValidString(word) && strings.IndexFunc(word, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

func ansiC(word string) string {
	var b strings.Builder
	b.WriteString("$'")
	for i := 0; i < len(word); {
		r, size := utf8.DecodeRuneInString(word[i:])
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\'' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case unicode.IsPrint(r) && (r != utf8.RuneError || size > 1):
			b.WriteRune(r)
		default:
			for _, c := range []byte(word[i : i+size]) {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		}
		i += size
	}
	b.WriteByte('\'')
	return b.String()
}
