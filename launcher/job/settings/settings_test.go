package settings

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
)

// copyOf returns a writable copy of testdata.
func copyOf(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata")))
	return dir
}

func read(t testing.TB, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(data)
}

func write(t testing.TB, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

func place(t testing.TB, text string) Place {
	t.Helper()
	p, err := ParsePlace(text)
	require.NoError(t, err)
	return p
}

// one returns the change of one place.
func one(t testing.TB, where, to string) []Change { return []Change{{place(t, where), to}} }

func TestOneValueIsWrittenAndEveryOtherByteStays(t *testing.T) {
	const yaml, json, sh, slurm = "conf/config.yaml:", "ds_config.json:", "run_grpo.sh:", "submit_grpo.slurm:"
	for _, c := range []struct{ place, from, to, before, after string }{
		{yaml + "data_loader.batch_size", "45", "22", "  batch_size: 45      # per", "  batch_size: 22      # per"},
		{yaml + "data_loader.batch_size", "45", "128", "  batch_size: 45      # per", "  batch_size: 128      # per"},
		{yaml + "data_loader.prefetch factor", "2", "4", `"prefetch factor": 2`, `"prefetch factor": 4`},
		{yaml + "training.trainer.accumulate_grad_batches", "5", "10", "batches:   5", "batches:   10"},
		{yaml + "training.trainer.devices", "1", "2", `devices: "1"`, `devices: "2"`},
		{yaml + "training.trainer.precision", "16-mixed", "it's bf16", `'16-mixed'`, `'it''s bf16'`},
		{yaml + "training.learning_rate", "2e-5", "1e-5", "learning_rate: 2e-5", "learning_rate: 1.0e-5"},
		{yaml + "training.warmup_ratio", ".1", "0.05", "ratio: .1", "ratio: 0.05"},
		{yaml + "experiment.name", "two towers", `say "é"`, `"two towers"`, `"say \"é\""`},
		{yaml + "data_loader.tokenization.max_length", "512", "256", "max_length: 512,", "max_length: 256,"},
		{yaml + "data_loader.tokenization.padding", "max_length", "longest", "padding: max_length,", "padding: longest,"},
		{yaml + "data_loader.tokenization.truncation", "true", "False", "truncation: true", "truncation: false"},
		{yaml + "stages[0].n_negatives", "24", "16", "- n_negatives: 24", "- n_negatives: 16"},
		{yaml + "stages.1.n_negatives", "8", "6", "- n_negatives: 8 #", "- n_negatives: 6 #"},
		{yaml + "stages[1].name", "it's the second", "x", "'it''s the second'", "'x'"},
		{yaml + "weights[2]", "0.25", "0.3", "\n  0.25]", "\n  0.3]"},
		{yaml + "tower_a.dropout", "0.2", "0.3", "  dropout: 0.2", "  dropout: 0.3"},
		{yaml + "training.shared.lora_r", "8", "4", "lora_r: 8", "lora_r: 4"},
		{yaml + "rank", "8", "4", "rank: &rank 8", "rank: &rank 4"},
		{yaml + "only_here", "16", "4", "&only_here 16", "&only_here 4"},
		{yaml + "offload", "False", "true", "offload: False", "offload: True"},
		{yaml + "last", "7", "8", "\nlast: 7", "\nlast: 8"},
		{json + "train_micro_batch_size_per_gpu", "32", "16", `per_gpu": 32`, `per_gpu": 16`},
		{json + "gradient_accumulation_steps", "4", "8", `steps" : 4`, `steps" : 8`},
		{json + "zero_optimization.stage", "2", "3", `"stage": 2`, `"stage": 3`},
		{json + "zero_optimization.offload_optimizer.device", "none", "cpu", `"device": "none"`, `"device": "cpu"`},
		{json + "fp16.enabled", "true", "False", `"enabled": true`, `"enabled": false`},
		{json + "optimizer.params.betas[1]", "0.999", "0.95", "0.999]", "0.95]"},
		{json + "optimizer.params.lr", "3e-5", "1e-5", "3e-5", "1e-5"},
		{json + "steps", "100", "50", `"100"`, `"50"`},
		{json + "name", `café "x"`, `a\b`, `"caf\u00e9 \"x\""`, `"a\\b"`},
		{json + "a.b.c", "1", "2", `{"c": 1}`, `{"c": 2}`},
		{"settings.jsonc:batch_size", "64", "32", `"batch_size": 64,`, `"batch_size": 32,`},
		{"settings.jsonc:list[2]", "3", "4", "3,]", "4,]"},
		{sh + "data.train_batch_size", "1024", "512", "    data.train_batch_size=1024", "    data.train_batch_size=512"},
		{sh + "ppo_mini_batch_size", "256", "128", "ppo_mini_batch_size=256", "ppo_mini_batch_size=128"},
		{sh + "actor_rollout_ref.actor.fsdp_config.param_offload", "False", "True", "param_offload=False", "param_offload=True"},
		{sh + "trainer.note", "first try", "second try", "note=first try\"", "note=second try\""},
		{sh + "trainer.n_gpus", "4", "8", "trainer.n_gpus=4 $@", "trainer.n_gpus=8 $@"},
		{sh + "--seed", "17", "18", "--seed 17", "--seed 18"},
		{sh + "--lr", "1e-6", "1e-5", "--lr=1e-6", "--lr=1e-5"},
		{sh + "WANDB_MODE", "offline", "online", `"offline"`, `"online"`},
		{sh + "OMP_NUM_THREADS", "4", "8", "THREADS=4 ", "THREADS=8 "},
		{sh + "NAME", "grpo run", "other", "'grpo run'", "'other'"},
		{sh + "BATCH", "7", "8", "BATCH=7;", "BATCH=8;"},
		{slurm + "#SBATCH --gres", "gpu:4", "gpu:8", "\n#SBATCH --gres=gpu:4", "\n#SBATCH --gres=gpu:8"},
		{slurm + "--gres", "gpu:1", "gpu:2", "srun --gres=gpu:1", "srun --gres=gpu:2"},
		{slurm + "#SBATCH -n", "8", "4", "-n 8", "-n 4"},
		{slurm + "#SBATCH --mem", "64G", "32G", "--mem 64G", "--mem 32G"},
		{"local.env:BATCH_SIZE", "32", "16", "SIZE=32\r\n", "SIZE=16\r\n"},
		{"local.env:DEVICE", "cuda:0", "cuda:1", `"cuda:0"`, `"cuda:1"`},
		{"local.env:EMPTY", "", "x", "EMPTY=\r\n", "EMPTY=x\r\n"},
		{"train_settings.py:batch_size", "12", "6", "batch_size = 12  #", "batch_size = 6  #"},
		{"train_settings.py:compile", "True", "false", "compile = True", "compile = False"},
		{"train_settings.py:device", "cuda", "cpu", "'cuda'", "'cpu'"},
		{"train_settings.py:num_workers", "4", "2", "num_workers=4,", "num_workers=2,"},
		{"trainer.ini:eval.batch_size", "64", "32", "64", "32"},
		{"trainer.ini:workers", "2", "1", "workers = 2", "workers = 1"},
	} {
		t.Run(c.place+"="+c.to, func(t *testing.T) {
			dir := copyOf(t)
			p := place(t, c.place)
			old := read(t, dir, p.File)
			require.Equal(t, 1, strings.Count(old, c.before), "the test's own text")
			v, err := Get(dir, p)
			require.NoError(t, err)
			require.Equal(t, c.from, v.Text)
			e, err := Prepare(dir, []Change{{p, c.to}})
			require.NoError(t, err)
			require.Equal(t, old, read(t, dir, p.File), "Prepare changes nothing")
			require.NoError(t, e.Apply(t.TempDir()))
			require.Equal(t, strings.Replace(old, c.before, c.after, 1), read(t, dir, p.File))
			require.Equal(t, old, read(t, dir, p.File+".backup"))
			line := strings.Count(old[:strings.Index(old, c.before)], "\n") + strings.Count(c.before[:max(0, strings.LastIndex(strings.TrimRight(c.before, "\r\n"), "\n")+1)], "\n") + 1
			require.Equal(t, line, v.Line)
			require.Equal(t, line, e.Files()[0].Edits[0].Line)
		})
	}
}

func TestLineEndsAndByteOrderMarkStay(t *testing.T) {
	for _, name := range []string{"conf/config.yaml:data_loader.batch_size", "ds_config.json:zero_optimization.stage", "run_grpo.sh:data.train_batch_size"} {
		for _, change := range []func(string) string{
			func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
			func(s string) string { return "\xef\xbb\xbf" + s },
			func(s string) string { return strings.TrimRight(s, "\n") },
			func(s string) string { return "\xef\xbb\xbf" + strings.ReplaceAll(s, "\n", "\r\n") + "\r\n\r\n" },
		} {
			dir := copyOf(t)
			p := place(t, name)
			old := change(read(t, dir, p.File))
			write(t, filepath.Join(dir, p.File), old)
			v, err := Get(dir, p)
			require.NoError(t, err)
			e, err := Prepare(dir, []Change{{p, "777"}})
			require.NoError(t, err)
			require.NoError(t, e.Apply(t.TempDir()))
			now := read(t, dir, p.File)
			i := strings.Index(now, "777")
			require.GreaterOrEqual(t, i, 0)
			require.Equal(t, old, now[:i]+v.Text+now[i+3:])
		}
	}
}

func TestWhatCannotBeChangedIsRefusedInOneLine(t *testing.T) {
	const yaml = "conf/config.yaml:"
	for _, c := range []struct{ place, to, want string }{
		{yaml + "data_loader.batch_siz", "1", "unknown key data_loader.batch_siz (conf/config.yaml): did you mean data_loader.batch_size?"},
		{yaml + "model.batch_size", "1", "did you mean data_loader.batch_size?"},
		{yaml + "nothing_like_it", "1", "the file lacks the key nothing_like_it (conf/config.yaml): add it with a value, or name another key"},
		{yaml + "data_loader", "1", "data_loader is not one value (conf/config.yaml:11): name a key below it: data_loader.batch_size, "},
		{yaml + "data_loader.batch_size", "many", `bad data_loader.batch_size "many" (conf/config.yaml:11): allowed: number, as "45" is`},
		{yaml + "data_loader.batch_size", "", `allowed: number, as "45" is`},
		{yaml + "data_loader.batch_size", "0x10", `allowed: number`},
		{yaml + "training.trainer.precision", "16", `allowed: text, as "16-mixed" is`},
		{yaml + "training.trainer.limit", "1", "has no value (null)"},
		{yaml + "training.trainer.strategy", "1", "has no value"},
		{yaml + "tower_b.lora_r", "1", "tower_b.lora_r comes from the anchor &shared (line 25) (conf/config.yaml:33): change training.shared.lora_r (line 26), or give it its own value there"},
		{yaml + "tower_a.lora_r", "1", "comes from the anchor &shared (line 25)"},
		{yaml + "eval_rank", "1", "eval_rank comes from the anchor &rank (line 34) (conf/config.yaml:35): change rank (line 34)"},
		{yaml + "notes", "x", "notes is a block of text"},
		{yaml + "long", "x", "long spans several lines"},
		{yaml + "tagged", "4", "tagged has a tag"},
		{yaml + "date", "2024-01-03", "a date"},
		{yaml + "data_loader.tokenization.padding", "a, b: c", "cannot be written without changing other values"},
		{yaml + "stages[0].name", "x # y", "cannot be written without changing other values"},
		{yaml + "stages[0].name", "x\ny", "plain characters"},
		{yaml + "stages[2].n_negatives", "1", "unknown key"},
		{"ds_config.json:train_batch_size", "32", `allowed: text, as "auto" is`},
		{"ds_config.json:none", "32", "has no value (null)"},
		{"run_grpo.sh:log.every", "5", "log.every is given 2 times (run_grpo.sh:27): line 27: keep one"},
		{"trainer.ini:batch_size", "5", "batch_size is given 2 times (trainer.ini:3): lines 3, 5: keep one"},
		{"run_grpo.sh:MODEL", "x", "MODEL is computed from other values (${MODEL:-Qwen/Qwen2.5-1.5B})"},
		{"run_grpo.sh:EPOCHS", "3", "EPOCHS is computed from other values"},
		{"run_grpo.sh:RATE", "x", "RATE is computed from other values"},
		{"run_grpo.sh:--tag", "x", "--tag is computed from other values"},
		{"run_grpo.sh:trainer.resume", "2", `trainer.resume is followed by other text`},
		{"run_grpo.sh:FLAGS", "x", "the file does not assign FLAGS"},
		{"run_grpo.sh:algorithm.adv_estimator", "$(rm -rf x)", "plain characters"},
		{"run_grpo.sh:algorithm.adv_estimator", "a b", "plain characters"},
		{"run_grpo.sh:WANDB_MODE", "`id`", "plain characters"},
		{"run_grpo.sh:NAME", "a'b", "plain characters"},
		{"submit_grpo.slurm:#SBATCH --gre", "x", "did you mean #SBATCH --gres"},
		{"local.env:GREETING", "hi", "GREETING is followed by other text (there)"},
		{"train_settings.py:gradient_accumulation_steps", "8", "is followed by other text (* 8)"},
		{"missing.yaml:a", "1", `cannot read "missing.yaml": no such file or directory`},
		{"conf:a", "1", "this one is a folder"},
		{"/dev/zero:a", "1", "this one is a device"},
		{"conf/nothing*.yaml:a", "1", "no file matches conf/nothing*.yaml"},
	} {
		t.Run(c.place+"="+c.to, func(t *testing.T) {
			_, err := Prepare("testdata", one(t, c.place, c.to))
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "\n")
			var mistake *configs.Error
			require.ErrorAs(t, err, &mistake)
		})
	}
}

func TestFilesThatAreNotTextAreRefused(t *testing.T) {
	dir := t.TempDir()
	bomb := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'z'; c++ {
		was := string(c - 1)
		bomb += string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat("*"+was+", ", 9), ", ") + "]\n"
	}
	for name, c := range map[string]struct{ content, want string }{
		"nul.yaml":    {"a: 1\x00", "UTF-8 text"},
		"latin.yaml":  {"a: caf\xe9", "UTF-8 text"},
		"utf16.json":  {"\xff\xfe{\x00}\x00", "UTF-8 text"},
		"large.yaml":  {"a: 1\n#" + strings.Repeat("x", 4<<20), "at most 4 MiB"},
		"broken.yaml": {"b: 2\na: [1, 2\n", "file is not YAML (broken.yaml:"},
		"tabs.yaml":   {"b:\n\ta: 1\n", "file is not YAML (tabs.yaml:2)"},
		"broken.json": {"{\n \"a\": 1\n \"b\": 2}", "file is not JSON (broken.json:3): \"\\\"\" where a comma or } should be"},
		"deep.json":   {strings.Repeat("[", 1<<20), "more than 1000 nested levels"},
		"deep.yaml":   {strings.Repeat("[", 1<<20), "file is not YAML"},
		"twice.yaml":  {"a: 1\nb: 2\na: 3\n", "a is given 2 times (twice.yaml:1): lines 1, 3"},
		"way.yaml":    {"b: {a: 1}\nb: {c: 2}\n", "unknown key a"},
		"docs.yaml":   {"a: 1\n---\na: 2\n", "a is given 2 times (docs.yaml:1): lines 1, 3"},
		"bomb.yaml":   {bomb, "a is not one value"},
		"nothing.env": {"", "the file does not assign a (nothing.env): add a=VALUE to it. Only .yaml, .yml, .json and .jsonc files"},
		"none.yaml":   {"", "the file lacks the key a (none.yaml): add it"},
		"none.json":   {"", "the file ends where a value should be"},
	} {
		t.Run(name, func(t *testing.T) {
			write(t, filepath.Join(dir, name), c.content)
			_, err := Prepare(dir, one(t, name+":a", "7"))
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
	_, err := Prepare(dir, one(t, "way.yaml:b.c", "7"))
	require.ErrorContains(t, err, "a key above b.c is given twice")
}

func TestAValueThatOthersFollowSaysSo(t *testing.T) {
	dir := copyOf(t)
	for key, want := range map[string][]int{
		"rank":                    {35},
		"training.shared.lora_r":  {31, 33},
		"training.shared.dropout": {33}, // tower_a has its own value
		"only_here":               nil,
		"last":                    nil,
	} {
		e, err := Prepare(dir, one(t, "conf/config.yaml:"+key, "3"))
		require.NoError(t, err)
		require.Equal(t, want, e.Files()[0].Edits[0].Follows, key)
	}
}

func TestAChangeOfWhatIsThereAlreadyIsNone(t *testing.T) {
	dir := copyOf(t)
	e, err := Prepare(dir, one(t, "conf/config.yaml:data_loader.batch_size", "45"))
	require.NoError(t, err)
	require.Empty(t, e.Files())
	require.Empty(t, e.Diff())
	require.NoError(t, e.Apply(filepath.Join(dir, "state")))
	require.False(t, exists(filepath.Join(dir, "conf", "config.yaml.backup")))
}

func TestBracesAndGlobsNameSeveralFiles(t *testing.T) {
	dir := copyOf(t)
	for pattern, want := range map[string]int{"conf/text_curriculum/{01,02,03}_stage.yaml": 3, "conf/text_curriculum/0[2-5]_stage.yaml": 4, "conf/text_curriculum/*.yaml": 5,
		"conf/{text_curriculum/{01,02}_stage,text_curriculum/03_stage}.yaml": 3} {
		places, err := Expand(dir, Place{File: pattern, Key: "n_negatives"})
		require.NoError(t, err)
		require.Len(t, places, want)
		e, err := Prepare(dir, []Change{{Place{File: pattern, Key: "n_negatives"}, "8"}})
		require.NoError(t, err)
		require.Len(t, e.Files(), want)
	}
	write(t, filepath.Join(dir, "a{b}[c].yaml"), "a: 1\n")
	e, err := Prepare(dir, one(t, "a{b}[c].yaml:a", "2"))
	require.NoError(t, err, "a name with brackets of its own")
	require.Len(t, e.Files(), 1)
	_, err = Expand(dir, Place{File: strings.Repeat("{a,b}", 30), Key: "x"})
	require.ErrorContains(t, err, "at most 1000 files")
}

func TestTwoChangesOfOneValueMustAgree(t *testing.T) {
	dir := copyOf(t)
	require.NoError(t, os.Symlink("conf/config.yaml", filepath.Join(dir, "link.yaml")))
	changes := append(one(t, "conf/config.yaml:last", "8"), one(t, "link.yaml:last", "8")...)
	e, err := Prepare(dir, changes)
	require.NoError(t, err)
	require.Len(t, e.Files(), 1)
	_, err = Prepare(dir, append(changes, one(t, "conf/../conf/config.yaml:last", "9")...))
	require.ErrorContains(t, err, "one value; 8 is requested, too")
}

func TestAProfileCannotNameAFileOutside(t *testing.T) {
	dir := copyOf(t)
	inner := filepath.Join(dir, "conf")
	require.NoError(t, os.Symlink("../ds_config.json", filepath.Join(inner, "out.json")))
	for _, file := range []string{"../ds_config.json", filepath.Join(dir, "ds_config.json"), "out.json", "text_curriculum/../../ds_config.json", "../*.json", "o*.json"} {
		p := Place{File: file, Key: "gradient_accumulation_steps"}
		_, err := Prepare(inner, []Change{{p, "1"}})
		require.NoError(t, err, "the user may: %s", file)
		p.Within = true
		_, err = Prepare(inner, []Change{{p, "1"}})
		require.ErrorContains(t, err, "bad file", file)
		_, err = Get(inner, p)
		require.ErrorContains(t, err, "bad file", file)
	}
	_, err := Get(inner, Place{File: "config.yaml", Key: "last", Within: true})
	require.NoError(t, err)
}

func TestPlacesAndSettingsAreRead(t *testing.T) {
	for text, want := range map[string]Place{
		"a.yaml:b":                     {File: "a.yaml", Key: "b"},
		"/x/a:b.yaml:c.d[0]":           {File: "/x/a:b.yaml", Key: "c.d[0]"},
		"s.slurm:#SBATCH --gres":       {File: "s.slurm", Key: "#SBATCH --gres"},
		"out/lr=0.1/a.yaml:batch_size": {File: "out/lr=0.1/a.yaml", Key: "batch_size"},
	} {
		p, err := ParsePlace(text)
		require.NoError(t, err)
		require.Equal(t, want, p)
		p, value, err := ParseSetting(text + "=a={batch_size}:b")
		require.NoError(t, err)
		require.Equal(t, want, p)
		require.Equal(t, "a={batch_size}:b", value)
	}
	for _, text := range []string{"", ":", "a", "a:", ":b", "a:b/c", "a: b", "a:b\n", "a\x1b:b"} {
		_, err := ParsePlace(text)
		var mistake *configs.Error
		require.True(t, errors.As(err, &mistake), text)
	}
}

func TestTheDiffIsWhatPatchTakes(t *testing.T) {
	dir, other := copyOf(t), copyOf(t)
	changes := append(one(t, "conf/config.yaml:data_loader.batch_size", "22"), one(t, "conf/config.yaml:data_loader.num_workers", "2")...)
	changes = append(changes, one(t, "conf/config.yaml:last", "8")...)
	changes = append(changes, one(t, "local.env:BATCH_SIZE", "8")...)
	e, err := Prepare(dir, changes)
	require.NoError(t, err)
	diff := e.Diff()
	require.Contains(t, diff, "--- conf/config.yaml\n+++ conf/config.yaml\n@@ -8,8 +8,8 @@\n experiment.name: \"two towers\"\n \n data_loader:\n"+
		"-  batch_size: 45      # per GPU; see docs\n-  num_workers: 4\n+  batch_size: 22      # per GPU; see docs\n+  num_workers: 2\n   \"prefetch factor\": 2\n")
	require.Contains(t, diff, "-last: 7\n\\ No newline at end of file\n+last: 8\n\\ No newline at end of file\n")
	require.NoError(t, e.Apply(t.TempDir()))
	patch(t, other, diff)
	for _, file := range []string{"conf/config.yaml", "local.env"} {
		require.True(t, bytes.Equal([]byte(read(t, dir, file)), []byte(read(t, other, file))), file)
	}
}
