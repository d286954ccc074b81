package settings

import (
	"path/filepath"
	"regexp"
	"strings"
)

// parseText reads the assignments in a shell script, a Slurm header, a file of NAME=value lines or a Python settings
// file: KEY=VALUE words (Hydra's overrides, export NAME=value), --option=VALUE and --option VALUE. It skips comments,
// but not headers such as #SBATCH --gres=gpu:4, with the key "#SBATCH --gres". It reads line by line: a value ends
// with its line.
func parseText(name string, data []byte) []*node {
	root := &node{shape: mapping, line: 1}
	section := ""
	loose, sections := formOf(name)
	at := 0
	for i, line := range strings.SplitAfter(string(data), "\n") {
		l := lineReader{line: strings.TrimRight(line, "\r\n"), at: at, number: i + 1, loose: loose, root: root}
		at += len(line)
		if sections {
			if m := sectionLine.FindStringSubmatch(l.line); m != nil {
				section = m[1] + "."
				continue
			}
		}
		l.prefix = section
		l.read()
	}
	return []*node{root}
}

var (
	sectionLine = regexp.MustCompile(`^\s*\[([A-Za-z0-9_. -]+)\]\s*$`)
	header      = regexp.MustCompile(`^#(SBATCH|PBS|BSUB|FLUX|\$)[ \t]`)
)

// formOf returns, by a file's name, whether blanks may surround equals signs (in a shell they would make a command),
// and whether the file has sections.
func formOf(name string) (loose, sections bool) {
	base := filepath.Base(name)
	switch strings.ToLower(filepath.Ext(base)) {
	case ".ini", ".cfg", ".toml":
		return true, true
	case ".py", ".conf", ".properties", ".env":
		return true, false
	}
	return strings.HasPrefix(base, ".env"), false
}

// lineReader finds the assignments of one line.
type lineReader struct {
	line   string
	at     int // offset of the line in the file
	number int
	loose  bool
	prefix string
	root   *node

	quote  byte // the open quote at the reader's position
	opened int  // position of that quote
	blank  int  // position of the last blank before the reader, or -1
}

// maxValue bounds the length of a changeable value, in bytes.
const maxValue = 1024

func (l *lineReader) read() {
	from := 0
	if h := header.FindString(l.line); h != "" {
		l.prefix, from = strings.TrimSpace(h)+" ", len(h)
	}
	l.blank = -1
	for i := from; i < len(l.line); i++ {
		switch c := l.line[i]; {
		case c == '\\' && l.quote != '\'':
			i++
		case c == l.quote:
			l.quote = 0
		case l.quote == 0 && (c == '"' || c == '\''):
			l.quote, l.opened = c, i
		case l.quote == 0 && c == '#' && (i == 0 || isBlank(l.line[i-1])):
			return
		case isBlank(c):
			l.blank = i
		case c == '=':
			l.assignment(i, from)
		case c == '-' && (i == from || isBoundary(l.line[i-1])):
			l.option(i)
		}
	}
}

// assignment reads KEY=VALUE around the equals sign.
func (l *lineReader) assignment(equals, from int) {
	end := equals
	for l.loose && end > from && isBlank(l.line[end-1]) {
		end--
	}
	start := end
	for start > from && isKeyByte(l.line[start-1]) {
		start--
	}
	key := strings.TrimLeft(l.line[start:end], "+~")
	switch {
	case key == "" || strings.HasSuffix(key, "+") || strings.HasSuffix(key, "-"): // A += B appends
		return
	case start > from && !isBoundary(l.line[start-1]):
		return
	case strings.HasPrefix(l.line[equals+1:], "="):
		return
	case end < equals && strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(l.line[from:start]), "export")) != "":
		return
	}
	at := equals + 1
	for l.loose && at < len(l.line) && isBlank(l.line[at]) {
		at++
	}
	l.add(key, at, l.quote != 0 && l.opened > l.blank)
}

// option reads --option VALUE.
func (l *lineReader) option(start int) {
	end := start
	for end < len(l.line) && isKeyByte(l.line[end]) {
		end++
	}
	at := end
	for at < len(l.line) && isBlank(l.line[at]) {
		at++
	}
	if at == end || at == len(l.line) || strings.Trim(l.line[start:end], "-") == "" || strings.IndexByte("-\\#;|&<>", l.line[at]) >= 0 {
		return
	}
	l.add(l.line[start:end], at, false)
}

func (l *lineReader) add(key string, at int, whole bool) {
	v := l.value(at, whole)
	v.kind = textKind(v.text)
	v.start, v.end = v.start+l.at, v.end+l.at
	l.root.keys = append(l.root.keys, l.prefix+key)
	l.root.items = append(l.root.items, &node{shape: value, line: l.number, leaf: v})
}

// value reads the value at an offset of the line. whole reports that the open quote starts right before the key:
// "key=a value".
func (l *lineReader) value(at int, whole bool) leaf {
	v := leaf{inside: l.quote}
	stop := " \t;&|()<>`'\""
	if l.loose {
		stop += ","
	}
	if rest := l.line[at:]; l.quote == 0 && rest != "" && (rest[0] == '"' || rest[0] == '\'') {
		v.quote, stop = rest[0], rest[:1]
		at++
	} else if whole {
		stop = string(l.quote)
	}
	v.start, v.end = at, min(len(l.line), at+maxValue)
	if length := strings.IndexAny(l.line[at:v.end], stop); length >= 0 {
		v.end = at + length
	}
	v.text = l.line[v.start:v.end]
	if v.stuck = l.stuck(v); v.end == at+maxValue {
		v.stuck = "is too long"
	}
	return v
}

// short returns the start of a text, for display.
func short(s string) string {
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "…"
	}
	return strings.TrimSpace(s)
}

// stuck returns the reason why a value can't be changed.
func (l *lineReader) stuck(v leaf) string {
	rest := l.line[v.end:]
	special := "$`*?[]{}!\\~"
	switch {
	case v.quote == '\'' || v.inside == '\'':
		special = "\\"
	case v.quote == '"' || v.inside == '"':
		special = "$`\\"
	}
	if strings.ContainsAny(v.text, special) {
		return "is computed from other values (" + short(v.text) + ")"
	}
	if v.quote != 0 {
		if rest == "" {
			return "spans several lines"
		}
		rest = rest[1:]
	}
	next := strings.TrimLeft(rest, " \t")
	switch {
	case rest == "" || v.inside != 0 && rest[0] == v.inside:
		return ""
	case l.loose && next != "" && strings.IndexByte("#,);", next[0]) < 0 && v.inside == 0:
		return "is followed by other text (" + short(next) + ")"
	case strings.IndexByte(" \t;&|),", rest[0]) < 0:
		return "is followed by other text (" + short(rest) + ")"
	}
	return ""
}

func textKind(s string) kind {
	switch {
	case numberForm.MatchString(s):
		return number
	case s == "true" || s == "false" || s == "True" || s == "False" || s == "TRUE" || s == "FALSE":
		return boolean
	}
	return text
}

// isBoundary reports whether a word may start after c.
func isBoundary(c byte) bool { return isBlank(c) || strings.IndexByte("\"'(;&|{,`", c) >= 0 }

func isKeyByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_.-+~@/", c) >= 0
}
