package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

const (
	oldEvalSQL    = `SELECT time FROM evals WHERE run = ? AND round = ? AND node = ?`
	deleteEvalSQL = `DELETE FROM evals WHERE run = ? AND round = ? AND node = ?`
	insertEvalSQL = `INSERT INTO evals (run, round, node, time, question_set, questions, generations, temperature, format_rate,
  completions_mean_length, seconds, correct, reward_sum, non_finite) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

var insertQuestions = newInsertion(`INSERT INTO eval_questions (run, round, node, question, task, correct, reward_sum) VALUES`, 4, ``)

// eval writes an evaluation. If the node evaluated a round twice, the later evaluation counts, as with rounds: it
// belongs to the weights that the node continued with. A replayed evaluation counts only if none is recorded.
func (tx *transaction) eval(e event.Event) error {
	var at float64
	err := tx.statement(oldEvalSQL).QueryRow(e.Run, e.Eval.Round, e.Node).Scan(&at)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return tx.addEval(e)
	case err != nil || e.Replayed || e.Time <= at:
		return err
	}
	if _, err := tx.exec(deleteEvalSQL, e.Run, e.Eval.Round, e.Node); err != nil {
		return err
	}
	return tx.addEval(e)
}

// addEval inserts an evaluation without a row.
func (tx *transaction) addEval(e event.Event) error {
	x := e.Eval
	correct, rewardSum := 0, 0.0
	var missing missing
	questions := make([]any, 0, len(x.Questions)*insertQuestions.columns)
	for i, q := range x.Questions {
		correct += q.Correct
		rewardSum += zeroed(q.RewardSum)
		questions = append(questions, i, q.Task, q.Correct, finite(q.RewardSum))
		missing.note(fmt.Sprint("question_", i), q.RewardSum)
	}
	missing.note("temperature", x.Temperature)
	missing.note("format_rate", x.FormatRate)
	missing.note("completions_mean_length", x.MeanLength)
	missing.note("seconds", x.Seconds)
	_, err := tx.exec(insertEvalSQL, e.Run, x.Round, e.Node, e.Time, x.Set, len(x.Questions), x.Generations, finite(x.Temperature),
		finite(x.FormatRate), finite(x.MeanLength), finite(x.Seconds), correct, rewardSum, strings.Join(missing, " "))
	if err != nil {
		return err
	}
	return tx.insert(insertQuestions, [3]any{e.Run, x.Round, e.Node}, questions)
}

// missing lists the original values of columns that are NULL: 'loss=nan'.
type missing []string

// note adds the column name if v isn't finite.
func (m *missing) note(name string, v float64) {
	switch {
	case math.IsNaN(v):
		*m = append(*m, name+"=nan")
	case math.IsInf(v, 1):
		*m = append(*m, name+"=+inf")
	case math.IsInf(v, -1):
		*m = append(*m, name+"=-inf")
	}
}

// NodeEval is a held-out evaluation of a node's weights. Non-finite figures are NaN.
type NodeEval struct {
	Node         string
	Time         float64 // Unix seconds
	GenerateOnly bool    // the node does not train, according to its newest round
	event.Eval
}

// Evals returns every held-out evaluation of a run, by round and then by node as text: node_10 before node_2.
func (r *Reader) Evals(ctx context.Context, run string) ([]NodeEval, error) {
	var evals []NodeEval
	there, shared, err := r.evalSchema(ctx)
	if err != nil || !there {
		return nil, err
	}
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, sqlite.Explain(r.path, err)
	}
	defer tx.Rollback() //nolint:errcheck // it read only
	err = sqlite.Query(ctx, tx, func(rows *sql.Rows) error {
		var x NodeEval
		var questions int
		err := rows.Scan(&x.Node, &x.Time, &x.Round, &x.Set, &questions, &x.Generations, (*number)(&x.Temperature), (*number)(&x.FormatRate),
			(*number)(&x.MeanLength), (*number)(&x.Seconds), &x.GenerateOnly)
		x.Questions = make([]event.EvalQuestion, 0, questions)
		evals = append(evals, x)
		return err
	}, `SELECT node, time, round, question_set, questions, generations, temperature, format_rate, completions_mean_length, seconds,
  NOT `+trainedSQL(shared, "evals")+`
FROM evals WHERE run = ? ORDER BY round, node`, run)
	if err != nil {
		return nil, sqlite.Explain(r.path, err)
	}
	at := 0
	err = sqlite.Query(ctx, tx, func(rows *sql.Rows) error {
		var q event.EvalQuestion
		var round int
		var node string
		if err := rows.Scan(&round, &node, &q.Task, &q.Correct, (*number)(&q.RewardSum)); err != nil {
			return err
		}
		for at < len(evals) && (evals[at].Round != round || evals[at].Node != node) { // both are ordered by the key
			at++
		}
		if at == len(evals) {
			return fmt.Errorf("questions of a missing evaluation: %s after %d rounds", node, round)
		}
		evals[at].Questions = append(evals[at].Questions, q)
		return nil
	}, `SELECT round, node, task, correct, reward_sum FROM eval_questions WHERE run = ? ORDER BY round, node, question`, run)
	return evals, sqlite.Explain(r.path, err)
}

// Evaluated returns for every node of a run the evaluated rounds in the database, ascending.
func (r *Reader) Evaluated(ctx context.Context, run string) (map[string][]int, error) {
	evaluated := map[string][]int{}
	if ok, err := r.has(ctx, schemaEvals); err != nil || !ok {
		return evaluated, err
	}
	err := sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		var node string
		var round int
		err := rows.Scan(&node, &round)
		evaluated[node] = append(evaluated[node], round)
		return err
	}, `SELECT node, round FROM evals WHERE run = ? ORDER BY round, node`, run)
	return evaluated, sqlite.Explain(r.path, err)
}

// EvalTotal is a run's held-out evaluation, summed over the nodes that made it.
type EvalTotal struct {
	Run         string
	Round       int // rounds that the weights were trained for
	Set         string
	Generations int
	Nodes       int
	Questions   int // sum over nodes
	Correct     int // of Questions x Generations completions
	RewardSum   float64
}

// NewestEvals returns the newest held-out evaluation of every run, by its key. It chooses the highest round that all
// expected nodes have evaluated: nodes that are present, had joined by then, and train. A mean over only the fastest
// nodes would not represent the swarm. If there is no such round, it chooses the highest round. Evaluations of nodes
// that only generate do not count.
func (r *Reader) NewestEvals(ctx context.Context) (map[string]EvalTotal, error) {
	newest := map[string]EvalTotal{}
	there, shared, err := r.evalSchema(ctx)
	if err != nil || !there {
		return newest, err
	}
	err = sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		var x EvalTotal
		err := rows.Scan(&x.Run, &x.Round, &x.Set, &x.Generations, &x.Nodes, &x.Questions, &x.Correct, &x.RewardSum)
		newest[x.Run] = x
		return err
	}, newestEvalsSQL(shared))
	return newest, sqlite.Explain(r.path, err)
}

// EvalTotals returns a run's held-out evaluations, by round, of every round that all expected nodes have evaluated;
// NewestEvals defines these nodes. If a round has several sets of questions, the set that most nodes answered counts.
func (r *Reader) EvalTotals(ctx context.Context, run string) ([]EvalTotal, error) {
	there, shared, err := r.evalSchema(ctx)
	if err != nil || !there {
		return nil, err
	}
	totals, err := lastOfRounds(ctx, r.db, run, `SELECT round, question_set, generations, count(*) AS nodes, sum(questions), sum(correct), sum(reward_sum)
FROM runs CROSS JOIN evals AS e ON e.run = runs.run AND `+trainedSQL(shared, "e")+` WHERE runs.run = ?1 AND `+wholeEvalSQL(shared)+`
GROUP BY round, question_set, generations ORDER BY round, nodes, question_set, generations`)
	return totals, sqlite.Explain(r.path, err)
}

// QuestionTotal is one question of an evaluation, summed over the nodes that answered it.
type QuestionTotal struct {
	Task        string
	Completions int
	Correct     int
	Nodes       []NodesRight // ascending by Right
}

// NodesRight is the number of nodes that gave so many right completions to a question.
type NodesRight struct{ Right, Nodes int }

// QuestionTotals returns an evaluation's questions in the set's order. It is nil unless the recorded questions make up
// the evaluation, with equally many completions of each.
func (r *Reader) QuestionTotals(ctx context.Context, e EvalTotal) ([]QuestionTotal, error) {
	var totals []QuestionTotal
	shared, err := r.has(ctx, schemaWorkers)
	if err != nil {
		return nil, err
	}
	newest, correct, questions := 0, 0, 0
	err = sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		var question int
		var task string
		var nodes NodesRight
		err := rows.Scan(&question, &task, &nodes.Right, &nodes.Nodes)
		if n := len(totals); n == 0 || question != newest || task != totals[n-1].Task {
			totals = append(totals, QuestionTotal{Task: task})
		}
		newest = question
		x := &totals[len(totals)-1]
		x.Completions, x.Correct, x.Nodes = x.Completions+nodes.Nodes*e.Generations, x.Correct+nodes.Nodes*nodes.Right, append(x.Nodes, nodes)
		correct, questions = correct+nodes.Nodes*nodes.Right, questions+nodes.Nodes
		return err
	}, `SELECT question, task, q.correct, count(*)`+answersSQL(shared)+`
GROUP BY question, task, q.correct ORDER BY question, task, q.correct`, e.Run, e.Round, e.Set, e.Generations)
	if err != nil {
		return nil, sqlite.Explain(r.path, err)
	}
	if e.Generations > math.MaxInt32 { // not recorded by this program, and its sums overflow
		return nil, nil
	}
	uneven := slices.ContainsFunc(totals, func(x QuestionTotal) bool { return x.Completions != totals[0].Completions })
	if uneven || correct != e.Correct || questions != e.Questions {
		return nil, nil
	}
	return totals, nil
}

// NodeTaskTotal is one node's result in one task of an evaluation.
type NodeTaskTotal struct {
	Node, Task           string
	Completions, Correct int
}

// NodeTaskTotals returns an evaluation's results by node and task.
func (r *Reader) NodeTaskTotals(ctx context.Context, e EvalTotal) ([]NodeTaskTotal, error) {
	shared, err := r.has(ctx, schemaWorkers)
	if err != nil {
		return nil, err
	}
	var totals []NodeTaskTotal
	err = sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		var x NodeTaskTotal
		err := rows.Scan(&x.Node, &x.Task, &x.Completions, &x.Correct)
		totals = append(totals, x)
		return err
	}, `SELECT e.node, task, count(*) * generations, sum(q.correct)`+answersSQL(shared)+`
GROUP BY e.node, task ORDER BY e.node, task`, e.Run, e.Round, e.Set, e.Generations)
	return totals, sqlite.Explain(r.path, err)
}

// answersSQL selects an evaluation's answers q, by run, round, set and generations.
func answersSQL(shared bool) string {
	return ` FROM evals AS e
JOIN eval_questions AS q ON q.run = e.run AND q.round = e.round AND q.node = e.node
WHERE e.run = ? AND e.round = ? AND question_set = ? AND generations = ? AND ` + trainedSQL(shared, "e")
}

// evalSchema reports whether the schema has evaluations, and whether it has other hosts' nodes.
func (r *Reader) evalSchema(ctx context.Context) (there, shared bool, err error) {
	if there, err = r.has(ctx, schemaEvals); err == nil {
		shared, err = r.has(ctx, schemaWorkers)
	}
	return there, shared, err
}

// Nodes of a run evaluate the same set, unless an eval_ key changed while some of them had already evaluated a round.
// The set of the most nodes comes last and counts, as in evaluation.New.
func newestEvalsSQL(shared bool) string {
	return `SELECT runs.run, round, question_set, generations, count(*) AS nodes, sum(questions), sum(correct), sum(reward_sum)
FROM runs CROSS JOIN evals ON evals.run = runs.run AND ` + trainedSQL(shared, "evals") + ` AND round = ` + newestEvalSQL(shared) + `
GROUP BY runs.run, question_set, generations ORDER BY nodes, question_set, generations`
}

// newestEvalSQL selects the round of NewestEvals for runs.run. If the schema has other hosts' nodes, it does not wait
// for those that are away or joined later, as in Node.There.
func newestEvalSQL(shared bool) string {
	return `coalesce(
  (SELECT round FROM evals AS e WHERE e.run = runs.run GROUP BY round HAVING ` + wholeEvalSQL(shared) + ` ORDER BY round DESC LIMIT 1),
  (SELECT max(round) FROM evals AS e WHERE e.run = runs.run))`
}

// trainedSQL tests whether a row of evals or rounds, by its alias, is of a node that trains. The node's newest round
// decides.
func trainedSQL(shared bool, alias string) string {
	if !shared {
		return "true"
	}
	return `NOT EXISTS (SELECT 1 FROM nodes AS own WHERE own.run = ` + alias + `.run AND own.node = ` + alias + `.node AND own.generate_only)`
}

// wholeEvalSQL tests whether all expected nodes of runs.run have evaluated a round of evals AS e.
func wholeEvalSQL(shared bool) string {
	counted := `nodes.run = runs.run AND nodes.state <> 'given_up'`
	if shared {
		counted += ` AND absent = '' AND (worker = '' OR nodes.state <> 'stopped') AND from_round <= e.round AND NOT generate_only`
	}
	return `NOT EXISTS (SELECT 1 FROM nodes WHERE ` + counted + `
     AND NOT EXISTS (SELECT 1 FROM evals AS x WHERE x.run = runs.run AND x.round = e.round AND x.node = nodes.node))`
}

// edgeEvals returns a run's first and newest held-out evaluation, or a single one if they are the same.
func edgeEvals(ctx context.Context, tx sqlite.Rows, run string, shared bool) ([]EvalTotal, error) {
	return lastOfRounds(ctx, tx, run, edgeEvalsSQL(shared))
}

// lastOfRounds runs a query for a run's evaluations, ordered by round. Of several rows of one round the last counts.
func lastOfRounds(ctx context.Context, tx sqlite.Rows, run, text string) ([]EvalTotal, error) {
	var totals []EvalTotal
	err := sqlite.Query(ctx, tx, func(rows *sql.Rows) error {
		x := EvalTotal{Run: run}
		err := rows.Scan(&x.Round, &x.Set, &x.Generations, &x.Nodes, &x.Questions, &x.Correct, &x.RewardSum)
		if n := len(totals); n > 0 && totals[n-1].Round == x.Round {
			totals = totals[:n-1]
		}
		totals = append(totals, x)
		return err
	}, text, run)
	return totals, err
}

// If a round has several sets, the last counts, as in newestEvalsSQL.
func edgeEvalsSQL(shared bool) string {
	return `SELECT round, question_set, generations, count(*) AS nodes, sum(questions), sum(correct), sum(reward_sum)
FROM runs CROSS JOIN evals ON evals.run = runs.run AND ` + trainedSQL(shared, "evals") + ` AND round IN (
  (SELECT min(round) FROM evals AS e WHERE e.run = runs.run), ` + newestEvalSQL(shared) + `)
WHERE runs.run = ?1
GROUP BY round, question_set, generations ORDER BY round, nodes, question_set, generations`
}
