package task

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The expected texts are Python's json.dumps(value, separators=(",", ":")).
func TestObjectEncode(t *testing.T) {
	wide, _ := new(big.Int).SetString("-98765432109876543210", 10)
	got := object{
		{"b", 1}, {"a", int64(-2)}, {"big", wide}, {"list", []int{2, 16}}, {"none", []int{}}, {"nil", []string(nil)},
		{"rows", [][]int{{0}, {1, 2}}}, {"texts", []string{"P", "¬(Q ∧ P)"}}, {"o", object{}},
		{"objects", []object{{{"x", 0.25}}, {{"x", 1.0}}}},
		{"text", "\"\\/\b\f\n\r\t\x00\x1f\x7f<>&é\u2028\U0001D7DB"},
	}.encode()
	want := `{"b":1,"a":-2,"big":-98765432109876543210,"list":[2,16],"none":[],"nil":[],"rows":[[0],[1,2]],` +
		`"texts":["P","\u00ac(Q \u2227 P)"],"o":{},"objects":[{"x":0.25},{"x":1.0}],` +
		`"text":"\"\\/\b\f\n\r\t\u0000\u001f` + "\x7f" + `<>&\u00e9\u2028\ud835\udfdb"}`
	require.Equal(t, want, string(got))
	require.True(t, json.Valid(got))
}

func TestPyFloat(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0.0", 1: "1.0", 0.25: "0.25", -1.5: "-1.5", 0.1: "0.1", 1e15: "1000000000000000.0", 1e16: "1e+16",
		0.0001: "0.0001", 0.00001: "1e-05", 1.25e-7: "1.25e-07", 1e100: "1e+100",
	} {
		require.Equal(t, want, pyFloat(f))
	}
}

func TestReadMetadata(t *testing.T) {
	var meta struct{ N int }
	require.NoError(t, readMetadata(Item{Metadata: json.RawMessage(`{"n":3,"other":[]}`)}, &meta))
	require.Equal(t, 3, meta.N)
	require.Error(t, readMetadata(Item{}, &meta))
	require.Error(t, readMetadata(Item{Metadata: json.RawMessage(`{"n":`)}, &meta))
	long := `{"pad":"` + strings.Repeat("x", maxMetadata) + `"}`
	require.ErrorContains(t, readMetadata(Item{Metadata: json.RawMessage(long)}, &meta), "1 MiB")
}
