package shortage

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// A launcher of many processes puts the process in front of every line, a logger the time and the place.
var prefixes = lazy(`^(?:` + strings.Join([]string{
	`\[(?:default|rank|Rank |GPU |cuda:)?\d+\]:?(?:\[rank\d+\]:)? `, // [rank0]: and [default0]: of torchrun
	`\[\d+,\d+\]<\w+>: ?`, // [1,0]<stderr>: of mpirun
	`\((?:\w|[ :.=<>_/-]|\[repeated \d+x across cluster\])*pid=\d+[^)]{0,80}\) `, // (WorkerDict pid=123, ip=10.0.0.1) of Ray
	`\((?:raylet|autoscaler)[^)]{0,60}\) `,
	`\d{1,5}: `,                                                                  // 0: of srun --label
	`[\w.-]{1,60}: (?:\[rank|Traceback|  File )`,                                 // worker-5: of pdsh; what follows is put back
	`[\w.-]{1,60} +\| `,                                                          // service-1  | of docker compose
	`\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d[\d.,]*(?:Z|[+-]\d\d:?\d\d)?\]? `, // a time
	`(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) [\d-]+ [\d:]+ \[?[\w./]+:\d+\] `,      // ERROR 11-18 18:07:28 engine.py:366] of vLLM
	`[│|] `,
}, "|") + `)`)

var putBack = lazy(`(?:\[rank|Traceback|  File )$`)

// split parts what was put in front of a line from what the program said. Indentation stays with the latter.
func split(line string) (prefix, said string) {
	said = line
	for range 5 {
		front := prefixes.get().FindString(said)
		if back := putBack.get().FindString(front); back != "" {
			front = strings.TrimSuffix(front, back)
		}
		if front == "" || len(prefix)+len(front) > 200 {
			break
		}
		prefix += front
		said = said[len(front):]
	}
	return who(prefix), said
}

// times in a prefix would make every line come from somebody else.
var times = lazy(`\[?[\d/-]*[T ]?\d\d:\d\d:\d\d\S*|\w+\.py:\d+\]`)

func who(prefix string) string { return times.get().ReplaceAllString(prefix, "") }

// escapes are the terminal's: colours, moves, titles.
var escapes = lazy("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-Z\\\\^_])")

// plain is text without a terminal's escapes, as valid UTF-8 without control characters other than tabs.
func plain(text []byte) string {
	if bytes.IndexByte(text, 0x1b) >= 0 {
		text = escapes.get().ReplaceAll(text, nil)
	}
	odd := !utf8.Valid(text)
	for _, b := range text {
		odd = odd || (b < ' ' && b != '\t') || b == 0x7f
	}
	if !odd {
		return string(text)
	}
	return strings.Map(func(r rune) rune {
		if (r < ' ' && r != '\t') || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(text), "�"))
}

// maxShown bounds, in characters, what a Report or a Fault quotes.
const maxShown = 400

// shorten returns text on one line of bounded length.
func shorten(text string) string {
	text = strings.TrimSpace(text)
	if len(text) <= maxShown {
		return text
	}
	if runes := []rune(text); len(runes) > maxShown {
		return string(runes[:maxShown]) + "…"
	}
	return text
}
