package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// make install puts the program into PREFIX/bin below DESTDIR and reports if that is not on PATH. make uninstall
// removes it. The program is a stand-in: nothing is built.
func TestMakeInstall(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip(err)
	}
	tree, prefix := t.TempDir(), filepath.Join(t.TempDir(), "my prefix")
	text, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	require.NoError(t, err)
	writeFile(t, filepath.Join(tree, "Makefile"), string(text))
	require.NoError(t, os.Mkdir(filepath.Join(tree, "bin"), 0o755))
	standIn := "#!/bin/sh\nif [ \"$1\" = man ]; then mkdir -p \"$3\" && echo page >\"$3/swarm.1\"; else echo stand-in; fi\n"
	require.NoError(t, os.WriteFile(filepath.Join(tree, "bin", "swarm"), []byte(standIn), 0o755))
	bin, page := filepath.Join(prefix, "bin"), filepath.Join(prefix, "share", "man", "man1", "swarm.1")
	run := func(path string, args ...string) string {
		cmd := exec.Command("make", append([]string{"--no-print-directory", "-C", tree, "-o", "bin/swarm"}, args...)...)
		cmd.Env = append(os.Environ(), "PATH="+path, "MAKEFLAGS=", "MAKELEVEL=")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	path := os.Getenv("PATH")
	require.Equal(t, "Installed "+bin+"/swarm\n"+bin+" is not on PATH: export PATH=\""+bin+":$PATH\"\n", run(path, "install", "PREFIX="+prefix))
	out, err := exec.Command(filepath.Join(bin, "swarm")).Output()
	require.NoError(t, err)
	require.Equal(t, "stand-in\n", string(out))
	require.FileExists(t, page)
	require.Equal(t, "Installed "+bin+"/swarm\n", run(path+":"+bin, "install", "PREFIX="+prefix), "a second time, on PATH")
	require.Equal(t, "Removed "+bin+"/swarm\n", run(path, "uninstall", "PREFIX="+prefix))
	require.NoFileExists(t, filepath.Join(bin, "swarm"))
	require.NoFileExists(t, page)

	stage := t.TempDir()
	require.Contains(t, run(path, "install", "PREFIX=/usr", "DESTDIR="+stage), "Installed "+stage+"/usr/bin/swarm\n")
	require.FileExists(t, filepath.Join(stage, "usr", "bin", "swarm"))
}
