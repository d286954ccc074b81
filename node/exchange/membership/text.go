package membership

import (
	"strings"

	"github.com/sapo-swarm/swarm/internal/charset"
)

// Tidy converts untrusted text to one line that can be shown on a terminal, see charset.Line. The result is valid UTF-8
// of at most limit bytes.
func Tidy(text string, limit int) string {
	clean := charset.Line(strings.ToValidUTF8(text[:min(len(text), 4*limit)], "\uFFFD"))
	if len(clean) > limit {
		clean = strings.ToValidUTF8(clean[:limit], "")
	}
	return clean
}
