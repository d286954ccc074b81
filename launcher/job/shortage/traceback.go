package shortage

import (
	"path"
	"strings"
)

// maxTracebacks is the maximum number of processes with an incomplete traceback.
const maxTracebacks = 256

// traceback is the known part of a Python traceback that a process is printing.
type traceback struct {
	user    string // innermost frame outside libraries
	any     string // innermost frame
	chained bool   // a shortage caused its exception
}

func (t *traceback) where() string {
	if t.user != "" {
		return t.user
	}
	return t.any
}

var frame = lazy(`^\s*File "([^"]{1,1000})", line (\d+)(?:, in (.{1,200}))?`)

// library matches the paths of code that the user didn't write.
var library = lazy(`/(?:site|dist)-packages/|/lib/python\d[\d.]*/|^<frozen |/runpy\.py$`)

// add adds a frame.
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
