package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// Import is a complete run that another program recorded.
type Import struct {
	Run    Run             // as for StartRun, plus State, Message and Ended
	Format string          // format of the other program's records
	Source string          // location of the records, for display
	Digest string          // of the imported data; equal digests are the same import
	Notes  json.RawMessage // findings, assumptions and omissions; nil means {}
	Rounds []ImportedRound
}

// ImportedRound is one node's round of an Import, with its source.
type ImportedRound struct {
	Node string
	Time float64 // Unix seconds
	event.Round

	RewardSum float64 // as the other program recorded it, sum over Round.Completions; NaN: not a number
	Records   int     // records of the round, including duplicates
	Source    string  // kind of the record that was used
}

// Outcomes of Store.Import.
const (
	ImportNew       = "new"
	ImportUnchanged = "unchanged" // the same data was imported before
	ImportReplaced  = "replaced"  // replaced an older import of the same run
)

// ErrNotImported reports an import under the key of a run that was recorded here.
var ErrNotImported = errors.New("a run with this name was recorded here")

// importedKey marks an import in runs.versions, which readers of older schemas can see.
const importedKey = "imported"

// Imported reports whether the run was recorded by another program or in another home.
func (r Run) Imported() bool {
	var versions map[string]json.RawMessage
	return json.Unmarshal(r.Versions, &versions) == nil && versions[importedKey] != nil
}

// Import writes a run of another program in one transaction. Repeating an import changes nothing. A different import of
// the same run replaces the older one.
func (s *Store) Import(ctx context.Context, x Import) (outcome string, err error) {
	if x.Run.Run == "" || x.Run.Experiment == "" || x.Format == "" || x.Digest == "" || x.Run.State == "" {
		return "", errors.New("import: a run, an experiment, a state, a format and a digest are needed")
	}
	sqlTx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return "", sqlite.Explain(s.path, fmt.Errorf("import %s: %w", x.Run.Run, err))
	}
	defer sqlTx.Rollback() //nolint:errcheck // no effect after a commit
	// The writer's goroutine has its own tables. Only prepared statements are shared, which are immutable.
	own := &tables{db: s.tab.db, slot: s.tab.slot, statements: s.tab.statements, nodes: map[[2]string]bool{}, owners: map[[2]string]string{}, pulse: s.pulse, warn: s.tab.warn}
	tx := &transaction{tables: own, tx: sqlTx, bound: map[string]*sql.Stmt{}, heard: map[[2]string]float64{}}
	outcome, err = tx.replaceImport(ctx, x)
	if err == nil && outcome != ImportUnchanged {
		err = tx.importRun(ctx, x)
	}
	if err == nil {
		err = sqlTx.Commit()
	}
	if err != nil {
		return "", sqlite.Explain(s.path, fmt.Errorf("import %s: %w", x.Run.Run, err))
	}
	return outcome, nil
}

// replaceImport removes an older import of the same run.
func (tx *transaction) replaceImport(ctx context.Context, x Import) (outcome string, err error) {
	var digest sql.NullString
	err = tx.tx.QueryRowContext(ctx, `SELECT digest FROM runs LEFT JOIN imports USING (run) WHERE run = ?`, x.Run.Run).Scan(&digest)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return ImportNew, nil
	case err != nil:
		return "", err
	case !digest.Valid:
		return "", ErrNotImported
	case digest.String == x.Digest:
		return ImportUnchanged, nil
	}
	_, err = tx.tx.ExecContext(ctx, `DELETE FROM runs WHERE run = ?`, x.Run.Run)
	return ImportReplaced, err
}

func (tx *transaction) importRun(ctx context.Context, x Import) error {
	versions, err := json.Marshal(map[string]string{importedKey: x.Format})
	if err != nil {
		return err
	}
	x.Run.Versions = versions
	x.Run.Nodes = max(x.Run.Nodes, len(x.Run.NodeIDs))
	if _, err := insertRun(ctx, tx.tx, x.Run); err != nil {
		return err
	}
	_, err = tx.tx.ExecContext(ctx, `INSERT INTO imports (run, format, source, digest, imported, notes) VALUES (?, ?, ?, ?, ?, ?)`,
		x.Run.Run, x.Format, x.Source, x.Digest, event.Now(), document(x.Notes))
	if err != nil {
		return err
	}
	done := map[string]int{}
	for _, r := range x.Rounds {
		if err := tx.importRound(ctx, x.Run.Run, r); err != nil {
			return fmt.Errorf("round %d of %s: %w", r.Round.Round, r.Node, err)
		}
		done[r.Node]++
	}
	return tx.endImport(x.Run, done)
}

func (tx *transaction) importRound(ctx context.Context, run string, r ImportedRound) error {
	e := event.Event{Type: event.TypeRound, Run: run, Node: r.Node, Time: r.Time, Round: &r.Round}
	if err := check(e); err != nil {
		return err
	}
	if err := tx.apply(e); err != nil {
		return err
	}
	_, err := tx.tx.ExecContext(ctx, `INSERT INTO imported_rounds (run, round, node, reward_sum, completions, records, source)
VALUES (?, ?, ?, ?, ?, ?, ?)`, run, r.Round.Round, r.Node, finite(r.RewardSum), r.Completions, r.Records, r.Source)
	return err
}

// endImport sets the final states of nodes and run. done counts each node's rounds.
func (tx *transaction) endImport(r Run, done map[string]int) error {
	for _, node := range r.NodeIDs {
		state := event.StateStopped
		if done[node] >= r.Rounds {
			state = event.StateDone
		}
		err := tx.apply(event.Event{Type: event.TypeState, Run: r.Run, Node: node, Time: r.Ended, State: state, RoundIndex: done[node]})
		if err != nil {
			return err
		}
	}
	for _, e := range []event.Event{
		{Type: event.TypeRunStarted, Run: r.Run, Time: r.Started, Message: r.Message},
		{Type: event.TypeRunEnded, Run: r.Run, Time: r.Ended, State: event.State(r.State), Message: r.Message},
	} {
		if err := check(e); err != nil {
			return err
		}
		if err := tx.apply(e); err != nil {
			return err
		}
	}
	return tx.touch()
}
