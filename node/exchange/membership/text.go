package membership

import (
	"strings"

	"github.com/sapo-swarm/swarm/internal/charset"
)

// Tidy makes an untrusted sender's text one line that can be shown on a terminal, as charset.Line does: valid UTF-8, at
// most limit bytes.
func Tidy(text string, limit int) string {
	clean := charset.Line(strings.ToValidUTF8(text[:min(len(text), 4*limit)], "\uFFFD"))
	if len(clean) > limit {
		clean = strings.ToValidUTF8(clean[:limit], "")
	}
	return clean
}
