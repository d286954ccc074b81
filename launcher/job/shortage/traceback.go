package shortage

import (
	"path"
	"strings"
)

// maxTracebacks is how many processes may be in the middle of one at once.
const maxTracebacks = 256

// traceback is what is known of a Python traceback that a process is printing.
type traceback struct {
	user    string // the innermost frame that is no library's
	any     string // the innermost frame
	chained bool   // its exception came of a shortage
}

func (t *traceback) where() string {
	if t.user != "" {
		return t.user
	}
	return t.any
}

var frame = lazy(`^\s*File "([^"]{1,1000})", line (\d+)(?:, in (.{1,200}))?`)

// library are the paths of what the user didn't write.
var library = lazy(`/(?:site|dist)-packages/|/lib/python\d[\d.]*/|^<frozen |/runpy\.py$`)

// add takes a frame.
func (t *traceback) add(m []string) {
	file, function := m[1], strings.TrimSpace(m[3])
	text := path.Base(strings.ReplaceAll(file, `\`, "/")) + ":" + m[2]
	if function != "" && function != "<module>" {
		text += " in " + function
	}
	text = shorten(text)
	t.any = text
	if !library.in(strings.ReplaceAll(file, `\`, "/")) {
		t.user = text
	}
}
