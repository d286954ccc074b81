package attempt_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/launcher/job/attempt"
)

var values = map[string]string{
	"batch_size": "16", "accumulate": "4", "effective_batch": "64", "gradient_checkpointing": "",
	"offload": "a.offload=true b.offload=true", "device": "cuda:0", "gpu": "3",
}

func TestTemplatesAreExpanded(t *testing.T) {
	for _, c := range []struct {
		name      string
		args, out []string
		has       string // places, sorted
	}{
		{"no place", []string{"train.py", "--x"}, []string{"train.py", "--x"}, ""},
		{"several in one argument", []string{"b={batch_size},a={accumulate},e={effective_batch}"}, []string{"b=16,a=4,e=64"}, "accumulate batch_size effective_batch"},
		{"device and GPU", []string{"--device={device}", "{gpu}"}, []string{"--device=cuda:0", "3"}, "device gpu"},
		{"an empty text alone is dropped", []string{"a", "{gradient_checkpointing}", "b"}, []string{"a", "b"}, "gradient_checkpointing"},
		{"within an argument it is not", []string{"--gc={gradient_checkpointing}"}, []string{"--gc="}, "gradient_checkpointing"},
		{"a text of two words alone is two arguments", []string{"{offload}", "z"}, []string{"a.offload=true", "b.offload=true", "z"}, "offload"},
		{"an empty argument of the user's stays", []string{""}, []string{""}, ""},
		{"JSON stays", []string{`{"train": {"bs": 4, "x": {}}}`}, []string{`{"train": {"bs": 4, "x": {}}}`}, ""},
		{"a place in JSON", []string{`{"train": {"bs": {batch_size}}}`}, []string{`{"train": {"bs": 16}}`}, "batch_size"},
		{"what others write in braces stays", []string{"{epoch}-{val_loss:.2f}", "${oc.env:HOME}", "${batch_size}", "{{.Name}}", "{{ x }}", "{a,b}", "{}"},
			[]string{"{epoch}-{val_loss:.2f}", "${oc.env:HOME}", "${batch_size}", "{{.Name}}", "{{ x }}", "{a,b}", "{}"}, ""},
		{"two braces are one", []string{"{{batch_size}} {{{batch_size}}} {{{{batch_size}}}}"}, []string{"{batch_size} {16} {{batch_size}}"}, "batch_size"},
		{"two braces alone are no place", []string{"{{batch_size}}", "{{offload}}"}, []string{"{batch_size}", "{offload}"}, ""},
		{"two braces around a slip", []string{"{{batchsize}}"}, []string{"{batchsize}"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			template, err := attempt.Parse(c.args)
			if err != nil {
				t.Fatal(err)
			}
			var has []string
			for name := range values {
				if template.Has(name) {
					has = append(has, name)
				}
			}
			slices.Sort(has)
			out, err := template.Expand(values)
			if err != nil || !slices.Equal(out, c.out) || strings.Join(has, " ") != c.has {
				t.Errorf("%q with places %q, %v; want %q with %q", out, has, err, c.out, c.has)
			}
		})
	}
}

func TestASlipInAPlaceIsNamed(t *testing.T) {
	for slip, want := range map[string]string{
		"{batchsize}": "{batch_size}", "{Batch_Size}": "{batch_size}", "x={batch-size}": "{batch_size}", "{bacth_size}": "{batch_size}", "{batch}": "{batch_size}",
		"{acumulate}": "{accumulate}", "{gradient_accumulation_steps}": "{accumulate}", "{gradient_checkpoint}": "", "{gradient_checkpointin}": "{gradient_checkpointing}",
		"{offlod}": "{offload}", "{GPU}": "{gpu}", "{step}": "", "{model}": "", "{size}": "", "{name}": "",
	} {
		_, err := attempt.Parse([]string{"ok", slip})
		var bad *configs.Error
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v; it is somebody else's", slip, err)
		case want != "" && (!errors.As(err, &bad) || !strings.Contains(err.Error(), "mean "+want)):
			t.Errorf("%s: %v; want %s proposed", slip, err, want)
		}
	}
}

func TestAValueThatIsMissingIsAnError(t *testing.T) {
	template, err := attempt.Parse([]string{"{gpu}"})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := template.Expand(nil); err == nil {
		t.Errorf("%q", out)
	}
}

func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{"{batch_size}", "{{batch_size}}}", "{", "}}}{{{", "${gpu}", "{offload}", "{batch", "é{accumulate}\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		template, err := attempt.Parse([]string{arg})
		if err != nil {
			if !strings.Contains(err.Error(), "Try: ") {
				t.Errorf("no remedy: %v", err)
			}
			return
		}
		out, err := template.Expand(values)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.ContainsAny(arg, "{") && !slices.Equal(out, []string{arg}) {
			t.Errorf("%q became %q", arg, out)
		}
	})
}

func TestTextWithoutPlacesIsKeptByteForByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		args := rapid.SliceOf(rapid.StringMatching(`([xyz0-9{}"$: ]|\{step\}|\{\{x\}\})*`)).Draw(t, "args")
		template, err := attempt.Parse(args)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := template.Expand(values); err != nil || !slices.Equal(out, args) {
			t.Fatalf("%q became %q, %v", args, out, err)
		}
	})
}

func TestEnvironment(t *testing.T) {
	base := []string{"A=1", "CUDA_VISIBLE_DEVICES=5,6", "B="}
	for _, c := range []struct {
		name       string
		base       []string
		device     attempt.Device
		extra      []string
		want, none []string
	}{
		{"a GPU by its index", base, attempt.Device{Index: 2, UUID: "GPU-x"}, nil,
			[]string{"A=1", "B=", "CUDA_VISIBLE_DEVICES=2", "CUDA_DEVICE_ORDER=PCI_BUS_ID", "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512"}, []string{"CUDA_VISIBLE_DEVICES=5,6"}},
		{"a GPU whose index is unknown", base, attempt.Device{Index: -1, UUID: "GPU-x"}, nil, []string{"CUDA_VISIBLE_DEVICES=GPU-x"}, nil},
		{"a MIG instance by its UUID", base, attempt.Device{Index: 2, UUID: "MIG-x"}, nil, []string{"CUDA_VISIBLE_DEVICES=MIG-x"}, nil},
		{"the CPU", base, attempt.Device{CPU: true, Index: 2}, nil, []string{"CUDA_VISIBLE_DEVICES="}, []string{"PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512"}},
		{"the user's allocator", []string{"PYTORCH_CUDA_ALLOC_CONF=x:1"}, attempt.Device{}, nil, []string{"PYTORCH_CUDA_ALLOC_CONF=x:1"}, []string{"PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512"}},
		{"the user's allocator by its new name", []string{"PYTORCH_ALLOC_CONF=x:1"}, attempt.Device{}, nil, nil, []string{"PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512"}},
		{"extra comes last", base, attempt.Device{}, []string{"A=2", "CUDA_DEVICE_ORDER=FASTEST_FIRST"}, []string{"A=2", "CUDA_DEVICE_ORDER=FASTEST_FIRST"}, []string{"A=1"}},
	} {
		got := attempt.Environment(c.base, c.device, c.extra...)
		for _, entry := range c.want {
			if !slices.Contains(got, entry) {
				t.Errorf("%s: no %s in %q", c.name, entry, got)
			}
		}
		for _, entry := range c.none {
			if slices.Contains(got, entry) {
				t.Errorf("%s: %s in %q", c.name, entry, got)
			}
		}
	}
	if !slices.Equal(base, []string{"A=1", "CUDA_VISIBLE_DEVICES=5,6", "B="}) {
		t.Errorf("base was changed: %q", base)
	}
	if got := attempt.Unbuffered([]string{"A=1"}); !slices.Contains(got, "PYTHONUNBUFFERED=1") {
		t.Errorf("%q", got)
	}
	if got := attempt.Unbuffered([]string{"PYTHONUNBUFFERED="}); !slices.Equal(got, []string{"PYTHONUNBUFFERED="}) {
		t.Errorf("the user's own is gone: %q", got)
	}
}
