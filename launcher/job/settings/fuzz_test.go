package settings

import (
	"bytes"
	"os"
	"testing"
)

// fuzzed changes one value of an arbitrary file. The change never panics. If it writes, it changes only that value's
// bytes.
func fuzzed(t *testing.T, name, key, to string, data []byte) {
	s := &source{name: name, path: name, data: data}
	if s.parse() != nil {
		return
	}
	at, err := s.find(key)
	if err != nil {
		return
	}
	out, edits, err := s.edit([]Change{{Place{File: name, Key: key}, to}})
	if err != nil {
		return
	}
	if !bytes.Equal(out[:at.leaf.start], data[:at.leaf.start]) || !bytes.HasSuffix(out, data[at.leaf.end:]) {
		t.Fatalf("%q: other bytes changed: %q", data, out)
	}
	again := &source{name: name, path: name, data: out}
	if err := again.parse(); err != nil {
		t.Fatalf("%q became %q: %v", data, out, err)
	}
	was, is := values(s.documents), values(again.documents)
	if len(was) != len(is) {
		t.Fatalf("%q became %q: %d values, then %d", data, out, len(was), len(is))
	}
	for i := range was {
		if was[i].key != is[i].key || was[i].node != at.node && was[i].node.leaf.text != is[i].node.leaf.text {
			t.Fatalf("%q became %q: %s changed", data, out, was[i].key)
		}
	}
	if len(edits) == 0 && !bytes.Equal(out, data) {
		t.Fatalf("%q became %q without an edit", data, out)
	}
	var b bytes.Buffer
	diff(&b, name, data, out)
	if (b.Len() == 0) != bytes.Equal(out, data) {
		t.Fatalf("%q became %q and the diff is %q", data, out, b.String())
	}
}

func seed(f *testing.F, file string, keys ...string) {
	data, err := os.ReadFile("testdata/" + file)
	if err != nil {
		f.Fatal(err)
	}
	for _, key := range keys {
		f.Add(key, "7", data)
		f.Add(key, "x y", data)
	}
}

func FuzzYAML(f *testing.F) {
	seed(f, "conf/config.yaml", "data_loader.batch_size", "tower_a.lora_r", "stages[1].name", "training.trainer.precision", "last")
	f.Add("a", "1", []byte("a: 1\r\n---\r\n\xc2\x85b: 'x'\xe2\x80\xa8"))
	f.Add("a.b", "True", []byte("\xef\xbb\xbf{a: {b: false}, ? [c] : d}"))
	f.Add("[0]", "x", []byte("- !x y\n- &a b\n- *a\n"))
	f.Fuzz(func(t *testing.T, key, to string, data []byte) { fuzzed(t, "f.yaml", key, to, data) })
}

func FuzzJSON(f *testing.F) {
	seed(f, "ds_config.json", "train_micro_batch_size_per_gpu", "name", "optimizer.params.betas[0]")
	seed(f, "settings.jsonc", "batch_size", "list[1]")
	f.Fuzz(func(t *testing.T, key, to string, data []byte) { fuzzed(t, "f.json", key, to, data) })
}

func FuzzText(f *testing.F) {
	seed(f, "run_grpo.sh", "data.train_batch_size", "NAME", "trainer.note", "--seed")
	seed(f, "submit_grpo.slurm", "#SBATCH --gres", "--gres")
	seed(f, "local.env", "BATCH_SIZE", "DEVICE")
	f.Fuzz(func(t *testing.T, key, to string, data []byte) {
		for _, name := range []string{"f.sh", "f.env", "f.py", "f.ini"} {
			fuzzed(t, name, key, to, data)
		}
	})
}

func FuzzPlace(f *testing.F) {
	f.Add("conf/{a,b}.yaml:x=y")
	f.Fuzz(func(t *testing.T, text string) {
		p, value, err := ParseSetting(text)
		if err == nil && p.String()+"="+value != text {
			t.Fatalf("%q became %v and %q", text, p, value)
		}
		if names, err := braces(p.File); err == nil && (len(names) == 0 || len(names) > maxPlaces) {
			t.Fatalf("%q: %d names", text, len(names))
		}
	})
}

// FuzzJournal checks that a damaged state folder never changes a user's file.
func FuzzJournal(f *testing.F) {
	f.Add([]byte(`{"files":[{"path":"/x","before":"a","wrote":["b"],"kept":"/y"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		state := t.TempDir()
		for _, folder := range []string{openFolder(state, 1), state + "/undo"} {
			if err := os.MkdirAll(folder, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for _, path := range []string{openFolder(state, 1) + "/journal.json", undoFile(state, 2)} {
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Recover(state); err != nil {
			t.Fatal(err)
		}
		if _, err := Undo(state, t.TempDir(), true); err == nil {
			t.Fatal("there was nothing to undo")
		}
	})
}
