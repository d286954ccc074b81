package table

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestWrapHangsBehindTheKeyAndTheMarkOfAList(t *testing.T) {
	for _, c := range []struct {
		line  string
		width int
		want  string
	}{
		{"a sentence of some words", 12, "a sentence\nof some\nwords"},
		{"why       the study asks for eight nodes", 30, "why       the study asks for\n          eight nodes"},
		{"  - one two three four", 14, "  - one two\n    three four"},
		{"[12] one two three", 12, "[12] one two\n     three"},
		{"1. one two three", 12, "1. one two\n   three"},
		{"/a/path/that/is/wider/than/the/screen and more", 20, "/a/path/that/is/wider/than/the/screen\nand more"},
		{"    indented text of words", 16, "    indented\n    text of\n    words"},
		{"a node has 2.1 GB of memory (9 %).", 13, "a node has\n2.1 GB of\nmemory (9 %)."},
		{"any width will do for this", 0, "any width will do for this"},
		{"a very long key of a line  value and more", 20, "a very long key of a\n  line  value and\n  more"},
	} {
		require.Equal(t, c.want, strings.Join(Wrap(c.line, c.width), "\n"))
	}
}

func TestWrappedLinesFitAndKeepEveryWord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.StringMatching(`( {0,6})((- |key  |\[3\] )?)([a-zü漢]{1,12} {1,3}){0,20}`).Draw(t, "line")
		width := rapid.IntRange(1, 60).Draw(t, "width")
		lines := Wrap(line, width)
		for _, l := range lines {
			require.True(t, ansi.StringWidth(l) <= width || len(strings.Fields(l)) <= 1, "%q is wider than %d", l, width)
		}
		require.Equal(t, strings.Fields(line), strings.Fields(strings.Join(lines, " ")))
	})
}

func TestPageLaysOutLinesWhateverPiecesTheyComeIn(t *testing.T) {
	var out bytes.Buffer
	p := NewPage(&out, Screen{Width: 16, ASCII: true})
	p.Printf("a line – in")
	p.Printf(" pieces\nand ")
	p.Println("one more")
	p.Printf("no end")
	table := New(titles("A", "B")...)
	table.Add("→", "…")
	p.Table(table)
	require.Empty(t, out.String(), "nothing is written before Flush")
	require.NoError(t, p.Flush())
	require.Equal(t, "a line - in\npieces\nand one more\nno end\nA   B\n->  ...\n", out.String())
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, errors.New("closed") }

func TestPageTellsThatItCouldNotBeWritten(t *testing.T) {
	p := NewPage(closed{}, Screen{})
	p.Println("lost")
	require.ErrorContains(t, p.Flush(), "write the result: closed")
}

func TestCommandsGoOnBehindABackslash(t *testing.T) {
	const command = `swarm up --set 'name=two words here' --nodes 4 --rounds 5`
	require.Equal(t, []string{command}, commandLines(command, 0))
	require.Equal(t, []string{`swarm up --set \`, `    'name=two words here' \`, `    --nodes 4 --rounds 5`}, commandLines(command, 28))
}
