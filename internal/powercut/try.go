package powercut

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// Trial configures the cuts to try.
type Trial struct {
	At        []int  // after so many changes
	Random    int    // and at as many random places
	Seed      uint64 // of those, and of what is kept
	Journaled bool   // only on file systems with a journal: as of programs of others that sync no folder
}

// Try cuts the power at many places, and calls check with what is left, in a folder that is gone afterwards. Every
// second cut keeps some of what was not synced.
func (l Log) Try(t *testing.T, trial Trial, check func(t *testing.T, changes int, dir string)) {
	t.Helper()
	r := rand.New(rand.NewPCG(trial.Seed, 0))
	cuts := slices.Clone(trial.At)
	for range trial.Random {
		cuts = append(cuts, r.IntN(len(l.Changes)+1))
	}
	for i, n := range cuts {
		fate := Fate{Journaled: trial.Journaled || i%3 == 2}
		if i%2 == 1 {
			fate.Random = r
		}
		name := fmt.Sprintf("cut %d after %d of %d changes, journaled %t, some kept %t", i, n, len(l.Changes), fate.Journaled, fate.Random != nil)
		dir, err := os.MkdirTemp("", "powercut-")
		if err == nil {
			err = l.Cut(n, fate, dir)
		}
		if err != nil {
			t.Fatal(err)
		}
		good := t.Run(name, func(t *testing.T) { check(t, n, dir) })
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if !good {
			return
		}
	}
}

// Promise is what a program has promised since so many changes.
type Promise struct {
	Changes int
	Value   int
}

// Promised is the newest promise at a cut, 0 where there is none.
func Promised(all []Promise, changes int) (value int) {
	for _, p := range all {
		if p.Changes <= changes {
			value = p.Value
		}
	}
	return value
}

// Places are where the promises were made: the hardest places to cut at.
func Places(all []Promise) (at []int) {
	for _, p := range all {
		at = append(at, p.Changes)
	}
	return at
}
