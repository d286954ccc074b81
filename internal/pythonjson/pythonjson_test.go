package pythonjson

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWordsOutsideStrings(t *testing.T) {
	for text, want := range map[string][2]string{
		`{"a": NaN, "b": [Infinity, -Infinity]}`: {`{"a": null, "b": [null, null]}`, `{"a": "NaN", "b": ["Infinity", "-Infinity"]}`},
		`{"NaN": "a \" NaN", "b": NaN}`:          {`{"NaN": "a \" NaN", "b": null}`, `{"NaN": "a \" NaN", "b": "NaN"}`},
		`{"a": "NaN"}`:                           {`{"a": "NaN"}`, `{"a": "NaN"}`},
		`["NaN\`:                                 {`["NaN\`, `["NaN\`},
	} {
		require.Equal(t, want, [2]string{string(Null([]byte(text))), string(Quote([]byte(text)))})
	}
}
