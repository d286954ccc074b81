package settings

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
)

// lengthAt returns a profile with a length at these places (a YAML list).
func lengthAt(t testing.TB, places string) configs.Workload {
	t.Helper()
	w, err := configs.ParseWorkload("p.yaml", []byte("name: p\nvalues:\n  - {name: batch, role: batch, start: 1}\n"+
		"  - {name: length, start: 1024, place: "+places+"}\n  - {name: half, start: false, place: 'c.yaml:half'}\n"))
	require.NoError(t, err)
	return w
}

func TestWorkloadValuesAreReadFromTheFiles(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		place, file string
		want        configs.WorkloadReading
	}{
		"a number":      {"c.yaml:data.length", "data:\n  length: 4096 # tokens\n", configs.WorkloadReading{File: "c.yaml", Line: 2, Text: "4096", Usable: true}},
		"in quotes":     {"c.yaml:data.length", "data: {length: '4096'}\n", configs.WorkloadReading{File: "c.yaml", Line: 1, Text: "4096", Usable: true}},
		"behind alias":  {"c.yaml:data.length", "n: &n 4096\ndata:\n  length: *n\n", configs.WorkloadReading{File: "c.yaml", Line: 1, Text: "4096", Usable: true}},
		"merged":        {"c.yaml:data.length", "b: &b\n  length: 4096\ndata:\n  <<: *b\n", configs.WorkloadReading{File: "c.yaml", Line: 2, Text: "4096", Usable: true}},
		"2nd document":  {"c.yaml:data.length", "a: 1\n---\ndata:\n  length: 4096\n", configs.WorkloadReading{File: "c.yaml", Line: 4, Text: "4096", Usable: true}},
		"both of them":  {"c.yaml:data.length", "data: {length: 1}\n---\ndata: {length: 2}\n", configs.WorkloadReading{Problem: "data.length is given 2 times (c.yaml:1): lines 1, 3: keep one of them"}},
		"interpolation": {"c.yaml:data.length", "data:\n  length: ${model.length}\n", configs.WorkloadReading{File: "c.yaml", Line: 2, Text: "${model.length}", Problem: "c.yaml:2 has ${model.length}, which is not a plain number"}},
		"underscores":   {"c.yaml:data.length", "data:\n  length: 4_096\n", configs.WorkloadReading{File: "c.yaml", Line: 2, Text: "4_096", Usable: true}},
		"below zero":    {"c.yaml:data.length", "data:\n  length: -1\n", configs.WorkloadReading{File: "c.yaml", Line: 2, Text: "-1", Problem: "c.yaml:2 has -1, which is below 0"}},
		"true":          {"c.yaml:data.length", "data:\n  length: true\n", configs.WorkloadReading{File: "c.yaml", Line: 2, Text: "true", Problem: "c.yaml:2 has true, which is not a plain number"}},
		"null":          {"c.yaml:data.length", "data:\n  length:\n", configs.WorkloadReading{File: "c.yaml", Line: 2, Problem: "c.yaml:2 has no value (null)"}},
		"a mapping":     {"c.yaml:data", "data:\n  length: 4096\n", configs.WorkloadReading{Problem: "data is not one value (c.yaml:2): name a key below it: data.length"}},
		"no such key":   {"c.yaml:data.length", "data:\n  lenght: 4096\n", configs.WorkloadReading{Problem: "unknown key data.length (c.yaml): did you mean data.lenght?"}},
		"no file":       {"d.yaml:data.length", "", configs.WorkloadReading{Problem: "d.yaml does not exist"}},
		"not YAML":      {"c.yaml:data.length", "data: [\n", configs.WorkloadReading{Problem: "file is not YAML (c.yaml:1): did not find expected node content"}},
		"places differ": {"[c.yaml:data.a, c.yaml:data.b, d.yaml:data.a]", "data:\n  a: 8\n  b: 16\n", configs.WorkloadReading{File: "c.yaml", Line: 3, Text: "16", Usable: true, Problem: "c.yaml:2 has 8 and c.yaml:3 has 16"}},
		"places agree":  {"'{c,d}.yaml:data.a'", "data:\n  a: 8.0\n", configs.WorkloadReading{File: "c.yaml", Line: 2, Text: "8.0", Usable: true}},
		"computed":      {"c.sh:LENGTH", "export LENGTH=$OTHER\n", configs.WorkloadReading{File: "c.sh", Line: 1, Text: "$OTHER", Problem: "c.sh:1 is computed from other values ($OTHER)"}},
		"an escape":     {"c.yaml:data.length", "data:\n  length: \"\\e[2J\"\n", configs.WorkloadReading{File: "c.yaml", Line: 2, Text: "\uFFFD[2J", Problem: "c.yaml:2 has \uFFFD[2J, which is not a plain number"}},
		"a script":      {"c.sh:data.length", "train \\\n  data.length=4096\n", configs.WorkloadReading{File: "c.sh", Line: 2, Text: "4096", Usable: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := "c.yaml"
			if tt.place[:4] == "c.sh" {
				file = "c.sh"
			}
			if tt.file != "" {
				write(t, filepath.Join(dir, file), tt.file)
			}
			list := ReadWorkload(dir, lengthAt(t, tt.place))
			require.Len(t, list, 2, "one for each value with a place")
			tt.want.Name = "length"
			require.Equal(t, tt.want, list[0])
		})
	}
}

// The reader reads each file of a profile once, and a bounded number of bytes.
func TestReadingAWorkloadIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range maxPlaces - 1 {
		write(t, filepath.Join(dir, fmt.Sprintf("%04d.yaml", i)), "a: 1\n")
	}
	list := ReadWorkload(dir, lengthAt(t, "['*.yaml:a', 'c.yaml:a', 'd.yaml:a']"))
	require.Equal(t, "0000.yaml", list[0].File)
	require.Empty(t, list[1].File)
	require.Contains(t, list[1].Problem, "more than 1000 places")

	r := workloadReader{dir: dir, sources: map[string]opened{}, bytes: 1}
	for _, name := range []string{"0000.yaml", "0001.yaml"} {
		_, _, problem := r.at(Place{File: name, Key: "a", Within: true})
		require.Equal(t, name == "0001.yaml", problem == "0001.yaml is not read: the files that its profile names exceed 64 MiB", problem)
	}
}
