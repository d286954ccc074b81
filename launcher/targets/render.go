package targets

import (
	"embed"
	"fmt"
	"strings"
	"text/template"

	"github.com/sapo-swarm/swarm/internal/shell"
)

//go:embed templates/*.tmpl
var sources embed.FS

// quoting is how a value gets into a template: none stands there bare but numbers and what check has held to letters
// and digits.
var quoting = template.FuncMap{
	"sh":        shell.Quote,
	"words":     func(words []string) string { return shell.Line(words...) },
	"yaml":      yamlText,
	"compose":   composeText,
	"container": containerText,
	"comment":   comment,
}

var templates = template.Must(template.New("jobs").Option("missingkey=error").Funcs(quoting).ParseFS(sources, "templates/*.tmpl"))

// render is the text of the file of that name. Templates are named by target, where two targets have a file of one
// name.
func (s Spec) render(file string) (string, error) {
	var b strings.Builder
	name := s.Target + "." + file + ".tmpl"
	if err := templates.ExecuteTemplate(&b, name, s); err != nil {
		return "", fmt.Errorf("write %s: %w", file, err)
	}
	return b.String(), nil
}

// Join are the arguments of swarm join that all workers share, but for --home and --name. Nobody watches a job: it
// waits for its coordinator longer than a person does.
func (s Spec) Join() []string {
	return append([]string{"--nodes", s.Nodes, "--device", s.Device(), "--wait", "1h"}, s.Args...)
}
