package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/internal/files"
)

// ErrInUse reports that another process is changing the same file.
var ErrInUse = errors.New("in use")

// The state folder:
//
//	lock               locked for milliseconds to read or write the rest
//	open/7/journal.json  a change in progress, or a loan; written before any of its files changes
//	open/7/alive       locked while its process runs
//	open/7/0.kept      the original of a loan's first file
//	undo/8.json        the journal of a completed Apply
const (
	lockName    = "lock"
	openName    = "open"
	undoName    = "undo"
	aliveName   = "alive"
	journalName = "journal.json"

	lockWait = 10 * time.Second
	maxUndo  = 256 // older ones are removed; their backups stay
)

// journal has the data to restore files.
type journal struct {
	Owner string   `json:"owner"`
	PID   int      `json:"pid"`
	Dir   string   `json:"dir,omitempty"` // set by Apply
	Files []record `json:"files"`
}

// record is one file of a journal.
type record struct {
	Name      string   `json:"name"` // as the user typed it
	Path      string   `json:"path"`
	Before    string   `json:"before"`              // SHA-256 of the content to restore
	Kept      string   `json:"kept,omitempty"`      // path of that content
	Wrote     []string `json:"wrote,omitempty"`     // SHA-256 of each content that was written, or about to be
	Temporary string   `json:"temporary,omitempty"` // may still exist
	Edits     []Edit   `json:"edits,omitempty"`

	replaced bool // by this process
}

// lockState locks the state folder, within lockWait.
func lockState(state string) (*os.File, error) {
	for _, folder := range []string{openName, undoName} {
		if err := os.MkdirAll(filepath.Join(state, folder), 0o700); err != nil {
			return nil, stateError(state, err)
		}
	}
	lock, err := os.OpenFile(filepath.Join(state, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, stateError(state, err)
	}
	if err := files.LockWithin(lock, lockWait); err != nil {
		lock.Close()
		return nil, stateError(state, fmt.Errorf("lock: %w", err))
	}
	return lock, nil
}

// stateError adds a remedy to an error of the state folder.
func stateError(state string, err error) error {
	try := "fix the folder's permissions, or another --home"
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		try = "free some space"
	case files.NoLocks(err):
		try = "--home on a local disk: this one has no file locks"
	case errors.Is(err, syscall.EWOULDBLOCK):
		try = "again in a moment"
	}
	return fmt.Errorf("cannot store the files' old contents in %s: %w. Try: %s", state, err, try)
}

// transaction is a journal of this process.
type transaction struct {
	journal
	state  string
	number int
	alive  *os.File
}

func (t *transaction) folder() string { return openFolder(t.state, t.number) }

func openFolder(state string, number int) string {
	return filepath.Join(state, openName, strconv.Itoa(number))
}

func undoFile(state string, number int) string {
	return filepath.Join(state, undoName, strconv.Itoa(number)+".json")
}

// begin records that this process will change files. It first restores files of dead processes. It returns an error
// if another process holds one of the files.
func begin(state string, j journal) (*transaction, error) {
	state, err := filepath.Abs(state)
	if err != nil {
		return nil, stateError(state, err)
	}
	lock, err := lockState(state)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	live, _, err := sweep(state)
	if err != nil {
		return nil, err
	}
	if err := inUse(live, j.Files); err != nil {
		return nil, err
	}
	numbers := slices.Concat(entries(state, openName), entries(state, undoName), []int{0})
	t := &transaction{journal: j, state: state, number: slices.Max(numbers) + 1}
	t.PID = os.Getpid()
	if err := os.Mkdir(t.folder(), 0o700); err != nil {
		return nil, stateError(state, err)
	}
	if t.alive, err = os.Create(filepath.Join(t.folder(), aliveName)); err == nil {
		err = errors.Join(files.Lock(t.alive), t.save())
	}
	if err != nil {
		t.end()
		return nil, stateError(state, err)
	}
	reached("begun", 0)
	return t, nil
}

// inUse returns an error if a living process holds one of the files.
func inUse(live []journal, files []record) error {
	for _, j := range live {
		for _, theirs := range j.Files {
			for _, f := range files {
				if theirs.Path == f.Path {
					return fmt.Errorf("%s is %w: %s (process %d) has changed it and will restore it. "+
						"Try: again when that process has ended, or values outside files",
						f.Name, ErrInUse, j.Owner, j.PID)
				}
			}
		}
	}
	return nil
}

func (t *transaction) save() error {
	return saveJournal(filepath.Join(t.folder(), journalName), t.journal)
}

func saveJournal(path string, j journal) error {
	data, err := json.MarshalIndent(j, "", " ")
	if err != nil {
		return err
	}
	return files.WriteSecret(path, append(data, '\n'))
}

func loadJournal(path string) (journal, error) {
	var j journal
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &j)
	}
	return j, err
}

// end removes the transaction and releases its files.
func (t *transaction) end() {
	_ = forget(t.folder()) // leftover files have no effect
	t.alive.Close()
}

// forget removes a transaction's folder, the journal first. Without a journal no process restores anything from the
// rest.
func forget(folder string) error {
	if err := os.Remove(filepath.Join(folder, journalName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(folder)
}

// entries returns the numbers in a folder of the state, lowest first.
func entries(state, name string) []int {
	var numbers []int
	found, _ := os.ReadDir(filepath.Join(state, name)) // lockState has created it
	for _, entry := range found {
		if n, err := strconv.Atoi(strings.TrimSuffix(entry.Name(), ".json")); err == nil && n > 0 {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers
}

// exists reports whether a name exists.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
