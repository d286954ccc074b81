package shortage

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Launchers of many processes prefix every line with the process, loggers with time and place.
var prefixes = lazy(`^(?:` + strings.Join([]string{
	`\[(?:default|rank|Rank |GPU |cuda:)?\d+\]:?(?:\[rank\d+\]:)? `, // [rank0]: and [default0]: of torchrun
	`\[\d+,\d+\]<\w+>: ?`, // [1,0]<stderr>: of mpirun
	`\((?:\w|[ :.=<>_/-]|\[repeated \d+x across cluster\])*pid=\d+[^)]{0,80}\) `, // (WorkerDict pid=123, ip=10.0.0.1) of Ray
	`\((?:raylet|autoscaler)[^)]{0,60}\) `,
	`\d{1,5}: `,                                                                  // 0: of srun --label
	`[\w.-]{1,60}: (?:\[rank|Traceback|  File )`,                                 // worker-5: of pdsh; split puts the rest back
	`[\w.-]{1,60} +\| `,                                                          // service-1  | of docker compose
	`\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d[\d.,]*(?:Z|[+-]\d\d:?\d\d)?\]? `, // a time
	`(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) [\d-]+ [\d:]+ \[?[\w./]+:\d+\] `,      // ERROR 11-18 18:07:28 engine.py:366] of vLLM
	`[│|] `,
}, "|") + `)`)

var putBack = lazy(`(?:\[rank|Traceback|  File )$`)

// split separates the prefix of a line from the program's own text. Indentation stays with the text.
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

// times are removed from a prefix, because they would make each line's prefix different.
var times = lazy(`\[?[\d/-]*[T ]?\d\d:\d\d:\d\d\S*|\w+\.py:\d+\]`)

func who(prefix string) string { return times.get().ReplaceAllString(prefix, "") }

// escapes match terminal escapes: colors, cursor moves, titles.
var escapes = lazy("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-Z\\\\^_])")

// plain returns text without terminal escapes, as valid UTF-8 without control characters other than tabs.
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

// maxShown bounds the quoted text in a Report or a Fault, in characters.
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
