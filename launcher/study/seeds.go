package study

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
)

// maxSeeds bounds a sweep: more is a mistake in typing.
const maxSeeds = 1000

// manySeeds are more than a count of seeds commonly is: --seeds 42 may mean seed 42.
const manySeeds = 20

// Seeds are the seeds of --seeds: how many, from the configuration's own on, or a list.
type Seeds struct {
	count int
	list  []int64 // nil: count is meant
}

// ParseSeeds reads 3 (three seeds) or 1,5,9 (these). A list of one ends in a comma.
func ParseSeeds(text string) (Seeds, error) {
	refuse := &configs.Error{Key: "seeds", Value: text, Source: "--seeds",
		Allowed: "how many (1 to " + strconv.Itoa(maxSeeds) + "), or a list of different ones such as 1,5,9"}
	if !strings.Contains(text, ",") {
		count, err := strconv.Atoi(text)
		if err != nil || count < 1 || count > maxSeeds {
			return Seeds{}, refuse
		}
		return Seeds{count: count}, nil
	}
	var out Seeds
	for part := range strings.SplitSeq(strings.TrimSuffix(text, ","), ",") {
		seed, err := strconv.ParseInt(strings.TrimSpace(part), 10, 64)
		if err != nil || seed < 0 || seed > configs.MaxSeed || slices.Contains(out.list, seed) || len(out.list) == maxSeeds {
			return Seeds{}, refuse
		}
		out.list = append(out.list, seed)
	}
	return out, nil
}

// doubt is what to warn of where a count may be meant as a seed; else empty.
func (s Seeds) doubt(first int64) string {
	if s.count <= manySeeds {
		return ""
	}
	return fmt.Sprintf("--seeds %d is %d seeds of each, %d to %d; seed %d alone is --seeds %d,", s.count, s.count, first, s.at(s.count-1, first), s.count, s.count)
}

// len is how many seeds there are.
func (s Seeds) Len() int {
	if s.list != nil {
		return len(s.list)
	}
	return s.count
}

// at is seed number i of a configuration whose own seed is first.
func (s Seeds) at(i int, first int64) int64 {
	if s.list != nil {
		return s.list[i]
	}
	return first + int64(i)
}
