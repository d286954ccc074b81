package units

// maxName bounds the length of a name that Nearest compares, in bytes. A longer name is not a typing error.
const maxName = 60

// Nearest returns the name in known that the user probably meant. It returns "" if name is known, if no known name
// is close, or if several are equally close. The bound is one edit for names up to 3 bytes, two up to 8, and a
// third of the length beyond. Upper and lower case count as equal, and so do - and _.
func Nearest(name string, known []string) string {
	return NearestWithin(name, known, func(string) int {
		switch n := len(name); {
		case n <= 3:
			return 1
		case n <= 8:
			return 2
		default:
			return n / 3
		}
	})
}

// NearestWithin is Nearest with a custom bound: most returns the maximum number of edits to a known name.
func NearestWithin(name string, known []string, most func(known string) int) string {
	if len(name) > maxName {
		return ""
	}
	best, least, tie := "", maxName, false
	for _, k := range known {
		if k == name {
			return ""
		}
		d := EditDistance(fold(name), fold(k))
		if d > most(k) || d >= max(len(name), len(k)) {
			continue
		}
		switch {
		case d < least:
			best, least, tie = k, d, false
		case d == least && k != best:
			tie = true
		}
	}
	if tie {
		return ""
	}
	return best
}

// fold maps characters that users mix up to one: upper case to lower case (ASCII), and - to _.
func fold(name string) string {
	b := []byte(name)
	for i, c := range b {
		switch {
		case c >= 'A' && c <= 'Z':
			b[i] = c + 'a' - 'A'
		case c == '-':
			b[i] = '_'
		}
	}
	return string(b)
}

// EditDistance counts the bytes to insert, delete or replace to turn a into b. Swapping two neighbors counts as one
// edit (optimal string alignment distance).
func EditDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 0
			if a[i-1] != b[j-1] {
				cost = 1
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
