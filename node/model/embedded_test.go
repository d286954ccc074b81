package model

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/sapo-swarm/swarm/configs"
)

func TestResolveEmbedded(t *testing.T) {
	models := fstest.MapFS{
		"tiny/config.json":       {Data: []byte(tinyConfig)},
		"tiny/model.safetensors": {Data: pack(t, tinyTensors(t, ""))},
		"tiny/README.md":         {Data: []byte("not for the engine")},
	}
	home := t.TempDir()
	var group sync.WaitGroup // nodes that start at the same time
	dirs := make([]string, 8)
	for i := range dirs {
		group.Go(func() {
			var err error
			if dirs[i], err = resolveEmbedded(models, "tiny", home); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	dir := dirs[0]
	if slices.ContainsFunc(dirs, func(d string) bool { return d != dir }) || !strings.HasPrefix(dir, filepath.Join(home, "models", "tiny-")) {
		t.Fatalf("directories %v", dirs)
	}
	if _, err := Inspect(dir); err != nil {
		t.Error(err)
	}
	checkOnly(t, dir, "config.json", "model.safetensors")

	// A truncated or changed file is written again. An equal one is not.
	config := filepath.Join(dir, "config.json")
	before, err := os.Stat(config)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "model.safetensors"), []byte("damaged"))
	if again, err := resolveEmbedded(models, "tiny", home); err != nil || again != dir {
		t.Errorf("again: %s, %v", again, err)
	}
	after, err := os.Stat(config)
	if err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(before, after) {
		t.Error("an intact file was replaced")
	}
	if _, err := Inspect(dir); err != nil {
		t.Errorf("after damage: %v", err)
	}
	checkOnly(t, dir, "config.json", "model.safetensors")

	models["tiny/model.safetensors"] = &fstest.MapFile{Data: []byte("other weights")}
	if other, err := resolveEmbedded(models, "tiny", home); err != nil || other == dir {
		t.Errorf("other weights: %s, %v", other, err)
	}
}

func checkOnly(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s holds %v", dir, got)
	}
}

func TestResolveEmbeddedRefuses(t *testing.T) {
	models := fstest.MapFS{"half/config.json": {Data: []byte(tinyConfig)}}
	for _, test := range []struct{ name, want string }{
		{"half", "built without its model.safetensors. Try: "},
		{"nothing", "built without its config.json. Try: "},
		{"../half", "not an embedded model"},
		{"", "not an embedded model"},
	} {
		if _, err := resolveEmbedded(models, test.name, t.TempDir()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v, want %q", test.name, err, test.want)
		}
	}
	models["half/model.safetensors"] = &fstest.MapFile{}
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, nil)
	if _, err := resolveEmbedded(models, "half", file); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("home is a file: %v", err)
	}
}

// TestEmbeddedModels checks every embedded model like any other model, and against its preset.
func TestEmbeddedModels(t *testing.T) {
	for _, name := range configs.Models() {
		preset, err := configs.LoadModel(name)
		if err != nil {
			t.Fatal(err)
		}
		if preset.Weights != Embedded {
			continue
		}
		dir, err := Resolve(preset, t.TempDir())
		if _, missing := fs.Stat(embeddedModels, name+"/model.safetensors"); errors.Is(missing, fs.ErrNotExist) {
			if err == nil || !strings.Contains(err.Error(), "Try: swarm pretrain") {
				t.Errorf("%s, built without weights: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if shape, err := Inspect(dir); err != nil || shape != preset.Shape {
			t.Errorf("%s: shape %+v, %v; the preset says %+v", name, shape, err, preset.Shape)
		}
		if info, err := os.Stat(filepath.Join(dir, "model.safetensors")); err != nil || info.Size() > 10e6 {
			t.Errorf("%s: %v, %v: more than 10 MB in the program", name, info, err)
		}
	}
}
