// Package commandline handles the commands that users type. It records them with a run, without their secrets, and
// finds the command that continues a run and the one to type next. Its caller provides the flags of the program's
// commands. The only program that it starts is this one.
package commandline

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Grammar describes how this program parses arguments.
type Grammar struct {
	Flags func(args []string) *pflag.FlagSet // of the command that the arguments name
	Name  func(args []string) string         // that command, such as up; empty: none
}

// sweeps reports whether a command makes several runs, and continues and compares them itself.
func (g Grammar) sweeps(args []string) bool {
	name := g.Name(args)
	return name == "sweep" || name == "tune"
}

// words classifies arguments as flags, their values and plain arguments.
func (g Grammar) words(args []string) []typedWord { return typedWords(args, g.Flags(args)) }

// Without returns arguments without the named flags and their values.
func (g Grammar) Without(args []string, flags ...string) []string {
	return textsOf(withoutFlags(g.words(args), flags...))
}

// typedWord is one word of a command line, after the program's name.
type typedWord struct {
	text   string
	flag   string // name of the flag in this word, or whose value it is; empty: a plain argument
	inline bool   // --flag=value: the word contains the value
	value  bool   // --flag value: the word is the value
}

// typedWords classifies arguments as flags, their values and plain arguments, for a command with these flags.
func typedWords(args []string, flags *pflag.FlagSet) []typedWord {
	words := make([]typedWord, len(args))
	for i := 0; i < len(args); i++ {
		words[i].text = args[i]
		if args[i] == "--" {
			for j := i + 1; j < len(args); j++ {
				words[j].text = args[j]
			}
			break
		}
		if len(args[i]) < 2 || args[i][0] != '-' {
			continue
		}
		name, takes := flagIn(&words[i], flags)
		words[i].flag = name
		if takes && !words[i].inline && i+1 < len(args) {
			i++
			words[i] = typedWord{text: args[i], flag: name, value: true}
		}
	}
	return words
}

// flagIn returns the flag of a word that starts with a dash, and whether it needs a value.
func flagIn(w *typedWord, flags *pflag.FlagSet) (name string, takes bool) {
	if long, ok := strings.CutPrefix(w.text, "--"); ok {
		name, _, w.inline = strings.Cut(long, "=")
		f := flags.Lookup(name)
		return name, f != nil && f.NoOptDefVal == ""
	}
	// -vo json, -ojson: the rest of the word is the value of the first flag that needs one.
	for i, letter := range w.text[1:] {
		f := flags.ShorthandLookup(string(letter))
		if f == nil {
			return name, false
		}
		name = f.Name
		if f.NoOptDefVal == "" {
			w.inline = i+2 < len(w.text)
			return name, true
		}
	}
	return name, false
}

// withoutFlags removes the named flags and their values.
func withoutFlags(words []typedWord, names ...string) []typedWord {
	return slices.DeleteFunc(slices.Clone(words), func(w typedWord) bool { return w.flag != "" && slices.Contains(names, w.flag) })
}

func textsOf(words []typedWord) []string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = w.text
	}
	return texts
}
