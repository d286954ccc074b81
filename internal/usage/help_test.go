package usage

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParagraphsAreJoined(t *testing.T) {
	require.Equal(t, "one two\n\nthree:\n  a\n  b\nfour five\n", paragraphs("one\ntwo\n\nthree:\n  a\n  b\nfour\nfive\n"))
}
