package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

// drawn is a generated document with the positions of its numbers.
type drawn struct {
	text    strings.Builder
	numbers []drawnNumber
}

type drawnNumber struct {
	key        string
	start, end int
}

func (d *drawn) number(t *rapid.T, key string) {
	text := rapid.StringMatching(`-?(0|[1-9][0-9]{0,6})(\.[0-9]{1,4})?`).Draw(t, "number")
	quote := rapid.SampledFrom([]string{"", "", "", `"`, "'"}).Draw(t, "quote")
	d.text.WriteString(quote)
	d.numbers = append(d.numbers, drawnNumber{key, d.text.Len(), d.text.Len() + len(text)})
	d.text.WriteString(text + quote)
}

var (
	spaces   = rapid.SampledFrom([]string{" ", "  ", "\t", "      "})
	comments = rapid.SampledFrom([]string{"", "", " # a comment: 12", "  #", " # ünï – {x: 1}", "\t# 45"})
	betweens = rapid.SampledFrom([]string{"", "", "", "\n", "# batch: 45\n", "   \n# x\n"})
	texts    = rapid.SampledFrom([]string{"plain words", "'single ''quoted'' # no comment'", `"double \"quoted\" \t x: 1"`, "[1, {a: 2}, three]",
		"{x: 1, y: [2, 3]}", "~", "true", "été",
		"|\n        block 45\n        # in it\n"})
)

// yamlMap draws a map of numbers, maps and other values.
func (d *drawn) yamlMap(t *rapid.T, prefix string, indent, depth int, end string) {
	for i := range rapid.IntRange(1, 4).Draw(t, "entries") {
		name := rapid.SampledFrom([]string{"a", "batch", "n_negatives", "x-y", "été", "a b", "long_name_of_a_key"}).Draw(t, "name") + fmt.Sprint(i)
		d.text.WriteString(strings.ReplaceAll(betweens.Draw(t, "between"), "\n", end) + strings.Repeat(" ", indent) + name + ":")
		key := strings.TrimPrefix(prefix+"."+name, ".")
		switch rapid.IntRange(0, 3).Draw(t, "what") {
		case 0, 1:
			d.text.WriteString(spaces.Draw(t, "space"))
			d.number(t, key)
			d.text.WriteString(comments.Draw(t, "comment") + end)
		case 2:
			other := texts.Draw(t, "other")
			d.text.WriteString(" " + strings.ReplaceAll(strings.ReplaceAll(other, "        ", strings.Repeat(" ", indent+4)), "\n", end) + end)
		default:
			if depth == 0 {
				d.text.WriteString(" x" + end)
				continue
			}
			d.text.WriteString(comments.Draw(t, "comment") + end)
			d.yamlMap(t, key, indent+rapid.IntRange(1, 4).Draw(t, "indent"), depth-1, end)
		}
	}
}

// flow draws a map in braces, which is both YAML and JSON if strict.
func (d *drawn) flow(t *rapid.T, prefix string, depth int) {
	blank := rapid.SampledFrom([]string{"", " ", "\n", "\n  "})
	d.text.WriteString("{")
	for i := range rapid.IntRange(1, 4).Draw(t, "entries") {
		if i > 0 {
			d.text.WriteString(",")
		}
		name := rapid.SampledFrom([]string{"a", "batch", "été", "a b"}).Draw(t, "name") + fmt.Sprint(i)
		key := strings.TrimPrefix(prefix+"."+name, ".")
		d.text.WriteString(blank.Draw(t, "blank") + `"` + name + `"` + ": ")
		switch rapid.IntRange(0, 3).Draw(t, "what") {
		case 0:
			d.text.WriteString(`"text, \"1\": {"`)
		case 1:
			if depth > 0 {
				d.flow(t, key, depth-1)
				break
			}
			d.text.WriteString(`[1, 2, {"b": null}]`)
		default:
			text := rapid.StringMatching(`-?(0|[1-9][0-9]{0,6})(\.[0-9]{1,4})?`).Draw(t, "number")
			d.numbers = append(d.numbers, drawnNumber{key, d.text.Len(), d.text.Len() + len(text)})
			d.text.WriteString(text)
		}
		d.text.WriteString(blank.Draw(t, "blank"))
	}
	d.text.WriteString("}")
}

func (d *drawn) script(t *rapid.T) {
	for i := range rapid.IntRange(1, 12).Draw(t, "lines") {
		key := rapid.SampledFrom([]string{"data.batch", "NAME", "--lr", "model.lora_r"}).Draw(t, "key") + fmt.Sprint(i)
		before := rapid.SampledFrom([]string{"", "export A=1 ", "python x.py \\\n   ", "echo 'x' && ", "# NAME=12 'quoted\n"}).Draw(t, "before")
		if strings.HasPrefix(before, "export") {
			before = fmt.Sprintf("export A%d=x ", i)
		}
		d.text.WriteString(before + key + "=")
		d.number(t, key)
		d.text.WriteString(rapid.SampledFrom([]string{"\n", " \\\n  last\n", "; true\n", " # was 12\n", " | tee log\n"}).Draw(t, "after"))
	}
}

// TestChangingOneNumberChangesOnlyItsBytes checks generated documents in all formats.
func TestChangingOneNumberChangesOnlyItsBytes(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		var d drawn
		name := rapid.SampledFrom([]string{"a.yaml", "flow.yaml", "a.json", "a.sh"}).Draw(t, "file")
		switch name {
		case "a.yaml":
			d.yamlMap(t, "", 0, 3, rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "line end"))
		case "a.sh":
			d.script(t)
		default:
			d.flow(t, "", 3)
		}
		if len(d.numbers) == 0 {
			return
		}
		old := d.text.String()
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(old), 0o644))
		n := rapid.SampledFrom(d.numbers).Draw(t, "which")
		to := rapid.StringMatching(`-?(0|[1-9][0-9]{0,9})(\.[0-9]{1,4})?`).Draw(t, "to")
		p := Place{File: name, Key: n.key}
		v, err := Get(dir, p)
		require.NoError(t, err, "%s in\n%s", n.key, old)
		require.Equal(t, old[n.start:n.end], v.Text)
		require.True(t, v.Number)
		require.Equal(t, 1+strings.Count(old[:n.start], "\n"), v.Line)
		e, err := Prepare(dir, []Change{{p, to}})
		require.NoError(t, err, "%s in\n%s", n.key, old)
		if to == v.Text {
			require.Empty(t, e.Files())
			return
		}
		want := old[:n.start] + to + old[n.end:]
		require.Equal(t, want, string(e.files[0].content))
		if strings.HasSuffix(name, ".yaml") {
			var tree any
			require.NoError(t, yaml.Unmarshal(e.files[0].content, &tree))
		}
	})
}

// TestAnyTextInAnyPlaceIsWrittenOrRefused checks that the new value reads back as requested, and that nothing else
// changes.
func TestAnyTextInAnyPlaceIsWrittenOrRefused(t *testing.T) {
	dir := copyOf(t)
	places := []Place{{File: "conf/config.yaml", Key: "training.trainer.precision"}, {File: "conf/config.yaml", Key: "experiment.name"},
		{File: "conf/config.yaml", Key: "data_loader.tokenization.padding"}, {File: "conf/config.yaml", Key: "stages[0].name"},
		{File: "ds_config.json", Key: "name"},
		{File: "run_grpo.sh", Key: "NAME"}, {File: "run_grpo.sh", Key: "WANDB_MODE"}, {File: "run_grpo.sh", Key: "algorithm.adv_estimator"},
		{File: "run_grpo.sh", Key: "trainer.note"}, {File: "local.env", Key: "DEVICE"}, {File: "train_settings.py", Key: "device"}}
	awkward := rapid.SampledFrom([]string{"'", `"`, `\`, "#", " #", ": ", ":", "$x", "`",
		"\n", "\r", "\t", "{", "}", "[", ",", "*a", "&a", "!t", "|", ">", "~", "null",
		"true", "-", "é", "\u2028", "\x00", "\x7f", "%", "@", "a", " ", "=", "<<", "\ufeff", "😀"})
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(places).Draw(t, "place")
		to := strings.Join(rapid.SliceOfN(awkward, 1, 5).Draw(t, "parts"), "")
		e, err := Prepare(dir, []Change{{p, to}})
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		if len(e.files) == 0 {
			return
		}
		f := e.files[0]
		again := &source{name: f.name, path: f.path, data: f.content}
		require.NoError(t, again.parse())
		at, err := again.find(p.Key)
		require.NoError(t, err)
		require.Equal(t, to, at.leaf.text)
		before, after := values(f.documents), values(again.documents)
		require.Len(t, after, len(before))
		for i := range before {
			require.Equal(t, before[i].key, after[i].key)
			if after[i].node != at.node {
				require.Equal(t, before[i].node.leaf.text, after[i].node.leaf.text)
			}
		}
	})
}
