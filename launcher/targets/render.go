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

// quoting has the functions that insert values into a template. Templates insert values without them only if they
// are numbers or check has restricted them to letters and digits.
var quoting = template.FuncMap{
	"sh":        shell.Quote,
	"words":     func(words []string) string { return shell.Line(words...) },
	"yaml":      yamlText,
	"compose":   composeText,
	"container": containerText,
	"comment":   comment,
}

var templates = template.Must(template.New("jobs").Option("missingkey=error").Funcs(quoting).ParseFS(sources, "templates/*.tmpl"))

// render returns the text of a file. Templates are named TARGET.FILE.tmpl.
func (s Spec) render(file string) (string, error) {
	var b strings.Builder
	name := s.Target + "." + file + ".tmpl"
	if err := templates.ExecuteTemplate(&b, name, s); err != nil {
		return "", fmt.Errorf("write %s: %w", file, err)
	}
	return b.String(), nil
}

// Join returns the arguments of swarm join that all workers share, except --home and --name. A job waits for its
// coordinator longer than a person would, because nobody watches it.
func (s Spec) Join() []string {
	return append([]string{"--nodes", s.Nodes, "--device", s.Device(), "--wait", "1h"}, s.Args...)
}
