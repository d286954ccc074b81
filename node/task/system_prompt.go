package task

import "strings"

// SystemPrompts returns the system prompts by name: the library's five names with our own texts, and none.
func SystemPrompts() map[string]string {
	return map[string]string{
		"DeepSeekZero": "The Assistant answers the User's question. It first reasons between <think> and </think>, " +
			"then writes only the final answer between <answer> and </answer>.",
		"default": "Solve the problem step by step. Then write only the final answer between <answer> and </answer>, " +
			"in the form the question asks for.",
		"simple": "Be accurate and brief. Show your steps, then put the final answer between <answer> and </answer>.",
		"direct": "Write the answer between <answer> and </answer> and nothing else.",
		"chain_of_draft": "Think in steps of at most five words. End with the final answer between <answer> and " +
			"</answer>.",
		"none": "",
	}
}

// SystemPrompt returns the system prompt of that name, and whether it exists.
func SystemPrompt(name string) (string, bool) {
	text, ok := SystemPrompts()[name]
	return text, ok
}

// Prompt returns the text for a model without a chat template: the system prompt if there is one, each solved question
// with its answer on the next line, and the question, with empty lines between them. For turns see Set.Turns.
func Prompt(system string, turns ...string) string {
	var text strings.Builder
	if system != "" {
		text.WriteString(strings.TrimRight(system, "\n") + "\n\n")
	}
	for i, turn := range turns {
		if i > 0 {
			text.WriteString([]string{"\n\n", "\n"}[i%2])
		}
		text.WriteString(turn)
	}
	return text.String()
}
