//go:build !linux || !amd64

package e2e

import "errors"

var errNoDebugger = errors.New("a pipe is closed from outside by means of amd64's registers")

func canClosePipes(*storm) error { return errNoDebugger }

func closeDescriptor(pid, fd int) error { return errNoDebugger }
