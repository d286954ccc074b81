package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"

	"github.com/sapo-swarm/swarm/metrics/charts"
)

//go:embed page
var page embed.FS

// asset is a file as sent.
type asset struct {
	kind string // Content-Type
	tag  string // ETag
	body []byte
}

func newAsset(kind string, body []byte) asset {
	sum := sha256.Sum256(body)
	return asset{kind, `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`, body}
}

// kinds maps extensions to content types. The host's own table of types is unreliable.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

// assets returns the files of the page and of metrics/charts, by path.
func assets() (map[string]asset, error) {
	all := map[string]asset{}
	err := fs.WalkDir(page, "page", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		kind := kinds[path.Ext(name)]
		if kind == "" {
			return nil // notes or sources
		}
		body, err := page.ReadFile(name)
		if name = name[len("page"):]; name == "/index.html" {
			name = "/"
		}
		all[name] = newAsset(kind, body)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("dashboard: its page: %w", err)
	}
	for _, a := range charts.Assets() {
		if _, _, err := mime.ParseMediaType(a.Type); err != nil {
			return nil, errors.New("dashboard: charts: " + a.Name + " has no type")
		}
		all["/charts/"+a.Name] = newAsset(a.Type, []byte(a.Text))
	}
	return all, nil
}

func (s *Server) static(all map[string]asset) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a, ok := all[r.URL.Path]
		if !ok {
			s.refuse(w, r, &problem{http.StatusNotFound, "there is no page " + clip(r.URL.Path)})
			return
		}
		w.Header().Set("ETag", a.tag)
		w.Header().Set("Cache-Control", "private, no-cache")
		if r.Header.Get("If-None-Match") == a.tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", a.kind)
		_, _ = w.Write(a.body)
	}
}
