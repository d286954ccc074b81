package settings

import (
	"bytes"
	"fmt"
	"strings"
)

// context is the number of lines shown around a change.
const context = 3

// diff writes the difference of two texts in unified form. Both have the same number of lines, because an edit never
// adds or removes one.
func diff(b *bytes.Buffer, name string, before, after []byte) {
	old, now := strings.SplitAfter(string(before), "\n"), strings.SplitAfter(string(after), "\n")
	if old[len(old)-1] == "" { // nothing follows the last line end
		old, now = old[:len(old)-1], now[:len(now)-1]
	}
	var changed []int
	for i := range old {
		if old[i] != now[i] {
			changed = append(changed, i)
		}
	}
	if len(changed) == 0 {
		return
	}
	fmt.Fprintf(b, "--- %s\n+++ %s\n", name, name)
	for len(changed) > 0 {
		last := 0 // index of the hunk's last change: the next one is more than two contexts away
		for last+1 < len(changed) && changed[last+1]-changed[last] <= 2*context {
			last++
		}
		hunk(b, old, now, max(0, changed[0]-context), min(len(old), changed[last]+context+1))
		changed = changed[last+1:]
	}
}

func hunk(b *bytes.Buffer, old, now []string, from, to int) {
	fmt.Fprintf(b, "@@ -%d,%d +%d,%d @@\n", from+1, to-from, from+1, to-from)
	for i := from; i < to; {
		if old[i] == now[i] {
			put(b, " ", old[i:i+1])
			i++
			continue
		}
		end := i
		for end < to && old[end] != now[end] {
			end++
		}
		put(b, "-", old[i:end])
		put(b, "+", now[i:end])
		i = end
	}
}

func put(b *bytes.Buffer, sign string, lines []string) {
	for _, line := range lines {
		b.WriteString(sign + line)
		if !strings.HasSuffix(line, "\n") {
			b.WriteString("\n\\ No newline at end of file\n")
		}
	}
}
