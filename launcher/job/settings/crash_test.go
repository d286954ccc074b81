package settings

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/hermetic"
)

// The environment of the test binary that kills itself with SIGKILL at a step.
const (
	dieAt   = "SETTINGS_TEST_DIE_AT"
	dieDir  = "SETTINGS_TEST_DIR"
	dieWhat = "SETTINGS_TEST_WHAT"
)

func TestMain(m *testing.M) {
	if os.Getenv(dieAt) != "" {
		victim()
		return
	}
	os.Exit(hermetic.Main(m))
}

// victim runs one operation and is killed at the given step, counted from 0. It prints the steps before that.
func victim() {
	last, _ := strconv.Atoi(os.Getenv(dieAt))
	step := 0
	reached = func(name string, file int) {
		fmt.Println(name, file)
		if step == last {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		step++
	}
	dir := os.Getenv(dieDir)
	files, state := filepath.Join(dir, "files"), filepath.Join(dir, "state")
	var err error
	switch os.Getenv(dieWhat) {
	case "apply":
		var e *Edition
		if e, err = Prepare(files, negatives("8")); err == nil {
			err = e.Apply(state)
		}
	case "undo":
		_, err = Undo(state, files, false)
	case "loan":
		var l *Loan
		if l, err = Lend(state, files, "a job", []Place{{File: stages, Key: "n_negatives"}}); err == nil {
			for _, to := range []string{"16", "8"} {
				if err == nil {
					err = l.Set(negatives(to))
				}
			}
			if err == nil {
				err = l.Revert()
			}
		}
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// killed runs the victim up to a step. It returns whether the victim was killed there, and the step's name.
func killed(t *testing.T, what, dir string, at int) (bool, string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), dieAt+"="+strconv.Itoa(at), dieDir+"="+dir, dieWhat+"="+what)
	out, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err == nil {
		return false, ""
	}
	require.Equal(t, "signal: killed", err.Error(), string(out))
	return true, lines[len(lines)-1]
}

// negativesIn counts the values in the five files. Each file must be complete.
func negativesIn(t *testing.T, files string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for i := range 5 {
		name := fmt.Sprintf("conf/text_curriculum/%02d_stage.yaml", i+1)
		text := read(t, files, name)
		v, err := Get(files, Place{File: name, Key: "n_negatives"})
		require.NoError(t, err, "a damaged file: %q", text)
		require.Equal(t, fmt.Sprintf("# stage %02d\ncurriculum: text\nn_positives: 32 # of one anchor\nn_negatives: %s\n", i+1, v.Text), text)
		counts[v.Text]++
	}
	return counts
}

// TestAKillBetweenAnyTwoStepsLeavesEachFileOldOrNew also checks that Recover makes all files old or all files new,
// and leaves nothing behind.
func TestAKillBetweenAnyTwoStepsLeavesEachFileOldOrNew(t *testing.T) {
	for _, what := range []string{"apply", "undo", "loan"} {
		t.Run(what, func(t *testing.T) {
			steps := 0
			for ; ; steps++ {
				dir := t.TempDir()
				files, state := filepath.Join(dir, "files"), filepath.Join(dir, "state")
				require.NoError(t, os.CopyFS(files, os.DirFS("testdata")))
				before := snapshot(t, files)
				if what == "undo" {
					apply(t, files, state, negatives("8"))
				}
				dead, step := killed(t, what, dir, steps)
				if !dead {
					break
				}
				negativesIn(t, files)
				_, err := Recover(state)
				require.NoError(t, err)
				require.Empty(t, entries(state, openName), step)
				now := negativesIn(t, files)
				switch {
				case what == "loan":
					require.Equal(t, before, snapshot(t, files), step)
				case what == "apply" && step == "noted 0":
					require.Equal(t, map[string]int{"8": 5}, now, "all was done")
					_, err := Undo(state, files, false)
					require.NoError(t, err)
				case what == "undo":
					_, err := Undo(state, files, false)
					require.NoError(t, err)
				}
				require.Equal(t, before, snapshot(t, files), step)
			}
			require.GreaterOrEqual(t, steps, 5)
			t.Logf("%s was killed at each of %d steps", what, steps)
		})
	}
}

func TestADamagedJournalIsSetAside(t *testing.T) {
	state := t.TempDir()
	require.NoError(t, os.MkdirAll(openFolder(state, 3), 0o700))
	write(t, filepath.Join(openFolder(state, 3), journalName), `{"files": [`)
	restored, err := Recover(state)
	require.NoError(t, err)
	require.Len(t, restored, 1)
	require.Contains(t, restored[0].Left, filepath.Join(state, "damaged-3"))
	restored, err = Recover(state)
	require.NoError(t, err)
	require.Empty(t, restored)
	restored, err = Recover(filepath.Join(state, "none"))
	require.NoError(t, err)
	require.Empty(t, restored)
	require.False(t, exists(filepath.Join(state, "none")), "looking makes nothing")
}
