package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// hintContexts maps files to the commands that print their hints. Each command must have every flag that occurs in a
// hint without a command. The row with the longest matching prefix counts. For files without a row, any command may
// have the flag.
var hintContexts = []struct{ file, commands string }{
	{"cmd/swarm/cmd_model", "model pull, model list, model show, model save"},
	{"cmd/swarm/prompt", "model prompt"},
	{"launcher/recorded", "eval, model prompt"},
	{"launcher/recorded/find", "model prompt"},
	{"launcher/recorded/save", "model save"},
	{"launcher/recorded/verify", "verify"},
	{"node/evaluate", "eval, model prompt"},
	{"node/evaluate/heldout", "eval"},
	{"node/evaluate/ask", "model prompt"},
	{"node/evaluate/question", "model prompt"},
	{"cmd/swarm/cmd_task", "task list, task sample, task score, task extract"},
	{"cmd/swarm/cmd_workers", "workers"},
	{"cmd/swarm/cmd_generate", "generate slurm, generate kubernetes, generate skypilot, generate compose"},
	{"cmd/swarm/cmd_service", "service install"},
	{"cmd/swarm/service_unit", "up"},
	{"cmd/swarm/join", "join"},
	{"cmd/swarm/compare", "compare"},
	{"cmd/swarm/import", "import"},
	{"launcher/commandline", "resume"},
	{"launcher/coordinator/resume", "up"},
	{"launcher/coordinator", "up, join, sweep"},
	{"launcher/coordinator/alarm", "up, sweep"},
	{"cmd/swarm/run_", "run"},
	{"launcher/runs/down", "down"},
	{"launcher/runs/logs", "logs"},
	{"launcher/runs/overview", "status"},
	{"launcher/runs/prune", "prune"},
	{"launcher/runs/remove", "rm, prune"},
	{"launcher/study", "sweep"},
	{"launcher/study/cost", "plan"},
	{"launcher/study/pilots", "tune"},
	{"cmd/swarm/plan_study", "plan"},
	{"internal/layout", "up, sweep"},
	{"launcher/doctor", "doctor"},
	{"launcher/fit", "up, plan, join, sweep"},
	{"launcher/gpu", "up, plan, join, sweep, run, tune, gpu, doctor, profile"},
	{"launcher/lifecycle/gpuwatch", "gpu"},
	{"launcher/lifecycle/lock", "up, join"},
	{"launcher/lifecycle/stop", "down"},
	{"launcher/notify", "up, sweep"},
	{"launcher/plan", "up, plan, join, sweep"},
	{"launcher/plan/engine", "up, plan, sweep, profile"},
	{"launcher/plan/later", "plan"},
	{"launcher/plan/trainer", "up"},
	{"launcher/targets/write", "generate slurm, generate kubernetes, generate skypilot, generate compose"},
	{"metrics/export/import", "import"},
	{"metrics/export", "export"},
	{"metrics/rlswarm", "import"},
	{"node/task/lines", "task score, task extract"},
	{"launcher/mps", "up, plan, join, sweep"},
	{"launcher/job/", "run"},
	{"launcher/job/diagnose", "doctor"},
	{"launcher/job/end", "down"},
	{"launcher/job/log", "logs"},
	{"launcher/job/record", "compare"},
	{"launcher/job/settings", "tune"},
	{"launcher/launch", "up, join"},
	{"launcher/systemd", "service install"},
	{"launcher/web", "dashboard"},
	{"launcher/workers", "join"},
	{"launcher/workers/admissionoptions", "up"},
	{"launcher/workers/list", "workers"},
	{"launcher/workers/open", "up"},
	{"launcher/job/tune", "tune"},
	{"launcher/job/workload", "tune"},
	{"metrics/report/save", "report"},
	{"metrics/figures/save", "report"},
	{"node/exchange/membership", "join"},
	{"node/exchange/sharedir/uplink", "join"},
	{"node/model/hub/", "model pull"},
}

// sourceHint is a hint as written in a file.
type sourceHint struct{ at, text string }

// Every command and flag in a hint of this tree exists.
func TestHintsOfTheSource(t *testing.T) {
	h := newHintChecker()
	hints := collectHints(t, filepath.Join("..", ".."))
	require.Greater(t, len(hints), 350, "the tree has more hints than were found")
	for _, hint := range hints {
		contexts := h.contexts(t, hint.at)
		if contexts != nil {
			if faults := h.check(hint.text, contexts...); len(faults) > 0 {
				t.Errorf("%s\n  Try: %s\n  %s", hint.at, hint.text, strings.Join(faults, "\n  "))
			}
			continue
		}
		// At least one command must have all flags.
		var least []string
		for i, c := range append(h.all(h.root), h.root) {
			if faults := h.check(hint.text, c); i == 0 || len(faults) < len(least) {
				least = faults
			}
		}
		if len(least) > 0 {
			t.Errorf("%s\n  Try: %s\n  %s", hint.at, hint.text, strings.Join(least, "\n  "))
		}
	}
}

// foreignFlags are other programs' flags that occur in texts of this tree.
var foreignFlags = strings.Fields(`budget check completion config-name config-path dataset fast gpu-reset gres host json logdir man mem new-tokens no-cone no-up only part property query-gpu quick
	shm-size stage bad text version`) // bad, text: variables of the report's style sheet

var flagInText = regexp.MustCompile("(?:^|[\\s`(\"'\\[])--([a-z][a-z0-9_-]+)")

// Every flag in a text of the program or a documentation page is a flag of some command.
func TestFlagsInTextsExist(t *testing.T) {
	h := newHintChecker()
	commands := append(h.all(h.root), h.root)
	flags := 0
	look := func(at, text string) {
		for _, m := range flagInText.FindAllStringSubmatch(text, -1) {
			flags++
			ours := slices.ContainsFunc(commands, func(c *cobra.Command) bool { return flagOf(c, "--"+m[1]) != nil })
			if !ours && !slices.Contains(foreignFlags, m[1]) {
				t.Errorf("%s: no command has a flag --%s", at, m[1])
			}
		}
	}
	root := filepath.Join("..", "..")
	files, packages := parseTree(t, root)
	for _, package_ := range packages {
		for _, file := range package_ {
			ast.Inspect(file, func(n ast.Node) bool {
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
					look(files.Position(l.Pos()).String(), l.Value)
				}
				return true
			})
		}
	}
	for _, page := range pages(t, root) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		look(page, string(text))
	}
	require.Greater(t, flags, 500)
}

func pages(t *testing.T, root string) []string {
	list, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	return append(list, filepath.Join(root, "README.md"), filepath.Join(root, "CHANGELOG.md"), filepath.Join(root, "notebooks-bridge", "README.md"))
}

var commandInText = regexp.MustCompile("(?m)^(?:\\$ |bin/)?swarm .+$|`swarm [^`]+`")

// The program parses every command line in the documentation and in help examples.
func TestCommandLinesParse(t *testing.T) {
	h := newHintChecker()
	lines := 0
	check := func(at, line string) {
		line, _, _ = strings.Cut(strings.Trim(strings.TrimPrefix(strings.TrimPrefix(line, "$ "), "bin/"), "`"), "  #")
		for _, command := range regexp.MustCompile(` (\||&&) `).Split(line, -1) {
			if !strings.HasPrefix(command, "swarm ") {
				continue
			}
			lines++
			command = strings.NewReplacer("\\|", " ", "|", " ").Replace(command) // status|logs means either
			if faults := h.check(command, h.root); len(faults) > 0 {
				t.Errorf("%s\n  %s\n  %s", at, command, strings.Join(faults, "\n  "))
			}
		}
	}
	for _, c := range h.all(h.root) {
		for line := range strings.Lines(c.Example) {
			check(c.CommandPath(), strings.TrimSpace(line))
		}
	}
	for _, page := range pages(t, filepath.Join("..", "..")) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, line := range commandInText.FindAllString(string(text), -1) {
			check(page, line)
		}
	}
	require.Greater(t, lines, 200)
}

// contexts returns the commands that print the hints of a file; nil: unknown.
func (h hintChecker) contexts(t *testing.T, at string) (list []*cobra.Command) {
	best, commands := -1, ""
	for _, row := range hintContexts {
		if strings.HasPrefix(at, row.file) && len(row.file) > best {
			best, commands = len(row.file), row.commands
		}
	}
	if best < 0 {
		name, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(at), "cmd_"), ".go")
		name, _, _ = strings.Cut(name, "_")
		if !strings.HasPrefix(at, "cmd/swarm/cmd_") {
			return nil
		}
		commands = name
	}
	for path := range strings.SplitSeq(commands, ", ") {
		c, err := h.command(path)
		require.NoError(t, err, at)
		list = append(list, c)
	}
	return list
}

func (h hintChecker) all(of *cobra.Command) (list []*cobra.Command) {
	for _, c := range of.Commands() {
		list = append(append(list, c), h.all(c)...)
	}
	return list
}

// collectHints finds the hints in all Go files below root except tests: the second argument of fail.Usage and
// fail.Hint, values called Try, try or Remedy, and text after "Try: ".
func collectHints(t *testing.T, root string) []sourceHint {
	files, byPackage := parseTree(t, root)
	var hints []sourceHint
	for dir, package_ := range byPackage {
		s := hintSource{constants: map[string]string{}}
		for _, file := range package_ {
			s.readConstants(file)
		}
		for _, file := range package_ {
			for _, hint := range s.hints(file) {
				position := files.Position(hint.pos)
				name, err := filepath.Rel(root, filepath.Join(dir, filepath.Base(position.Filename)))
				require.NoError(t, err)
				hints = append(hints, sourceHint{fmt.Sprintf("%s:%d", filepath.ToSlash(name), position.Line), hint.text})
			}
		}
	}
	slices.SortFunc(hints, func(a, b sourceHint) int { return cmp.Compare(a.at, b.at) })
	return slices.Compact(hints)
}

// parseTree parses all Go files below root except tests, by folder.
func parseTree(t *testing.T, root string) (*token.FileSet, map[string][]*ast.File) {
	files := token.NewFileSet()
	byPackage := map[string][]*ast.File{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "testdata"):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		byPackage[filepath.Dir(path)] = append(byPackage[filepath.Dir(path)], file)
		return err
	}))
	return files, byPackage
}

// hintSource reads the texts of one package.
type hintSource struct{ constants map[string]string }

type foundHint struct {
	pos  token.Pos
	text string
}

func (s hintSource) readConstants(file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			for i, name := range spec.Names {
				if i < len(spec.Values) {
					if text := s.text(spec.Values[i]); text != "" && !strings.Contains(text, unknownText) {
						s.constants[name.Name] = text
					}
				}
			}
		}
		return true
	})
}

var formatVerb = regexp.MustCompile(`%[-+# 0]*(\[\d+\])?[\d.*]*[a-zA-Z]`)

// text returns the value of a string expression. Parts unknown in the source become unknownText.
func (s hintSource) text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			return constant.StringVal(constant.MakeFromLiteral(e.Value, e.Kind, 0))
		}
	case *ast.ParenExpr:
		return s.text(e.X)
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return s.text(e.X) + s.text(e.Y)
		}
	case *ast.Ident:
		if text, ok := s.constants[e.Name]; ok {
			return text
		}
	case *ast.CallExpr:
		called, _ := e.Fun.(*ast.SelectorExpr)
		if called == nil {
			break
		}
		switch called.Sel.Name {
		case "CommandPath":
			return "swarm" // and the command from the command line
		case "Sprintf", "Errorf":
			text := formatVerb.ReplaceAllString(s.text(e.Args[0]), unknownText)
			return strings.ReplaceAll(text, "%%", "%")
		}
	}
	return unknownText
}

// hints returns the hints of a file.
func (s hintSource) hints(file *ast.File) (found []foundHint) {
	add := func(e ast.Expr) {
		if text := s.text(e); text != "" && text != unknownText {
			_, after, ok := strings.Cut(text, "Try: ")
			if !ok {
				after = text
			}
			found = append(found, foundHint{e.Pos(), strings.ReplaceAll(after, "%", unknownText)})
		}
	}
	named := func(e ast.Expr) bool {
		switch e := e.(type) {
		case *ast.Ident:
			return slices.Contains([]string{"try", "again", "remedy", "importable", "remedies"}, e.Name)
		case *ast.SelectorExpr:
			return e.Sel.Name == "Try" || e.Sel.Name == "try" || e.Sel.Name == "Remedy"
		}
		return false
	}
	var seen []ast.Node // texts that are part of a hint already found
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && slices.Contains([]string{"Try", "try", "Remedy"}, key.Name) {
				add(n.Value)
				seen = append(seen, n.Value)
			}
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if named(left) && i < len(n.Rhs) {
					add(n.Rhs[i])
					seen = append(seen, n.Rhs[i])
				}
			}
		case *ast.FuncDecl:
			if n.Body != nil && regexp.MustCompile(`(?i)try$|remed|advice|smaller|again`).MatchString(n.Name.Name) {
				ast.Inspect(n.Body, func(in ast.Node) bool {
					if r, ok := in.(*ast.ReturnStmt); ok {
						for _, e := range r.Results {
							add(e)
						}
					}
					return true
				})
			}
		case ast.Expr:
			if slices.Contains(seen, ast.Node(n)) {
				return false
			}
			if call, ok := n.(*ast.CallExpr); ok && isFailure(call) {
				add(call.Args[1])
				seen = append(seen, call.Args[1])
				return true
			}
			switch n.(type) {
			case *ast.BinaryExpr, *ast.BasicLit, *ast.CallExpr:
				if text := s.text(n); strings.Contains(text, "Try: ") {
					add(n)
					return false
				}
			}
		}
		return true
	})
	return found
}

// isFailure tells whether a call is fail.Usage(err, try) or fail.Hint(err, try).
func isFailure(call *ast.CallExpr) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) != 2 {
		return false
	}
	from, ok := selector.X.(*ast.Ident)
	return ok && from.Name == "fail" && (selector.Sel.Name == "Usage" || selector.Sel.Name == "Hint")
}
