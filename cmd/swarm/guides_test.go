package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// docs/GUIDES.md: every piece of the guides' advice has a command, and a test that demonstrates it.
func TestGuidesNameTestsThatExist(t *testing.T) {
	page, err := os.ReadFile("../../docs/GUIDES.md")
	require.NoError(t, err)
	rows := guideRows(t, string(page))
	require.Greater(t, len(rows), 100)
	for _, row := range rows {
		require.Len(t, row, 3, "a row has three cells: %s", row)
		for _, cell := range row {
			require.NotEmpty(t, cell, "an empty cell: %s", row)
		}
		named := inlineCode.FindAllStringSubmatch(row[2], -1)
		require.NotEmpty(t, named, "no test: %s", row)
		for _, name := range named {
			require.NoError(t, testExists(name[1]), row)
		}
		require.Empty(t, strings.Trim(inlineCode.ReplaceAllString(row[2], ""), " ,"), "only tests stand in the third cell: %s", row)
	}
}

// The command lines of the user pages parse: commands and flags exist, flag values are valid.
func TestCommandLinesOfTheDocsAreUnderstood(t *testing.T) {
	for _, name := range []string{"GUIDES.md", "RUN.md"} {
		page, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
		require.NoError(t, err)
		lines := commandLines(string(page))
		require.Greater(t, len(lines), 5, name)
		for _, line := range lines {
			require.NoError(t, understood(line), "%s: %s", name, line)
		}
	}
	for _, line := range []string{
		"swarm rum -- true", "swarm run --min-memory 4GB -- true", "swarm run --wait-for-gpu -- true", "swarm tune --devices two", "swarm gpu 0",
	} {
		require.Error(t, understood(line), line)
	}
}

var (
	inlineCode = regexp.MustCompile("`([^`]+)`")
	tableCell  = regexp.MustCompile(`(?:[^|\\]|\\.)+`)
)

// guideRows returns the cells of a page's tables, without headers.
func guideRows(t *testing.T, page string) (rows [][]string) {
	t.Helper()
	inside := false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "|"):
			inside = false
		case strings.HasPrefix(line, "|---"):
			inside = true
		case inside:
			var row []string
			for _, cell := range tableCell.FindAllString(strings.Trim(line, "|"), -1) {
				row = append(row, strings.TrimSpace(strings.ReplaceAll(cell, `\|`, "|")))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// testExists looks up "FOLDER TestName", "FOLDER/test_x.py test_name" or the path of a test script in the tree.
func testExists(reference string) error {
	path, name, named := strings.Cut(reference, " ")
	path = filepath.Join("..", "..", path)
	if !named {
		if filepath.Ext(path) != ".txtar" {
			return &fs.PathError{Op: "no name of a test after", Path: reference, Err: fs.ErrInvalid}
		}
		_, err := os.Stat(path)
		return err
	}
	files, signature := []string{path}, "def "+name+"("
	if filepath.Ext(path) != ".py" {
		files, _ = filepath.Glob(filepath.Join(path, "*_test.go")) // the pattern is valid
		signature = "func " + name + "("
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if bytes.Contains(text, []byte("\n"+signature)) {
			return nil
		}
	}
	return &fs.PathError{Op: "no such test", Path: reference, Err: fs.ErrNotExist}
}

// commandLines returns the commands in a page: in inline code, and at the start of code lines.
func commandLines(page string) (lines []string) {
	code := false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			code = !code
			continue
		}
		if !code {
			for _, found := range inlineCode.FindAllStringSubmatch(line, -1) {
				if strings.HasPrefix(found[1], "swarm ") && !strings.HasPrefix(found[1], "swarm run:") { // "swarm run:" is output, not a command
					lines = append(lines, found[1])
				}
			}
		} else if strings.HasPrefix(line, "swarm ") {
			line, _, _ = strings.Cut(line, " #")
			lines = append(lines, strings.Split(line, " ; ")...)
		}
	}
	return lines
}

// understood parses a command line like the program and runs nothing.
func understood(line string) error {
	root := newRootCommand(&globals{stdout: new(bytes.Buffer), stderr: new(bytes.Buffer), stdin: strings.NewReader("")})
	root.Args = cobra.NoArgs
	cmd, rest, err := root.Find(strings.Fields(line)[1:])
	if err != nil {
		return err
	}
	if len(rest) == 0 && cmd != root {
		return nil // a name alone is a mention
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	args := cmd.Flags().Args()
	if cmd.Args == nil && !strings.Contains(cmd.Use, " ") {
		return cobra.NoArgs(cmd, args) // the command checks its arguments itself when it runs
	}
	return cmd.ValidateArgs(args)
}
