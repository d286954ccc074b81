package screen

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/table"
)

func TestAPipeHasNoWidthUnlessCOLUMNSSaysSo(t *testing.T) {
	var pipe bytes.Buffer
	for _, c := range []struct {
		environ []string
		want    table.Screen
	}{
		{nil, table.Screen{}},
		{[]string{"COLUMNS=72"}, table.Screen{Width: 72}},
		{[]string{"COLUMNS=0"}, table.Screen{}},
		{[]string{"COLUMNS=wide"}, table.Screen{}},
		{[]string{"LC_ALL=C"}, table.Screen{ASCII: true}},
	} {
		require.Equal(t, c.want, Of(&pipe, c.environ), "%q", c.environ)
	}
}
