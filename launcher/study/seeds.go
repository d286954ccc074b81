package study

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
)

// maxSeeds bounds the seeds of a sweep. A larger number is a typing error.
const maxSeeds = 1000

// manySeeds is the largest usual number of seeds. A larger one, such as --seeds 42, may mean a single seed.
const manySeeds = 20

// Seeds are the seeds of --seeds: a number of seeds that starts at the configuration's own, or a list.
type Seeds struct {
	count int
	list  []int64 // nil: use count
	skip  []int64 // explored seeds of a study, which are not counted
}

// ParseSeeds parses 3 (three seeds) or 1,5,9 (these seeds). A list of one seed ends with a comma.
func ParseSeeds(text string) (Seeds, error) {
	refuse := &configs.Error{Key: "seeds", Value: text, Source: "--seeds",
		Allowed: "how many (1 to " + strconv.Itoa(maxSeeds) + "), or a list of different seeds such as 1,5,9"}
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

// doubt returns a warning if a number of seeds may be meant as a seed, else "".
func (s Seeds) doubt(first int64) string {
	if s.count <= manySeeds {
		return ""
	}
	return fmt.Sprintf("--seeds %d is %d seeds of each, %d to %d; seed %d alone is --seeds %d,", s.count, s.count, first, s.at(s.count-1, first), s.count, s.count)
}

// Len returns the number of seeds.
func (s Seeds) Len() int {
	if s.list != nil {
		return len(s.list)
	}
	return s.count
}

// at returns seed number i of a configuration whose own seed is first. It skips explored seeds.
func (s Seeds) at(i int, first int64) int64 {
	if s.list != nil {
		return s.list[i]
	}
	seed := first
	for ; ; seed++ {
		if !slices.Contains(s.skip, seed) {
			if i--; i < 0 {
				return seed
			}
		}
	}
}

// List returns the listed seeds; nil for a number of seeds.
func (s Seeds) List() []int64 { return s.list }
