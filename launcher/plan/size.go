package plan

import (
	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/units"
)

// Size holds the text of a size in bytes. As with resolve.KeyFlag, the text is parsed after all flags are known. An
// empty text is an error.
type Size struct {
	Text  string
	Given bool
}

func (s *Size) String() string { return s.Text }

func (s *Size) Set(text string) error {
	s.Text, s.Given = text, true
	return nil
}

func (s *Size) Type() string { return "size" }

// Bytes returns the size, or 0 if the flag is not set. A GB is 10^9 bytes.
func (s *Size) Bytes(key string) (int64, error) {
	if !s.Given {
		return 0, nil
	}
	size, err := units.ParseSize(s.Text, units.GB)
	if err != nil {
		return 0, &configs.Error{Key: key, Value: s.Text, Allowed: units.SizeForms}
	}
	return size, nil
}
