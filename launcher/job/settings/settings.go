// Package settings reads and changes values in users' own files: YAML, JSON, shell scripts, Slurm headers, .env and
// other key=value text. A change replaces only the bytes of a value. Comments, order, blank lines, quoting,
// indentation, line ends, a byte order mark and a missing last newline stay as they are. The package refuses a change
// that would damage a file.
//
// It owns the backups beside those files, and the caller's state folder, where it records its changes until they are
// undone. It imports configs for its errors, and internal packages.
package settings

// Value is the value at a place.
type Value struct {
	Text   string // without the quotes
	Number bool   // Text is a number, quoted or not
	Line   int    // from 1
}

// Change is a new value for a place. A value keeps its kind: number, true or false, or text.
type Change struct {
	Place
	To string
}

// Edit is one value of a FileChange.
type Edit struct {
	Key      string
	From, To string
	Line     int
	Follows  []int // lines with values that follow this one by a YAML alias or merge
}

// FileChange is the change of one file. Files that already have all values are left out.
type FileChange struct {
	Path   string
	Edits  []Edit
	Backup string // path of the original; known after Apply
}

// Restored is a file that was restored, or that could not be.
type Restored struct {
	Path string
	Left string // why the file was left as it is; empty if it was restored
}
