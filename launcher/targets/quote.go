package targets

import (
	"strconv"
	"strings"
)

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
