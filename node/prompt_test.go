package node

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/node/task"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

// talking is a tokenizer with a chat template that puts marker tokens around the turns.
type talking struct{ tokenizer.Tokenizer }

var _ tokenizer.Chat = talking{}

func (talking) LosesDefault() bool { return false }

func (c talking) Prompt(system string, turns ...string) []int {
	ids := append([]int{-1}, c.Encode(system)...)
	for _, turn := range turns {
		ids = append(append(ids, -2), c.Encode(turn)...)
	}
	return append(ids, -3)
}

func TestPromptUsesTheChatTemplate(t *testing.T) {
	plain := bytesTokenizer(t)
	n := &Node{Tokens: plain, Config: configs.Config{Tasks: configs.Tasks{SystemPrompt: "direct"}}}
	system, _ := task.SystemPrompt("direct")
	question := task.Item{Question: "1+1"}
	require.Equal(t, system+"\n\n1+1", plain.Decode(n.prompt(question)))
	n.Tokens = talking{plain}
	require.Equal(t, talking{plain}.Prompt(system, "1+1"), n.prompt(question))
}

// Examples of the same task precede a question, with and without a chat template, and a peer makes the same prompt.
func TestPromptHasExamples(t *testing.T) {
	c := testConfig(t)
	c.MaxPromptLength = 1000
	c.Tasks.Examples = 2
	n := newNode(t, c, "node_0", nil, nil, newHost("node_0"))
	n.Context = 2000
	groups, err := n.sampleBatch(0, 8)
	require.NoError(t, err)
	for _, g := range groups {
		turns := n.Tasks.Turns(g.item)
		require.Len(t, turns, 5)
		want := fmt.Sprintf("%s\n%s\n\n%s\n%s\n\n%s", turns[0], turns[1], turns[2], turns[3], g.item.Question)
		require.Equal(t, want, n.Tokens.Decode(g.prompt))
		require.Regexp(t, "^<answer>.+</answer>$", turns[1])
		peer := newNode(t, c, "node_1", nil, nil, newHost("node_1"))
		peer.Context = 2000
		taken, err := peer.external(g.item, rollout(g.item, "<answer>1</answer>", "2"))
		require.NoError(t, err)
		require.Equal(t, g.prompt, taken.prompt)
		chat := talking{n.Tokens}
		require.Equal(t, chat.Prompt("", turns...), Prompt(c, n.Tasks, chat, g.item))
	}
}
