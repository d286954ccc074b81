package settings

// node is a part of a file: a mapping, a sequence, a value, or an alias of another node.
type node struct {
	shape shape
	line  int
	keys  []string // of a mapping, in order; a key that no place can name is notText
	items []*node  // the values of the keys, or of the sequence
	leaf  leaf     // of a value

	anchor string   // name for aliases
	target *node    // of an alias
	mark   string   // everything else that must not change: tag, style, comments
	marks  []string // the same for the keys
}

type shape int

const (
	mapping shape = iota
	sequence
	value
	alias
)

const (
	notText  = "\x00"   // a key that is not plain text
	mergeKey = "\x00<<" // YAML's merge key <<
)

// leaf is a value's text and position.
type leaf struct {
	text   string // without quotes and escapes
	kind   kind
	quote  byte   // " or ', or 0 without quotes
	start  int    // first byte that an edit replaces, inside the quotes
	end    int    // the byte after the last one
	column int    // in YAML: column of the value or its anchor, in characters from 1; start and end follow from it
	inside byte   // in text: the quotes around the whole word
	stuck  string // why the value can't be changed; empty if it can
}

type kind string

const (
	number  kind = "number"
	boolean kind = "true or false"
	null    kind = "null"
	text    kind = "text"
	other   kind = "a date or a special value"
)
