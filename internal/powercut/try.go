package powercut

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// Trial configures the power cuts to try.
type Trial struct {
	At        []int  // numbers of changes after which to cut
	Random    int    // number of cuts at random places
	Seed      uint64 // for the random places and the changes kept
	Journaled bool   // try only file systems with a journal; for third-party programs that do not sync folders
}

// Try cuts the power at many places and calls check with a temporary folder of the surviving files. Every second cut
// keeps some unsynced changes.
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

// Promise is a value that a program had reported as durable after the given number of changes.
type Promise struct {
	Changes int
	Value   int
}

// Promised returns the newest promise before a cut, or 0 if there is none.
func Promised(all []Promise, changes int) (value int) {
	for _, p := range all {
		if p.Changes <= changes {
			value = p.Value
		}
	}
	return value
}

// Places returns the changes after which the program made promises: the hardest places to cut at.
func Places(all []Promise) (at []int) {
	for _, p := range all {
		at = append(at, p.Changes)
	}
	return at
}
