package targets

import (
	"fmt"
	"strconv"
	"strings"
)

// ShellWord quotes one word for bash, where it needs it: what is in it stands for itself, whatever it is. Text with characters that don't print, among them all that
// any language takes for the end of a line, is written in bash's $'…', byte by byte, so that a word never spans lines.
func ShellWord(text string) string {
	option := strings.HasPrefix(text, "-") // in which a = assigns nothing
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !plainRune(r) && !(option && r == '=') }) {
		return text
	}
	if !strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for _, r := range text {
		switch {
		case r == '\'' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			for _, c := range []byte(string(r)) {
				fmt.Fprintf(&b, `\%03o`, c) // always three digits: what follows can't join them
			}
		}
	}
	return b.String() + "'"
}

func plainRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_./:@%+-,", r)
}

// shellWords quotes a command's words.
func shellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = ShellWord(w)
	}
	return strings.Join(quoted, " ")
}

// yamlText is a double-quoted scalar of YAML 1.1 and 1.2. Go's escapes are among theirs.
func yamlText(text string) string { return strconv.Quote(text) }

// composeText is yamlText where Compose would replace $NAME.
func composeText(text string) string { return yamlText(strings.ReplaceAll(text, "$", "$$")) }

// containerText is yamlText in a container's arguments, where Kubernetes would replace $(NAME).
func containerText(text string) string { return yamlText(strings.ReplaceAll(text, "$", "$$")) }

// comment keeps text within one line of a comment.
func comment(text string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}
