// Package schemas checks the files of launcher/targets with their targets' own parsers: Compose's loader and
// Kubernetes' types. It is a separate module, so that swarm does not depend on these parsers. To run it: cd
// launcher/targets/schemas && go test ./...
package schemas

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/launcher/targets"
)

// example returns a valid Spec for the target.
func example(target string) targets.Spec {
	return targets.Spec{
		Target: target, Name: "swarm", Workers: 3, Args: []string{"--model", "gpt2", "--yes"}, Nodes: "auto", GPUs: 1, CPUs: 8, Memory: 32 << 30,
		Invitation: "tls://203.0.113.7:4222?fp=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA#c2VjcmV0LXRva2Vu", Dir: "/home/anna/jobs",
		Program: "/opt/swarm", Image: "registry.example.com/swarm:1", Namespace: "default", Storage: 20 << 30, StorageClass: "fast",
	}
}

// text returns the text of one of the files.
func text(t *testing.T, s targets.Spec, name string) string {
	t.Helper()
	files, err := s.Files()
	require.NoError(t, err)
	for _, f := range files {
		if f.Name == name {
			return f.Text
		}
	}
	t.Fatalf("no file %s for %s", name, s.Target)
	return ""
}

// hostileWords run a command, or end a line or a quote, if they are not quoted.
func hostileWords(t *testing.T) (words []string) {
	t.Helper()
	text, err := os.ReadFile("../testdata/hostile.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &words))
	require.NotEmpty(t, words)
	return words
}
