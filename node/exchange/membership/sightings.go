package membership

import (
	"encoding/json"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/internal/files"
)

const (
	sightingsFile  = "seen.json"
	sightingsEvery = 10 * time.Second
)

// sightings records when workers were last seen, in a file beside the registry's. The file is not essential, so it is
// written rarely, and an invalid file counts as empty.
type sightings struct {
	path string

	mu      sync.Mutex
	last    map[string]sighting
	dirty   bool
	flushed time.Time
}

type sighting struct {
	Time float64 `json:"time"`
	Host string  `json:"host"`
}

func openSightings(path string) *sightings { return &sightings{path: path} }

func (s *sightings) load() map[string]sighting {
	read := map[string]sighting{}
	info, err := os.Stat(s.path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxRegistryBytes {
		return read
	}
	if data, err := os.ReadFile(s.path); err == nil && json.Unmarshal(data, &read) != nil || read == nil {
		return map[string]sighting{}
	}
	return read
}

func (s *sightings) note(worker, host string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = s.load()
	}
	known := s.last[worker]
	if host == "" {
		host = known.Host
	}
	if _, old := s.last[worker]; !old && len(s.last) >= maxEntries {
		return
	}
	s.last[worker] = sighting{Time: float64(at.UnixMicro()) / 1e6, Host: host}
	s.dirty = true
	if at.Sub(s.flushed) >= sightingsEvery {
		s.write(at)
	}
}

func (s *sightings) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(time.Now())
}

func (s *sightings) write(at time.Time) {
	if !s.dirty {
		return
	}
	s.flushed, s.dirty = at, false
	if data, err := json.Marshal(s.last); err == nil {
		_ = files.Replace(s.path, s.path+".tmp", data, 0o600) // a later write may succeed
	}
}

// all returns this process's sightings, or those in the file if it has none.
func (s *sightings) all() map[string]sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil {
		return maps.Clone(s.last)
	}
	return s.load()
}

// of returns when a worker was last seen, and whether any sightings exist.
func (s *sightings) of(worker string) (last float64, some bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.last
	if all == nil {
		all = s.load()
	}
	return all[worker].Time, len(all) > 0
}
