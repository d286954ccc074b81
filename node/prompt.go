package node

import (
	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/node/task"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

// asking builds prompts for a model.
type asking struct {
	config  configs.Config
	tasks   *task.Set // has the examples
	tokens  tokenizer.Tokenizer
	context int // the model's context length in tokens
}

// prompt returns the token ids of an item's question after its examples, in the chat template if the tokenizer has
// one.
func (a asking) prompt(item task.Item) []int {
	system, _ := task.SystemPrompt(a.config.Tasks.SystemPrompt)
	if chat, ok := a.tokens.(tokenizer.Chat); ok {
		return chat.Prompt(system, a.tasks.Turns(item)...)
	}
	return a.tokens.Encode(task.Prompt(system, a.tasks.Turns(item)...))
}

// fits reports whether a prompt leaves space for a full completion.
func (a asking) fits(prompt []int) bool {
	return len(prompt) > 0 && len(prompt) <= a.config.MaxPromptLength &&
		len(prompt)+a.config.MaxCompletionLength <= a.context
}

func (n *Node) asking() asking { return asking{n.Config, n.Tasks, n.Tokens, n.Context} }

func (n *Node) prompt(item task.Item) []int { return n.asking().prompt(item) }

func (n *Node) fits(prompt []int) bool { return n.asking().fits(prompt) }
