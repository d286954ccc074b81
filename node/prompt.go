package node

import (
	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/node/task"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

// asking builds prompts for a model.
type asking struct {
	config  configs.Config
	tokens  tokenizer.Tokenizer
	context int // the model's context length in tokens
}

// prompt returns the token ids of a question, in the chat template if the tokenizer has one.
func (a asking) prompt(question string) []int {
	system, _ := task.SystemPrompt(a.config.Tasks.SystemPrompt)
	if chat, ok := a.tokens.(tokenizer.Chat); ok {
		return chat.Prompt(system, question)
	}
	return a.tokens.Encode(task.Prompt(system, question))
}

// fits reports whether a prompt leaves space for a full completion.
func (a asking) fits(prompt []int) bool {
	return len(prompt) > 0 && len(prompt) <= a.config.MaxPromptLength &&
		len(prompt)+a.config.MaxCompletionLength <= a.context
}

func (n *Node) prompt(question string) []int {
	return asking{n.Config, n.Tokens, n.Context}.prompt(question)
}

func (n *Node) fits(prompt []int) bool { return asking{n.Config, n.Tokens, n.Context}.fits(prompt) }
