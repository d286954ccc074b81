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

// LosesDefault returns a warning if the model's template has a default system prompt that its prompts lack, else "".
func LosesDefault(c configs.Config, tokens tokenizer.Tokenizer) string {
	system, _ := task.SystemPrompt(c.Tasks.SystemPrompt)
	if chat, ok := tokens.(tokenizer.Chat); !ok || system != "" || !chat.LosesDefault() {
		return ""
	}
	return "the model's chat template has a default system prompt that swarm does not know, so prompts have none. " +
		"Try: another tasks.system_prompt than none"
}

// fits reports whether a prompt leaves space for a full completion.
func (a asking) fits(prompt []int) bool {
	return len(prompt) > 0 && len(prompt) <= a.config.MaxPromptLength &&
		len(prompt)+a.config.MaxCompletionLength <= a.context
}

func (n *Node) asking() asking { return asking{n.Config, n.Tasks, n.Tokens, n.Context} }

func (n *Node) prompt(item task.Item) []int { return n.asking().prompt(item) }

func (n *Node) fits(prompt []int) bool { return n.asking().fits(prompt) }
