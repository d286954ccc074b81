package hub

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/sapo-swarm/swarm/internal/powercut"
	"github.com/sapo-swarm/swarm/node/model/hub/hubtest"
)

func TestMain(m *testing.M) {
	powercut.Serve()
	os.Exit(m.Run())
}

// A pulled model is complete in the cache after any power cut. After a cut during a pull, the model is complete or
// absent, and a new pull succeeds.
func TestPowerCutKeepsWhatWasPulled(t *testing.T) {
	mounted := powercut.Mount(t)
	files := testFiles()
	hub := hubtest.New(t, testID, files)
	c := testClient(t, hub.URL)
	c.Cache = filepath.Join(mounted.Dir, "huggingface", "hub")
	result, err := c.Pull(t.Context(), testID, Main, accept)
	if err != nil {
		t.Fatal(err)
	}
	pulled := mounted.Now(t)
	mounted.Log(t).Try(t, powercut.Trial{At: []int{pulled, pulled, pulled, pulled}, Random: 60, Seed: 23}, func(t *testing.T, n int, dir string) {
		cache := filepath.Join(dir, "huggingface", "hub")
		whole := func() error {
			path, err := Snapshot(cache, testID, Main)
			if err != nil {
				return err
			}
			for _, name := range result.Files {
				if got, err := os.ReadFile(filepath.Join(path, name)); err != nil || !bytes.Equal(got, files[name]) {
					t.Errorf("%s: %d bytes, %v", name, len(got), err)
				}
			}
			return nil
		}
		if err := whole(); err != nil && (n == pulled || !errors.Is(err, fs.ErrNotExist)) {
			t.Error(err)
		}
		again := testClient(t, hub.URL)
		again.Cache = cache
		if _, err := again.Pull(t.Context(), testID, Main, accept); err != nil {
			t.Error(err)
		}
		if err := whole(); err != nil {
			t.Error(err)
		}
	})
}
