package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
)

// Command is the command line that started an attempt, with secrets masked.
type Command struct {
	Folder      string   // working directory
	Arguments   []string // without the program
	Environment []string // NAME=value of the variables that influence the run
}

func insertCommand(ctx context.Context, tx *sql.Tx, run string, attempt int, c Command) error {
	var lists [2]string
	for i, list := range [][]string{c.Arguments, c.Environment} {
		text, err := json.Marshal(append([]string{}, list...))
		if err != nil {
			return fmt.Errorf("encode the command: %w", err)
		}
		lists[i] = string(text)
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO commands (run, attempt, folder, arguments, environment) VALUES (?, ?, ?, ?, ?)`,
		run, attempt, c.Folder, lists[0], lists[1])
	return err
}

// commandOf returns the command of a run's newest attempt, or nil if none is recorded.
func commandOf(ctx context.Context, tx *sql.Tx, run string) (*Command, error) {
	var c Command
	var arguments, environment string
	err := tx.QueryRowContext(ctx, `SELECT folder, arguments, environment FROM commands
WHERE run = ?1 AND attempt = (SELECT attempts FROM runs WHERE run = ?1)`, run).Scan(&c.Folder, &arguments, &environment)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := errors.Join(json.Unmarshal([]byte(arguments), &c.Arguments), json.Unmarshal([]byte(environment), &c.Environment)); err != nil {
		return nil, fmt.Errorf("the command of run %s: %w", run, err)
	}
	return &c, nil
}
