package settings

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLargeFilesOfOneKindOfThingAreRead checks that no construct makes the reader scan the rest of the file for each
// part.
func TestLargeFilesOfOneKindOfThingAreRead(t *testing.T) {
	for _, c := range []struct{ name, unit string }{
		{"a.yaml", "a: 1\n"}, {"a.yaml", "- a\n"}, {"a.json", `{"a":1,`}, {"a.json", "// x\n"},
		{"a.sh", "a=1\n"}, {"a.sh", "a=1 "}, {"a.sh", "\"a=1,"}, {"a.sh", "\"a=1 "},
		{"a.sh", "--a -b "}, {"a.py", "a = 1\n"}, {"a.py", "a = "}, {"a.py", ",a=1"}, {"a.ini", "[a]\n"}, {"a.sh", "=\\'"},
	} {
		s := &source{name: c.name, path: c.name, data: []byte(strings.Repeat(c.unit, 1<<17/len(c.unit)))}
		if err := s.parse(); err != nil {
			require.NotContains(t, err.Error(), "\n")
			continue
		}
		_, _, err := s.edit([]Change{{Place{File: c.name, Key: "a"}, "7"}})
		require.Error(t, err, c.unit)
		require.Less(t, len(err.Error()), 400)
	}
}
