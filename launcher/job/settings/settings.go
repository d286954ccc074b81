// Package settings reads and changes values in users' own files: YAML, JSON, shell scripts, Slurm headers, .env and
// other key=value text. A change replaces the bytes of a value and no other: comments, order, blank lines, quoting,
// indentation, line ends, a byte order mark and a missing last newline stay as they are. What a change would damage is
// refused.
//
// It owns the backups beside those files and the state folder that its callers name, in which it remembers what it
// wrote until that is undone. It imports configs for its errors and nothing else of ours.
package settings

// Value is what stands at a place.
type Value struct {
	Text   string // without the quotes
	Number bool   // Text is a number, quoted or not
	Line   int    // 1 is the first
}

// Change is a value to be written. What is a number, true or false, or text stays one.
type Change struct {
	Place
	To string
}

// Edit is one value of a FileChange.
type Edit struct {
	Key      string
	From, To string
	Line     int
	Follows  []int // lines whose values follow this one by a YAML alias or merge
}

// FileChange is what an Edition does to one file. A file whose values are all right already is not among them.
type FileChange struct {
	Path   string
	Edits  []Edit
	Backup string // where the file as it was is; known after Apply
}

// Restored is a file that was put back, or one that could not be.
type Restored struct {
	Path string
	Left string // why the file was left as it is; empty when it was put back
}
