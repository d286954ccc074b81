package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// damageCheckpoint kills a node and damages its newest checkpoint, or that checkpoint's manifest.
func damageCheckpoint(s *storm, f fault) error {
	if err := s.endNode(f.node); err != nil {
		return err
	}
	return damageNewest(s.nodeDir(f.node), f.random())
}

// endNode kills a node and waits for its end, so that its writes have finished.
func (s *storm) endNode(node int) error {
	pid, err := nodeProcess(s, node)
	if err != nil {
		return err
	}
	if err := s.signalTo(pid, syscall.SIGKILL); err != nil {
		return err
	}
	return pollFor(downWait, fmt.Sprintf("end of process %d", pid), func() (bool, error) { return !s.alive(pid), nil })
}

func damageNewest(dir string, random *rand.Rand) error {
	kind := []string{"checkpoint-*.safetensors", "checkpoint-*.json"}[random.IntN(2)]
	files := filesOf(dir, kind)
	if len(files) == 0 {
		return nil // the run has only just started
	}
	return damageFile(files[len(files)-1], random)
}

// damageJournal kills a node and damages the end of its journal.
func damageJournal(s *storm, f fault) error {
	if err := s.endNode(f.node); err != nil {
		return err
	}
	return damageTail(s.nodeDir(f.node), f.random())
}

func damageTail(dir string, random *rand.Rand) error {
	files := filesOf(dir, "journal-*.log")
	if len(files) == 0 {
		return nil
	}
	return damageFile(files[len(files)-1], random)
}

func damageCheckpointAndJournal(s *storm, f fault) error {
	return s.whileDown(func() error {
		random := f.random()
		return errors.Join(damageNewest(s.nodeDir(f.node), random), damageTail(s.nodeDir(f.node), random))
	})
}

// damageBothCheckpoints leaves a node only its journal.
func damageBothCheckpoints(s *storm, f fault) error {
	return s.whileDown(func() error {
		random := f.random()
		for _, path := range filesOf(s.nodeDir(f.node), "checkpoint-*.safetensors") {
			if err := damageFile(path, random); err != nil {
				return err
			}
		}
		return nil
	})
}

// filesOf returns a folder's files that match a pattern, sorted by name.
func filesOf(dir, pattern string) []string {
	files, _ := filepath.Glob(filepath.Join(dir, pattern))
	slices.Sort(files)
	return files
}

// damageFile damages a file like disks, crashes and users do. It ignores a file that its owner has removed meanwhile.
func damageFile(path string, random *rand.Rand) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("damage: %w", err)
	}
	switch way := random.IntN(6); {
	case way == 0:
		err = os.Remove(path)
	case way == 1 || len(data) == 0: // garbage at the end
		err = overwrite(path, append(data, randomBytes(random, 1+random.IntN(400))...))
	case way == 2:
		err = overwrite(path, data[:random.IntN(len(data))])
	case way == 3: // a torn write
		err = overwrite(path, data[:max(0, len(data)-1-random.IntN(64))])
	case way == 4:
		data[random.IntN(len(data))] ^= 1 << random.IntN(8)
		err = overwrite(path, data)
	case way == 5: // a block that was never written to disk
		from := random.IntN(len(data))
		clear(data[from:min(len(data), from+512)])
		err = overwrite(path, data)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func randomBytes(random *rand.Rand, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(random.Uint32())
	}
	return out
}

// overwrite changes a file in place.
func overwrite(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Close())
}
