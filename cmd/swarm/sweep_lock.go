package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
)

// sweepLocks are held while a sweep goes on, one for each of its experiments: two sweeps may go on side by side if they share none.
// The kernel drops them with the process, however that ends.
type sweepLocks []*os.File

func sweepLockPath(home layout.Home, experiment string) string {
	return home.Path("locks", experiment+".sweep")
}

// lockSweep takes the locks, or says who has one of them.
func lockSweep(home layout.Home, items []*sweepItem) (sweepLocks, error) {
	dir := home.Path("locks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, home.Error(err)
	}
	var locks sweepLocks
	seen := map[string]bool{}
	for _, item := range items {
		if seen[item.experiment()] {
			continue
		}
		seen[item.experiment()] = true
		file, err := lockOneSweep(home, sweepLockPath(home, item.experiment()), item.experiment())
		if err != nil {
			locks.release()
			return nil, err
		}
		locks = append(locks, file)
	}
	return locks, nil
}

func lockOneSweep(home layout.Home, path, experiment string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, home.Error(err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		if err = file.Truncate(0); err == nil {
			_, err = fmt.Fprintf(file, "%d\n", os.Getpid())
		}
		if err != nil {
			file.Close()
			return nil, home.Error(err)
		}
		return file, nil
	}
	defer file.Close()
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	holder := make([]byte, 32)
	n, _ := file.ReadAt(holder, 0)
	return nil, fail.Hint(
		fmt.Errorf("a sweep with experiment %s goes on already (process %s)", experiment, strings.TrimSpace(string(holder[:n]))),
		"swarm status, or the same command once that one has ended")

}

// release gives the locks up. The files stay, like an experiment's.
func (l sweepLocks) release() {
	for _, file := range l {
		file.Close()
	}
}
