package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// bindsAtStart tells whether a program binds all its functions at start.
func bindsAtStart(t *testing.T, path string) bool {
	t.Helper()
	file, err := elf.Open(path)
	require.NoError(t, err)
	defer file.Close()
	flags, err := file.DynValue(elf.DT_FLAGS)
	require.NoError(t, err)
	flags1, err := file.DynValue(elf.DT_FLAGS_1)
	require.NoError(t, err)
	now, err := file.DynValue(elf.DT_BIND_NOW)
	require.NoError(t, err)
	found := len(now) > 0
	for _, f := range flags {
		found = found || elf.DynFlag(f)&elf.DF_BIND_NOW != 0
	}
	for _, f := range flags1 {
		found = found || elf.DynFlag1(f)&elf.DF_1_NOW != 0
	}
	return found
}

// A program that binds at start crashes on a machine without the driver that provides NVML's functions. The
// Makefile's flag must override a linker that is configured to do so, as with CGO_LDFLAGS.
func TestTheProgramBindsLazily(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("ELF is Linux's")
	}
	for _, tool := range []string{"make", "cc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	program := os.Getenv("SWARM_PROGRAM") // the build for users
	if program == "" {
		program = "/proc/self/exe"
	}
	require.False(t, bindsAtStart(t, program), program)

	makefile, err := exec.Command("make", "-s", "-n", "-B", "-C", "../..", "bin/swarm").Output()
	require.NoError(t, err)
	found := regexp.MustCompile(`-ldflags ".* -extldflags=(\S+)"`).FindSubmatch(makefile)
	require.NotNil(t, found, "%s", makefile)
	dir := t.TempDir()
	source := filepath.Join(dir, "main.c")
	const text = "int nvmlAbsent(void);\nint main(int argc, char **argv) { return argc > 1 ? nvmlAbsent() : 0; }\n"
	require.NoError(t, os.WriteFile(source, []byte(text), 0o600))
	link := func(name string, more ...string) string {
		to := filepath.Join(dir, name)
		args := append([]string{"-o", to, source, "-Wl,--export-dynamic", "-Wl,--unresolved-symbols=ignore-in-object-files", "-Wl,-z,now"}, more...)
		out, err := exec.Command("cc", args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return to
	}
	now, lazy := link("now"), link("lazy", strings.Fields(string(found[1]))...)
	require.True(t, bindsAtStart(t, now))
	require.Error(t, exec.Command(now).Run(), "without the flag it dies")
	require.False(t, bindsAtStart(t, lazy))
	require.NoError(t, exec.Command(lazy).Run())
}
