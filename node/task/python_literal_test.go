package task

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The expected results are those of CPython 3.11's eval.
func TestLiteralPrintsAs(t *testing.T) {
	const want = "0 1\n1 0"
	for _, source := range []string{
		"[[0,1],[1,0]]", "((0,1),(1,0),)", "[0, 1], [1, 0]", "[0,1],[1,0],", "'01', '10'", `["01",('1','0')]`, "[['0 1'],['1 0']]",
		" \t[[0,1],[1,0]] \t\f", "\f[[0,1],[1,0]]", "# text\n\n \r\n[[0,1],[1,0]] # text\n  # text\n \n", "[[0,1],[1,0]]\n\f",
		"[\n\n[ 0 ,#]\n1\r\n,],\f[1,0],\r]", "[[00,0x1],[0b1,0o0]]", "[[0_0,0X_1],[+1,-0]]", "[[(0),--1],[-(-1),((0))]]",
		strings.Repeat("(", 198) + "[[0,1],[1,0]]" + strings.Repeat(")", 198),
	} {
		require.True(t, literalPrintsAs(source, want), "%q", source)
	}
	for _, source := range []string{
		"", " ", "#", "[", "[[0,1],[1,0]", "[[0,1],[1,0]]]", "[[0,1][1,0]]", "[[0,1],,[1,0]]", "[,[0,1],[1,0]]", "(,)", ",", "[[0 1],[1 0]]",
		"\n [[0,1],[1,0]]", "#\n\t[[0,1],[1,0]]", "\f [[0,1],[1,0]]", "[[0,1],[1,0]]\n ", "[[0,1],[1,0]]\n0", "[0,1],\n[1,0]", "[[0,1],[1,0]];",
		"\u00a0[[0,1],[1,0]]", "\ufeff[[0,1],[1,0]]", "[[0,1],\v[1,0]]", "[[0,1],[1,0]]#\x00", "[[0,1],[1,0)]", "([0,1],[1,0]]",
		"[[0,01],[1,0]]", "[[0,1_],[1,0]]", "[[0,0__0],[1,0]]", "[[0,1.],[1,0]]", "[[0,1e0],[1,0]]", "[[0,0x],[1,0]]", "[[0,1if],[1,0]]", "[[0,१],[1,0]]",
		"[[0,18446744073709551617],[1,0]]", "[[False,True],[1,0]]", "['0 1','1 0']", "['0,1','1,0']", "'0 1\\n1 0'", "'01\n10'", "['01','10]",
		"[['0','1'],['1',+'0']]", "[[[0],1],[1,0]]", "[0,1,1,0]", "0", "'0110'", "[[0,1],[1,0],[]]", "[[],[0,1],[1,0]]", "[[0,1],[1,-1]]",
		strings.Repeat("(", 199) + "[[0,1],[1,0]]" + strings.Repeat(")", 199),
	} {
		require.False(t, literalPrintsAs(source, want), "%q", source)
	}
	require.True(t, literalPrintsAs("[[]]", ""))
	require.True(t, literalPrintsAs("'7'", "7"))
	require.True(t, literalPrintsAs("[['1'], '', [--+-2]]", "1\n\n-2"))
}

// Strings joined from parts and triple-quoted strings are the reader's only deliberate difference from Python on
// text without letters.
func TestLiteralRefusesJoinedStrings(t *testing.T) {
	for _, source := range []string{"['0' '1']", "['0''1']", "['01''']", "['''01''']", `["""01"""]`} {
		require.False(t, literalPrintsAs(source, "0 1"), "%q", source)
	}
}
