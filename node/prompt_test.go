package node

import (
	"slices"
	"testing"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/node/task"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

// talking is a tokenizer with a chat template that puts marker tokens around the question.
type talking struct{ tokenizer.Tokenizer }

func (c talking) Prompt(system, question string) []int {
	return slices.Concat([]int{-1}, c.Encode(system), []int{-2}, c.Encode(question), []int{-3})
}

func TestPromptUsesTheChatTemplate(t *testing.T) {
	plain, err := tokenizer.New(tokenizer.NameBytes)
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{Tokens: plain, Config: configs.Config{Tasks: configs.Tasks{SystemPrompt: "direct"}}}
	system, _ := task.SystemPrompt("direct")
	if got, want := n.prompt("1+1"), plain.Encode(system+"\n\n1+1"); !slices.Equal(got, want) {
		t.Errorf("without a template: %v, want %v", got, want)
	}
	n.Tokens = talking{plain}
	if got, want := n.prompt("1+1"), (talking{plain}).Prompt(system, "1+1"); !slices.Equal(got, want) {
		t.Errorf("with a template: %v, want %v", got, want)
	}
}
