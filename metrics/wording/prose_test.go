package wording_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

func TestACrashedRunSaysThatNobodyRecordedWhy(t *testing.T) {
	x := stats.Status{State: stats.StateCrashed, PID: 9}
	wording.Status(&x)
	require.Equal(t, "the coordinator, process 9, ended without recording why", x.Message)
	failed := stats.Status{State: "failed", Message: "no room"}
	wording.Status(&failed)
	require.Equal(t, "no room", failed.Message)
}

// sentence matches four consecutive words.
var sentence = regexp.MustCompile(`(?:[A-Za-z']{2,}[,:]? ){3}[A-Za-z']{2,}`)

// TestStatsHasNoProse checks that metrics/stats contains no sentences: metrics/wording has the texts of its results.
// Errors and panics address programmers and are exempt.
func TestStatsHasNoProse(t *testing.T) {
	files, err := filepath.Glob("../stats/*.go")
	require.NoError(t, err)
	looked := 0
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.Field:
				return x.Tag == nil
			case *ast.CallExpr:
				if name, ok := x.Fun.(*ast.SelectorExpr); ok && (name.Sel.Name == "Errorf" || name.Sel.Name == "New") {
					return false
				}
				if name, ok := x.Fun.(*ast.Ident); ok && name.Name == "panic" {
					return false
				}
			case *ast.BasicLit:
				if x.Kind == token.STRING {
					looked++
					require.NotRegexp(t, sentence, x.Value, "%s: metrics/wording says that", fset.Position(x.Pos()))
				}
			}
			return true
		})
	}
	require.Greater(t, looked, 100)
}
