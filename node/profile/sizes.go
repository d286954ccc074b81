package profile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
)

// ParseSizes reads a list such as 1,4,16. An empty text gives nil.
func ParseSizes(text string) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	var sizes []int
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 || n > 1<<20 {
			return nil, &configs.Error{Key: "sizes", Value: text, Allowed: "whole numbers from 1, such as 1,4,16"}
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}

// CheckSizes refuses sizes that a round cannot have, and lists that are too short for a line: each phase needs two
// sizes, if its round has two.
func CheckSizes(text string, sizes []int, c configs.Config) error {
	if sizes == nil {
		return nil
	}
	completions, sequences := c.MostOwn()*c.NumGenerations, c.Budget()*c.NumGenerations
	different := map[int]bool{}
	for _, n := range sizes {
		if n <= completions {
			different[n] = true
		}
	}
	if slices.Max(sizes) <= sequences && len(different) >= min(2, completions) {
		return nil
	}
	return &configs.Error{Key: "sizes", Value: text, Allowed: fmt.Sprintf("numbers from 1 to %d, the sequences of a round; at least two different numbers "+
		"must not exceed its %d completions", sequences, completions)}
}
