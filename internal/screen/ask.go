package screen

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
)

// Ask prints a question and reports whether the answer is yes. If ctx ends first, Ask abandons the read: nothing
// can interrupt it, and the program is about to end.
func Ask(ctx context.Context, in io.Reader, out io.Writer, question string) (bool, error) {
	fmt.Fprint(out, question)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n') // end of input means no
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case line := <-answer:
		return line == "y" || line == "yes", nil
	case <-ctx.Done():
		fmt.Fprintln(out)
		return false, context.Cause(ctx)
	}
}
