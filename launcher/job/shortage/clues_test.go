package shortage

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func TestCluesAreFoundHoweverASettingIsWritten(t *testing.T) {
	for line, want := range map[string]string{
		"Error executing job with overrides: ['data.n=1024', 'x=1']": "1024",
		`{"data.n": 512, "x": 1}`:                                    "512",
		"    data.n: 64 # samples":                                   "64",
		"python main.py +data.n=32 \\":                               "32",
		"python main.py ++data.n=32":                                 "32",
		"python main.py --data.n 16 --x":                             "16",
		"--data.n=8":                                                 "8",
		"[rank0]: Namespace(data.n=4, x='a')":                        "4",
		"data.n='a b'":                                               "a",
		"data.n=":                                                    "",
		"other.data.n=3":                                             "",
		"the data.n is 5":                                            "",
		"data.n: \x1b[1m":                                            "",
		"data.nn=3":                                                  "",
		"{'data.n': True}":                                           "True",
		fmt.Sprintf("data.n=%0*d", maxValue+1, 0):                    "",
		"step 1\rstep 2 data.n=2\rstep 3 loss: 2.3":                  "2",
	} {
		c := NewClues([]string{"data.n"}, nil)
		c.Write([]byte("x\n" + line))
		c.Close()
		clue, ok := c.Found("data.n")
		if clue.Value != want || ok != (want != "") || (ok && clue.Line != 2) {
			t.Errorf("%q: %+v, want %q", line, clue, want)
		}
	}
}

func TestOptionsAreFoundWithDashes(t *testing.T) {
	c := NewClues([]string{"batch_size"}, nil)
	c.Write([]byte("+ python train.py --batch-size 32 --lr 1e-4\n"))
	if clue, _ := c.Found("batch_size"); clue.Value != "32" {
		t.Errorf("%+v", clue)
	}
}

func TestWordsAreFoundInThePathsOfTracebacks(t *testing.T) {
	c := NewClues(nil, []string{"verl", "naics", "swarm"})
	c.Write([]byte("  File \"/srv/verl/trainer/main_ppo.py\", line 64, in main\n  File \"/srv/naics_embedder/cli.py\", line 1\nverl swarm /swarm/\n" +
		"  File \"/srv/verlag/swarming.py\", line 1\n"))
	if c.Path("verl") != "/srv/verl/trainer/main_ppo.py" || c.Path("naics") != "/srv/naics_embedder/cli.py" || c.Path("swarm") != "" {
		t.Errorf("%v", c.words)
	}
}

func FuzzClues(f *testing.F) {
	for _, data := range samples(f, "shortages.txtar") {
		f.Add(data)
	}
	f.Add([]byte("data.n=1 --data-n 3 'data.n': 5"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := NewClues([]string{"data.n", "data_n", "loss"}, []string{"verl"})
		c.Write(data)
		c.Close()
		if len(c.keys) != 3 || len(c.words) != 1 {
			t.Error("holds what wasn't asked for")
		}
		for key, clue := range c.keys {
			if len(clue.Value) > 3*maxValue || plain([]byte(clue.Value)) != clue.Value {
				t.Errorf("%s: %q", key, clue.Value)
			}
		}
	})
}

func TestCluesDoNotDependOnHowTheBytesAreWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOf(rapid.SampledFrom([]byte("data.n=1 :'-\n\r"))).Draw(t, "data")
		whole, parts := NewClues([]string{"data.n", "n"}, nil), NewClues([]string{"data.n", "n"}, nil)
		whole.Write(data)
		for i := range data {
			parts.Write(data[i : i+1])
		}
		whole.Close()
		parts.Close()
		for _, key := range []string{"data.n", "n"} {
			a, _ := whole.Found(key)
			b, _ := parts.Found(key)
			if a != b {
				t.Fatalf("%+v, in parts %+v", a, b)
			}
		}
	})
}
