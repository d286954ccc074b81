// Package hubtest is a fake Hugging Face hub for tests. It serves the endpoints that a download needs on this
// machine, with large files on a second server, like the real hub. Its answers follow huggingface_hub's client and
// recorded answers of the real hub. It imports nothing of this module.
package hubtest

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Commit is the only commit of every model.
const Commit = "607a30d783dfa663caf39e06633721c8d4cfcd7e"

// Hub is a hub with one model.
type Hub struct {
	URL     string // of the endpoint
	Storage string // URL of the server with the large files (*.safetensors, *.bin)

	id    string
	files map[string][]byte

	mutex     sync.Mutex
	requests  []Request
	intercept Interceptor
	sparse    bool
}

// Interceptor may answer a request itself. It returns false to let the hub answer. atStorage reports which server
// received the request.
type Interceptor func(w http.ResponseWriter, r *http.Request, atStorage bool) bool

// Intercept calls f before every later answer. nil removes it.
func (h *Hub) Intercept(f Interceptor) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.intercept = f
}

// Sparse makes later listings omit sizes and hashes, as some mirrors do.
func (h *Hub) Sparse() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.sparse = true
}

// Request is a request that a server received.
type Request struct {
	Method, Path, Range, Authorization string
	AtStorage                          bool
}

// New serves a model's files until the test ends.
func New(t testing.TB, id string, files map[string][]byte) *Hub {
	t.Helper()
	h := &Hub{id: id, files: files}
	hub, storage := httptest.NewUnstartedServer(h.handler(false)), httptest.NewUnstartedServer(h.handler(true))
	// Set both addresses before the servers start: the handlers use them.
	h.URL, h.Storage = "http://"+hub.Listener.Addr().String(), "http://"+storage.Listener.Addr().String()
	hub.Start()
	storage.Start()
	t.Cleanup(func() { hub.Close(); storage.Close() })
	return h
}

// Requests lists the requests to both servers so far, in order.
func (h *Hub) Requests() []Request {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return slices.Clone(h.requests)
}

// Hash is the hub's hash of a file's content.
func (h *Hub) Hash(name string) string { return Hash(name, h.files[name]) }

// Hash is a large file's sha256, or the hash of a small file's git blob.
func Hash(name string, data []byte) string {
	if isLarge(name) {
		sum := sha256.Sum256(data)
		return hex.EncodeToString(sum[:])
	}
	sum := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(data)), data...))
	return hex.EncodeToString(sum[:])
}

func isLarge(name string) bool {
	return strings.HasSuffix(name, ".safetensors") || strings.HasSuffix(name, ".bin")
}

func (h *Hub) handler(atStorage bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mutex.Lock()
		h.requests = append(h.requests, Request{r.Method, r.URL.Path, r.Header.Get("Range"), r.Header.Get("Authorization"), atStorage})
		intercept, sparse := h.intercept, h.sparse
		h.mutex.Unlock()
		switch {
		case intercept != nil && intercept(w, r, atStorage):
		case atStorage:
			h.serveStorage(w, r)
		default:
			h.serveHub(w, r, sparse)
		}
	})
}

func (h *Hub) serveStorage(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/blob/")
	data, ok := h.files[name]
	if !ok || r.URL.Query().Get("signature") != "valid" {
		http.Error(w, "AccessDenied", http.StatusForbidden)
		return
	}
	w.Header().Set("Etag", `"of the storage's own, 7"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

func (h *Hub) serveHub(w http.ResponseWriter, r *http.Request, sparse bool) {
	refuse := func(status int, code, message string) {
		w.Header().Set("X-Error-Code", code)
		w.Header().Set("X-Error-Message", message)
		http.Error(w, message, status)
	}
	if revision, ok := strings.CutPrefix(r.URL.Path, "/api/models/"+h.id+"/revision/"); ok {
		if revision != "main" && revision != Commit {
			refuse(http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+revision)
			return
		}
		h.list(w, r, sparse)
		return
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/"+h.id+"/resolve/"+Commit+"/")
	if !ok {
		refuse(http.StatusUnauthorized, "RepoNotFound", "Repository not found")
		return
	}
	data, ok := h.files[rest]
	if !ok {
		refuse(http.StatusNotFound, "EntryNotFound", "Entry not found")
		return
	}
	w.Header().Set("X-Repo-Commit", Commit)
	if isLarge(rest) {
		w.Header().Set("X-Linked-Etag", `"`+h.Hash(rest)+`"`)
		w.Header().Set("X-Linked-Size", fmt.Sprint(len(data)))
		http.Redirect(w, r, h.Storage+"/blob/"+rest+"?signature=valid", http.StatusFound)
		return
	}
	w.Header().Set("Etag", `W/"`+h.Hash(rest)+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

func (h *Hub) list(w http.ResponseWriter, r *http.Request, sparse bool) {
	var siblings []map[string]any
	for name, data := range h.files {
		file := map[string]any{"rfilename": name}
		if r.URL.Query().Get("blobs") == "true" && !sparse {
			file["size"], file["blobId"] = len(data), Hash("pointer", data)
			if isLarge(name) {
				file["lfs"] = map[string]any{"sha256": h.Hash(name), "size": len(data), "pointerSize": 135}
			}
		}
		siblings = append(siblings, file)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"id": h.id, "sha": Commit, "gated": false, "private": false, "siblings": siblings})
}
