package targets

import (
	"strconv"
	"strings"
)

// yamlText returns a double-quoted scalar of YAML 1.1 and 1.2, which accept all of Go's escapes.
func yamlText(text string) string { return strconv.Quote(text) }

// composeText is yamlText for Compose, which would expand $NAME.
func composeText(text string) string { return yamlText(strings.ReplaceAll(text, "$", "$$")) }

// containerText is yamlText for a container's arguments, in which Kubernetes would expand $(NAME).
func containerText(text string) string { return yamlText(strings.ReplaceAll(text, "$", "$$")) }

// comment keeps text on one line of a comment.
func comment(text string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}
