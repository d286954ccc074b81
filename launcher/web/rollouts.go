package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/metrics/dashboard"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/journal"
	"github.com/sapo-swarm/swarm/node/model"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/task"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

// runText decodes a run's token ids and scores completions as the run's nodes did.
type runText struct {
	config configs.Config
	tasks  *task.Set           // nil: notes say why nothing can be scored
	tokens tokenizer.Tokenizer // nil: notes say why there are no externals
	notes  []string
}

// textsKept bounds the number of cached runTexts. Runs of one model share its tokenizer, which takes some
// megabytes.
const textsKept = 4

// text returns the runText for a run's node. Its inputs, such as question files or the model's folder, may be
// missing by now.
func (f *runFolders) text(run store.Run, node string) (*runText, error) {
	t := &runText{config: configs.Default()}
	if err := json.Unmarshal(run.Config, &t.config); err != nil {
		return nil, fmt.Errorf("the configuration of %s: %w", run.Run, err)
	}
	t.config = t.config.OfNode(configs.NodeIndex(node))
	key := run.Run + " " + t.config.Model // nodes of one run may have different models
	if known := f.texts[key]; known != nil {
		return known, nil
	}
	var err error
	if t.tasks, err = task.Open(t.config.Tasks); err != nil {
		t.tasks = nil
		t.notes = append(t.notes, "rewards are unavailable: "+fail.OneLine(err.Error()))
	}
	if t.tokens, err = f.tokenizer(t.config.Model); err != nil {
		t.tokens = nil
		t.notes = append(t.notes, "training on others' rollouts is unavailable: "+fail.OneLine(err.Error()))
	}
	if len(f.texts) >= textsKept {
		f.texts = nil
	}
	if f.texts == nil {
		f.texts = map[string]*runText{}
	}
	if len(t.notes) == 0 { // missing inputs may come back
		f.texts[key] = t
	}
	return t, nil
}

func (f *runFolders) tokenizer(name string) (tokenizer.Tokenizer, error) {
	for _, t := range f.texts {
		if t.config.Model == name {
			return t.tokens, nil
		}
	}
	m, err := model.Find(name)
	if err != nil {
		return nil, err
	}
	dir, err := model.Resolve(m, string(f.home))
	if err != nil {
		return nil, err
	}
	return tokenizer.Open(m.Tokenizer, dir)
}

// rollouts implements dashboard.Options.Rollouts. It reads a node's round from its journal, and the origin of
// externals from the journals of its peers.
func (f *runFolders) rollouts(ctx context.Context, q dashboard.RolloutQuery) (dashboard.Rollouts, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := dashboard.Rollouts{Node: q.Node, Round: q.Round}
	snapshot, note, err := f.run(ctx, q.Run)
	if err != nil || note != "" {
		out.Note = note
		return out, err
	}
	if out.Round < 0 {
		out.Round = newestRound(snapshot, q.Node)
	}
	dir := f.home.Run(snapshot.Run.Run)
	logged, err := journal.Find(filepath.Join(dir, filepath.Base(q.Node)), out.Round)
	switch {
	case errors.Is(err, journal.ErrNotFound) || err == nil && logged.Generated == nil:
		out.Note = fmt.Sprintf("the journal of %s has no round %d", q.Node, out.Round)
		return out, nil
	case errors.Is(err, journal.ErrDamaged) || errors.Is(err, journal.ErrVersion):
		out.Note = fail.OneLine(err.Error())
		return out, nil
	case err != nil:
		return out, err
	}
	text, err := f.text(snapshot.Run, q.Node)
	if err != nil {
		return out, err
	}
	notes := slices.Clone(text.notes)
	batch := exchange.Receive(logged.Generated.Batch, q.Node, out.Round)
	if batch.Rejected != "" {
		notes = append(notes, "the node's shared rollouts can't be read: "+batch.Rejected)
	}
	for _, r := range batch.Rollouts {
		out.Questions = append(out.Questions, text.question(r))
	}
	switch {
	case logged.Trained == nil:
		notes = append(notes, "the update of this round is not done yet")
	case text.tokens != nil:
		externals, more := text.externals(dir, out.Round, logged.Trained)
		out.Externals, notes = externals, append(notes, more...)
	}
	out.Note = strings.Join(notes, "; ")
	return out, nil
}

// newestRound returns the last round that a node has reported, or 0.
func newestRound(s store.Snapshot, node string) int {
	for _, n := range s.Nodes {
		if n.Node == node {
			return max(0, n.LastRound)
		}
	}
	return 0
}

// question describes a rollout as the node shared it.
func (t *runText) question(r exchange.Rollout) dashboard.Question {
	item := task.Item{Question: r.Question, Answer: r.Answer, Metadata: r.Metadata}
	out := dashboard.Question{Task: item.Task(), Question: r.Question, Answer: r.Answer, Completions: make([]dashboard.Completion, len(r.Completions))}
	for i, c := range r.Completions {
		out.Completions[i] = dashboard.Completion{Text: c.Text, Terminated: c.Terminated, Reward: t.score(item, c.Text)}
	}
	return out
}

// score returns nil if the tasks cannot be opened.
func (t *runText) score(item task.Item, completion string) *float64 {
	if t.tasks == nil {
		return nil
	}
	reward := t.tasks.Score(item, completion)
	return &reward
}

// learnt is a peer's rollout in the form in which the node trains on it.
type learnt struct {
	from    string
	rollout exchange.Rollout // completions cut to the length limit
	prompt  []int
	ids     [][]int
}

// externals finds the origin of each external question in a round's update among the rollouts that peers shared.
func (t *runText) externals(dir string, round int, trained *journal.Trained) (list []dashboard.External, notes []string) {
	if len(trained.Update.Prompts) <= trained.Report.TrainedOwn {
		return nil, nil
	}
	var offered []learnt
	unread := map[string]bool{}
	for _, p := range trained.Report.Peers {
		if p.Used == 0 {
			continue
		}
		logged, err := journal.Find(filepath.Join(dir, filepath.Base(p.Node)), round)
		if err != nil || logged.Generated == nil {
			unread[p.Node] = true
			continue
		}
		for _, r := range exchange.Receive(logged.Generated.Batch, p.Node, round).Rollouts {
			offered = append(offered, t.learnt(p.Node, r))
		}
	}
	if len(unread) > 0 {
		notes = append(notes, "missing here: the journal of "+strings.Join(slices.Sorted(maps.Keys(unread)), ", "))
	}
	for i, prompt := range trained.Update.Prompts {
		if i < trained.Report.TrainedOwn {
			continue
		}
		ids := completionsOf(trained.Update, i)
		at := slices.IndexFunc(offered, func(l learnt) bool { return l.is(prompt, ids) })
		if at < 0 {
			list = append(list, t.unknown(prompt, ids))
			continue
		}
		list = append(list, dashboard.External{From: offered[at].from, Question: t.question(offered[at].rollout)})
		offered = slices.Delete(offered, at, at+1)
	}
	return list, notes
}

// learnt converts a peer's rollout as node.external does: into this model's ids, cut to the length limit.
func (t *runText) learnt(from string, r exchange.Rollout) learnt {
	l := learnt{from: from, rollout: r, prompt: t.prompt(task.Item{Question: r.Question, Metadata: r.Metadata})}
	l.rollout.Completions = nil
	for _, c := range r.Completions {
		decoded := c.Decode(t.tokens, t.config.MaxCompletionLength)
		l.ids = append(l.ids, decoded.IDs)
		l.rollout.Completions = append(l.rollout.Completions, exchange.Completion{Text: decoded.Text, Terminated: decoded.Terminated})
	}
	return l
}

func (l learnt) is(prompt []int, ids [][]int) bool {
	return slices.Equal(l.prompt, prompt) && slices.EqualFunc(l.ids, ids, slices.Equal[[]int])
}

// prompt returns the token ids of an item's question as the model got it.
func (t *runText) prompt(item task.Item) []int {
	system, _ := task.SystemPrompt(t.config.Tasks.SystemPrompt)
	if chat, ok := t.tokens.(tokenizer.Chat); ok {
		return chat.Prompt(system, t.tasks.Turns(item)...)
	}
	return t.tokens.Encode(task.Prompt(system, t.tasks.Turns(item)...))
}

func completionsOf(update policy.UpdateParams, prompt int) [][]int {
	var ids [][]int
	for _, s := range update.Sequences {
		if s.Prompt == prompt {
			ids = append(ids, s.Completion)
		}
	}
	return ids
}

// unknown describes an external that no journal here contains, from its ids only. The text includes the prompt's
// frame, and has no answer key.
func (t *runText) unknown(prompt []int, completions [][]int) dashboard.External {
	out := dashboard.External{Question: dashboard.Question{Question: t.tokens.Decode(prompt)}}
	for _, ids := range completions {
		ended := len(ids) > 0 && exchange.Ends(t.tokens, ids[len(ids)-1])
		out.Completions = append(out.Completions, dashboard.Completion{Text: t.tokens.Decode(ids), Terminated: ended})
	}
	return out
}
