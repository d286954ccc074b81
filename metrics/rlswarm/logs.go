package rlswarm

import (
	"errors"
	"path"
	"regexp"
	"strings"
)

// Google Drive names a duplicate file "metrics (1).jsonl". Early versions of rl-swarm wrote metrics.json.
var logName = regexp.MustCompile(`^(cumulative_)?metrics( \([0-9]+\))?\.jsonl?$`)

// readLogs reads logs/NODE/metrics.jsonl and cumulative_metrics.jsonl.
func (f *folder) readLogs(b *book) error {
	nodes, err := f.list("logs")
	if err != nil {
		return err
	}
	for _, node := range nodes {
		if strings.HasPrefix(node, ".") {
			continue
		}
		names, err := f.list(path.Join("logs", node))
		if err != nil {
			return err
		}
		for _, name := range names {
			if !logName.MatchString(name) {
				continue // stdout.log, stderr.log, system_info.txt …
			}
			if err := f.readLog(b, path.Join("logs", node, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *folder) readLog(b *book, name string) error {
	var fatal error
	err := f.lines(name, func(text []byte) error {
		var r row
		if err := decode(text, &r); err != nil {
			return err
		}
		x, err := r.logged()
		if err == nil && fatal == nil {
			fatal = b.add(x)
		}
		return err
	})
	return errors.Join(err, fatal)
}

// readPeers reads peers/*.json: the registered nodes and their times.
func (f *folder) readPeers(b *book, s *settings) error {
	names, err := f.list("peers")
	if err != nil {
		return err
	}
	for _, name := range names {
		file := path.Join("peers", name)
		if !strings.HasSuffix(name, ".json") {
			f.skipUnlessHidden(file)
			continue
		}
		var peer struct {
			PeerID       string  `json:"peer_id"`
			NodeRole     string  `json:"node_role"`
			RegisteredAt *number `json:"registered_at"`
		}
		ok, err := f.readJSON(file, maxSmallFile, &peer)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := checkNode(peer.PeerID); err != nil {
			f.report.problem(file, 0, err.Error())
			continue
		}
		s.begin(moment(peer.RegisteredAt))
		if peer.NodeRole == "worker" && len(b.registered) < maxNodes {
			b.registered[peer.PeerID] = true
		}
	}
	return nil
}
