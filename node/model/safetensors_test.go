package model

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestReadHeaderRefuses(t *testing.T) {
	one := func(entry string) []byte { return packed(`{"a":`+entry+`}`, 8) }
	good := one(`{"dtype":"F32","shape":[2],"data_offsets":[0,8]}`)
	if got, err := ReadHeader(bytes.NewReader(good), int64(len(good))); err != nil || got["a"].Elements() != 2 {
		t.Fatalf("a good one: %v, %v", got, err)
	}
	scalar := packed(`{"__metadata__":{"format":"pt"},"a":{"dtype":"I64","shape":[],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[0,3],"data_offsets":[8,8]}}  `, 8)
	if got, err := ReadHeader(bytes.NewReader(scalar), int64(len(scalar))); err != nil || len(got) != 2 || got["a"].Elements() != 1 || got["b"].Elements() != 0 {
		t.Fatalf("a scalar and an empty one: %v, %v", got, err)
	}
	for name, test := range map[string]struct {
		file []byte
		want string
	}{
		"empty":           {nil, "too short"},
		"pickle":          {[]byte("PK\x03\x04 and so on"), "not a safetensors file"},
		"header cut":      {good[:20], "truncated"},
		"data cut":        {good[:len(good)-1], "truncated"},
		"data after":      {append(slices.Clone(good), 0), "1 bytes after"},
		"no object":       {packed(`[]`, 0), "not a JSON object"},
		"no JSON":         {packed(`{"a"}`, 0), "bad header"},
		"no tensor":       {one(`7`), "cannot unmarshal"},
		"type":            {one(`{"dtype":"F31","shape":[2],"data_offsets":[0,8]}`), `unknown type "F31"`},
		"negative":        {one(`{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}`), "dimension -2"},
		"overflow":        {one(`{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}`), "larger than any file"},
		"size":            {one(`{"dtype":"F32","shape":[3],"data_offsets":[0,8]}`), "12 bytes by type and shape"},
		"backwards":       {one(`{"dtype":"F32","shape":[2],"data_offsets":[8,0]}`), "offsets 8 to 0"},
		"negative offset": {one(`{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}`), "offsets -8 to 0"},
		"beyond":          {one(`{"dtype":"F32","shape":[4],"data_offsets":[0,16]}`), "truncated"},
		"hole":            {one(`{"dtype":"F32","shape":[1],"data_offsets":[4,8]}`), "hole at byte 0"},
		"overlap":         {packed(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8), "overlap"},
	} {
		if _, err := ReadHeader(bytes.NewReader(test.file), int64(len(test.file))); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func FuzzReadHeader(f *testing.F) {
	f.Add(pack(f, tinyTensors(f, "")))
	f.Add(packed(`{"__metadata__":{},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8))
	f.Add(packed(`{"a":{"dtype":"U8","shape":[4611686018427387904,4],"data_offsets":[0,0]}}`, 0))
	f.Fuzz(func(t *testing.T, file []byte) {
		tensors, err := ReadHeader(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			return
		}
		total := int64(0)
		for name, tensor := range tensors {
			bytes := tensor.DataOffsets[1] - tensor.DataOffsets[0]
			if bytes < 0 || tensor.DataOffsets[1] > int64(len(file)) || tensor.Elements()*dtypeBytes(tensor.DType) != bytes {
				t.Fatalf("%q: %+v", name, tensor)
			}
			total += bytes
		}
		if total > int64(len(file)) {
			t.Fatalf("tensors of %d bytes in a file of %d", total, len(file))
		}
	})
}
