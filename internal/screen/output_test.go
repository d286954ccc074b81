package screen

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func droppedLines(lines int) string { return fmt.Sprintf("%d dropped\n", lines) }

// A writer never waits for the reader. If the reader stops, lines are left out and counted, and what is written later
// follows the notice.
func TestAnOutputLeavesOutWhatItsReaderDoesNotTake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		o := NewOutput(write, droppedLines)
		line := strings.Repeat("x", 1<<10-1) + "\n"
		fmt.Fprint(o, "first\n")
		time.Sleep(time.Second) // the first line is being written
		const more = 10
		for range outputQueue/len(line) + more {
			fmt.Fprint(o, line)
		}
		began := time.Now()
		require.NoError(t, o.Flush())
		require.NoError(t, o.Flush()) // a reader that has stopped is waited for once
		require.Equal(t, outputPatience, time.Since(began))
		got := make(chan string)
		go func() {
			text, _ := io.ReadAll(read)
			got <- string(text)
		}()
		time.Sleep(time.Second)
		fmt.Fprint(o, "last\n")
		require.NoError(t, o.Flush())
		write.Close()
		require.Equal(t, "first\n"+strings.Repeat(line, outputQueue/len(line))+"10 dropped\nlast\n", <-got)
	})
}

// An error reaches the next Write and Flush, so that a command without a reader can end.
func TestAnOutputReportsErrors(t *testing.T) {
	t.Parallel()
	read, write := io.Pipe()
	read.CloseWithError(errors.New("gone"))
	o := NewOutput(write, droppedLines)
	fmt.Fprintln(o, "x")
	require.EqualError(t, Flush(o, io.Discard), "gone")
	_, err := fmt.Fprintln(o, "y")
	require.EqualError(t, err, "gone")
}
