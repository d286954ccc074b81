package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// unknownText replaces the parts of a hint that are known only at run time: a name, a number, a path.
const unknownText = "¤"

// foreignPrograms are other programs in hints. Flags after them, up to the next comma, are theirs.
var foreignPrograms = strings.Fields("apt-get chmod docker fuser hf iconv ls make nvidia-smi pip python3 ssh sudo systemctl zcat")

// prose are words before the program's name when it isn't a command.
var prose = strings.Fields("of the another")

// hintChecker parses the commands and flags in hints with the program's own parser.
type hintChecker struct{ root *cobra.Command }

func newHintChecker() hintChecker {
	root := newRootCommand(&globals{stdin: strings.NewReader("")})
	root.InitDefaultCompletionCmd() // cobra adds it only on execution
	return hintChecker{root}
}

// command returns the command of a path such as "model save"; empty: the program itself.
func (h hintChecker) command(path string) (*cobra.Command, error) {
	at := h.root
	for word := range strings.FieldsSeq(path) {
		next := subcommand(at, word)
		if next == nil {
			return nil, fmt.Errorf("%s has no command %q", at.CommandPath(), word)
		}
		at = next
	}
	return at, nil
}

func subcommand(cmd *cobra.Command, name string) *cobra.Command {
	for _, c := range cmd.Commands() {
		if c.Name() == name {
			return c
		}
	}
	return nil
}

func flagOf(cmd *cobra.Command, word string) *pflag.Flag {
	cmd.InheritedFlags() // merges the parents' persistent flags
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	name, _, _ := strings.Cut(word, "=")
	if long, ok := strings.CutPrefix(name, "--"); ok {
		return cmd.Flags().Lookup(long)
	}
	return cmd.Flags().ShorthandLookup(strings.TrimPrefix(name, "-"))
}

// forwarded returns the command that receives the arguments after --; nil: another program's.
func (h hintChecker) forwarded(cmd *cobra.Command) *cobra.Command {
	switch cmd.CommandPath() {
	case "swarm service install":
		return subcommand(h.root, "up")
	case "swarm generate slurm", "swarm generate kubernetes", "swarm generate skypilot", "swarm generate compose":
		return subcommand(h.root, "join")
	}
	return nil
}

// check returns a hint's mistakes. Commands begin with swarm. Their flags, up to a comma, a semicolon, a bracket or
// an "or", are parsed as theirs. Other flags belong to the command that prints the hint: each of the contexts must
// have them.
func (h hintChecker) check(hint string, contexts ...*cobra.Command) (faults []string) {
	var command *cobra.Command // nil: the contexts
	var line []string          // the arguments of command
	foreign, path, before := false, false, ""
	end := func() {
		if command != nil && command.HasParent() {
			faults = append(faults, parseFaults(command, line)...)
		}
		command, line, foreign, path = nil, nil, false, false
	}
	words := strings.Fields(hint)
	for i, raw := range words {
		word := strings.TrimRight(strings.Trim(raw, "`'\"(),;:"), ".")
		breaks := strings.ContainsAny(raw[len(raw)-1:], "`,;:)") || strings.HasSuffix(raw, ".") && i < len(words)-1
		if word == "or" || strings.ContainsAny(raw[:1], "(`") {
			end()
		}
		next := ""
		if i+1 < len(words) {
			next = strings.Trim(words[i+1], "`")
		}
		switch {
		case word == "swarm" && !foreign:
			if subcommand(h.root, strings.TrimRight(next, "`,;:).")) != nil || !slices.Contains(prose, before) {
				end()
				command, path = h.root, true
			}
		case path && (word == unknownText || word == "COMMAND" || subcommand(command, word) != nil):
			if command == h.root && subcommand(command, word) == nil {
				end() // the command is known only at run time
				break
			}
			if next := subcommand(command, word); next != nil {
				command = next
				break
			}
			path = false
		case path && command == h.root && !strings.HasPrefix(word, "-"):
			faults = append(faults, fmt.Sprintf("there is no command swarm %s", word))
			end()
		case slices.Contains(foreignPrograms, word) && command == nil:
			foreign = true
		case foreign:
		case word == "--" && command != nil:
			forward := h.forwarded(command)
			if forward != nil && next == "join" {
				forward = subcommand(h.root, next)
			}
			end()
			command, foreign = forward, forward == nil
		case command == nil && strings.HasPrefix(next, "--") && next != "--" && subcommand(h.root, word) != nil:
			command = subcommand(h.root, word)
		case command != nil && command != h.root:
			path = false
			line = append(line, word)
		case len(word) > 1 && word[0] == '-' && word != "--" && word != "--"+unknownText && (word[1] == '-' || word[1] >= 'a'):
			for _, c := range contexts {
				if command == nil && flagOf(c, word) == nil || command != nil && flagOf(command, word) == nil {
					faults = append(faults, fmt.Sprintf("%s has no flag %s", c.CommandPath(), word))
				}
			}
		}
		if breaks {
			end()
		}
		before = word
	}
	end()
	return faults
}

// parseFaults parses a command's arguments like the program. A flag may lack its value, as in prose.
func parseFaults(cmd *cobra.Command, line []string) (faults []string) {
	for i, word := range line {
		if len(word) < 2 || word[0] != '-' || word == "--" || word == "--"+unknownText {
			continue
		}
		f := flagOf(cmd, word)
		if f == nil {
			faults = append(faults, fmt.Sprintf("%s has no flag %s", cmd.CommandPath(), word))
			continue
		}
		_, value, given := strings.Cut(word, "=")
		if !given && f.NoOptDefVal == "" && i+1 < len(line) {
			value, given = line[i+1], true
		}
		if given && value == strings.ToLower(value) && !strings.Contains(value, unknownText) && f.Value.Type() != "string" {
			if err := f.Value.Set(value); err != nil && i+2 >= len(line) {
				faults = append(faults, fmt.Sprintf("%s %s: %v", cmd.CommandPath(), word, err))
			}
		}
	}
	return faults
}

// hintsOf returns the texts after Try: in the program's output.
func hintsOf(text string) (hints []string) {
	for line := range strings.Lines(text) {
		for _, mark := range []string{"Try: "} {
			if _, hint, ok := strings.Cut(line, mark); ok {
				hints = append(hints, strings.TrimSpace(hint))
			}
		}
	}
	return hints
}

// requireHints fails if a command that ran proposes a command or a flag that does not exist.
func requireHints(t testing.TB, args []string, o outcome) {
	t.Helper()
	if !strings.Contains(o.stderr, "Try: ") {
		return
	}
	h := newHintChecker()
	if at := slices.Index(args, "--"); at >= 0 {
		args = args[:at]
	}
	cmd, _, err := h.root.Find(args)
	if err != nil || cmd == nil {
		cmd = h.root
	}
	for _, hint := range hintsOf(o.stderr) {
		faults := h.check(hint, cmd)
		if forward := h.forwarded(cmd); len(faults) > 0 && forward != nil {
			faults = h.check(hint, forward)
		}
		require.Empty(t, faults, "swarm %s: Try: %s", strings.Join(args, " "), hint)
	}
}

// The checker finds mistakes.
func TestHintsAreChecked(t *testing.T) {
	h := newHintChecker()
	up, err := h.command("up")
	require.NoError(t, err)
	gpu, err := h.command("gpu")
	require.NoError(t, err)
	for _, tt := range []struct {
		hint   string
		on     *cobra.Command
		faults string
	}{
		{"swarm up --config 4loc4ext, or another --home", up, ""},
		{"install the NVIDIA driver, or --device cpu", up, ""},
		{"install the NVIDIA driver, or --device cpu", gpu, "swarm gpu has no flag --device"},
		{"install the NVIDIA driver, or swarm up --device cpu", gpu, ""},
		{"swarm list", up, "there is no command swarm list"},
		{"the line that `swarm lift` prints", up, "there is no command swarm lift"},
		{"swarm model show nano, or swarm model lose nano --force", up, "swarm model has no flag --force"},
		{"the same version of swarm on both", up, ""},
		{"swarm up --listen :4222", up, ""},
		{"swarm up --lissten :4222", up, "swarm up has no flag --lissten"},
		{"docker run --shm-size=1g, or --gpus-per-node 1", up, ""},
		{"docker run --shm-size=1g, or --gpus-pernode 1", up, "swarm up has no flag --gpus-pernode"},
		{"swarm service install NAME -- --config 4loc4ext, with -- before the arguments of swarm up", gpu, ""},
		{"swarm service install NAME -- --conf 4loc4ext", gpu, "swarm up has no flag --conf"},
		{"write the invitation to a file, and use join --url-file FILE", gpu, ""},
		{"swarm compare JOB JOB, with -o json", gpu, ""},
		{"swarm compare --top many", gpu, `swarm compare --top: strconv.ParseInt: parsing "many": invalid syntax`},
		{"swarm logs " + unknownText + " -f", gpu, ""},
	} {
		require.Equal(t, tt.faults, strings.Join(h.check(tt.hint, tt.on), "; "), tt.hint)
	}
}
