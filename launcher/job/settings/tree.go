package settings

// node is a part of a file: a mapping, a sequence, a value, or an alias that stands for another.
type node struct {
	shape shape
	line  int
	keys  []string // of a mapping, in order; a key that no place can name is notText
	items []*node  // the values of the keys, or of the sequence
	leaf  leaf     // of a value

	anchor string   // the name that aliases call it by
	target *node    // what an alias stands for
	mark   string   // whatever else must not change: tag, style, comments
	marks  []string // and of the keys
}

type shape int

const (
	mapping shape = iota
	sequence
	value
	alias
)

const (
	notText  = "\x00"   // a key that is no plain text
	mergeKey = "\x00<<" // YAML's: the keys of others are ours too
)

// leaf is a value's text and where it stands.
type leaf struct {
	text   string // without quotes and escapes
	kind   kind
	quote  byte   // " or ', or 0 where it has none of its own
	start  int    // first byte of what an edit replaces, inside the quotes
	end    int    // the byte behind it
	column int    // of YAML, in characters from 1: where the value or its anchor begins; start and end follow from it
	inside byte   // of text: the quotes around the whole word
	stuck  string // why it can't be changed; empty when it can
}

type kind string

const (
	number  kind = "number"
	boolean kind = "true or false"
	null    kind = "null"
	text    kind = "text"
	other   kind = "a date or a special value"
)
