// Package commandline handles the commands that users type: it records them with a run, without their secrets, and
// finds the command that continues a run and the one to type next. It takes the flags of the program's commands from
// its caller, and runs nothing but the program itself again.
package commandline

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Grammar tells how this program reads arguments.
type Grammar struct {
	Flags func(args []string) *pflag.FlagSet // of the command that the arguments name
	Name  func(args []string) string         // that command, such as up; empty where they name none
}

// words tells flags, their values and arguments apart.
func (g Grammar) words(args []string) []typedWord { return typedWords(args, g.Flags(args)) }

// Without returns arguments without flags of these names and their values.
func (g Grammar) Without(args []string, flags ...string) []string {
	return textsOf(withoutFlags(g.words(args), flags...))
}

// typedWord is one word of a command line, after the program's name.
type typedWord struct {
	text   string
	flag   string // the flag that it is, or is the value of; empty: an argument
	inline bool   // of --flag=value: the value is in this word
	value  bool   // of --flag value: it is the value
}

// typedWords tells flags, their values and arguments apart, for a command with these flags.
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

// flagIn names the flag of a word that begins with a dash, and tells whether it needs a value.
func flagIn(w *typedWord, flags *pflag.FlagSet) (name string, takes bool) {
	if long, ok := strings.CutPrefix(w.text, "--"); ok {
		name, _, w.inline = strings.Cut(long, "=")
		f := flags.Lookup(name)
		return name, f != nil && f.NoOptDefVal == ""
	}
	// -vo json, -ojson: the last that counts is the one that takes the rest.
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

// withoutFlags leaves flags of these names out, with their values.
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
