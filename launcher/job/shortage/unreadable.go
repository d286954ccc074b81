package shortage

import "bytes"

// headBytes is the number of first bytes that Unreadable checks.
const headBytes = 512

// Unreadable returns the format of bytes that are not single-byte or UTF-8 text, such as "UTF-16", or "" if the text
// is readable. PowerShell's > writes UTF-16.
func (s *Scanner) Unreadable() string {
	h := s.head
	switch {
	case bytes.HasPrefix(h, []byte{0x1f, 0x8b}):
		return "compressed with gzip"
	case bytes.HasPrefix(h, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return "compressed with zstd"
	case bytes.HasPrefix(h, []byte("\xfd7zXZ")), bytes.HasPrefix(h, []byte("BZh")):
		return "compressed"
	case bytes.HasPrefix(h, []byte{0xff, 0xfe, 0, 0}), bytes.HasPrefix(h, []byte{0, 0, 0xfe, 0xff}):
		return "UTF-32"
	case bytes.HasPrefix(h, []byte{0xff, 0xfe}), bytes.HasPrefix(h, []byte{0xfe, 0xff}):
		return "UTF-16"
	}
	// Without a byte order mark: every other byte of text in Latin letters is 0.
	var zeros [2]int
	for i, b := range h {
		if b == 0 {
			zeros[i%2]++
		}
	}
	half := len(h) / 2
	if half >= 8 && (zeros[0] > half*3/4 && zeros[1] < half/4 || zeros[1] > half*3/4 && zeros[0] < half/4) {
		return "UTF-16"
	}
	return ""
}
