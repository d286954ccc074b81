package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/files"
)

// checkSecretOutput refuses to print a requested secret to a file that others can read, or to the system's journal.
// Terminals and pipes are allowed, because they belong to the user.
func checkSecretOutput(stdout io.Writer, what, try string) error {
	file, ok := stdout.(*os.File)
	if !ok || term.IsTerminal(int(file.Fd())) {
		return nil
	}
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("stdout: %w", err)
	}
	switch mode := info.Mode(); {
	case mode&os.ModeNamedPipe != 0, mode&os.ModeCharDevice != 0, mode.IsRegular() && mode.Perm()&0o077 == 0:
		return nil
	}
	return fail.Usage(errors.New(what+" is a secret, and other users may be able to read stdout"), try)
}

// writeSecretFile writes a secret to a file that only its owner can read.
func writeSecretFile(path, text string) error {
	if err := files.WriteSecret(path, []byte(text+"\n")); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}
