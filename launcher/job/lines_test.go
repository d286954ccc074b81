package job

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatIsSaidBeginsOnALineOfItsOwn(t *testing.T) {
	t.Parallel()
	var buffer bytes.Buffer
	l := newLiner(&buffer)
	for _, step := range []struct{ output, after string }{{"", "1\n"}, {"done\n", "1\ndone\n2\n"}, {" 99%|##", "1\ndone\n2\n 99%|##\n3\n"}} {
		buffer2 := buffer.Len()
		_, err := l.Write([]byte(step.output))
		require.NoError(t, err)
		require.Equal(t, len(step.output), buffer.Len()-buffer2)
		l.say(step.after[len(step.after)-2:])
		require.Equal(t, step.after, buffer.String())
	}
}
