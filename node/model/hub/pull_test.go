package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sapo-swarm/swarm/node/model/hub/hubtest"
)

const testID = "someone/tiny"

// testWeights are random bytes, so that no part repeats.
var testWeights = sync.OnceValue(func() []byte {
	weights := make([]byte, 1<<20)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range weights {
		weights[i] = byte(rng.Uint32())
	}
	return weights
})

// testFiles are the files of a model, including some that a pull does not need.
func testFiles() map[string][]byte {
	weights := testWeights()
	return map[string][]byte{
		"config.json": []byte(`{"model_type":"gpt2"}`), "tokenizer.json": []byte(`{"model":{}}`), "model.safetensors": weights,
		"pytorch_model.bin": []byte("PK"), "README.md": []byte("# not needed"), "onnx/model.onnx": {1}, "../escape.safetensors": {1},
	}
}

// testClient returns a client with an empty cache and no waits between attempts.
func testClient(t testing.TB, endpoint string) *Client {
	t.Helper()
	cache := t.TempDir()
	c, err := FromEnvironment(func(name string) string {
		return map[string]string{"HF_ENDPOINT": endpoint + "/", "HF_HUB_CACHE": cache, "HOME": cache}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	c.pause = func(ctx context.Context, d time.Duration) error { return context.Cause(ctx) }
	return c
}

func accept([]byte) error { return nil }

func TestPullFillsTheCacheAsHuggingFaceDoes(t *testing.T) {
	files := testFiles()
	hub := hubtest.New(t, testID, files)
	c := testClient(t, hub.URL)
	var last Progress
	c.Progress = func(p Progress) { last = p }
	result, err := c.Pull(t.Context(), testID, Main, accept)
	if err != nil {
		t.Fatal(err)
	}
	repo := filepath.Join(c.Cache, "models--someone--tiny")
	if want := filepath.Join(repo, "snapshots", hubtest.Commit); result.Path != want {
		t.Errorf("path %s, want %s", result.Path, want)
	}
	want := []string{"config.json", "tokenizer.json", "model.safetensors"}
	if !slices.Equal(result.Files, want) {
		t.Errorf("files %v, want %v", result.Files, want)
	}
	var total int64
	for _, name := range want {
		link, err := os.Readlink(filepath.Join(result.Path, name))
		if err != nil || link != filepath.Join("..", "..", "blobs", hub.Hash(name)) {
			t.Errorf("%s leads to %q, %v", name, link, err)
		}
		if data, err := os.ReadFile(filepath.Join(result.Path, name)); err != nil || !bytes.Equal(data, files[name]) {
			t.Errorf("%s: %v, or other content", name, err)
		}
		total += int64(len(files[name]))
	}
	if ref, err := os.ReadFile(filepath.Join(repo, "refs", "main")); err != nil || string(ref) != hubtest.Commit {
		t.Errorf("refs/main is %q, %v", ref, err)
	}
	if result.Bytes != total || result.Downloaded != total || last.Done != total || last.Total != total {
		t.Errorf("%+v, last progress %+v, want %d bytes", result, last, total)
	}
	if leftovers, _ := filepath.Glob(filepath.Join(repo, "*", "*.incomplete")); len(leftovers) > 0 {
		t.Errorf("left behind: %v", leftovers)
	}
	if dir, err := Snapshot(c.Cache, testID, Main); err != nil || dir != result.Path {
		t.Errorf("Snapshot: %s, %v", dir, err)
	}
	if ids, err := Cached(c.Cache); err != nil || !slices.Equal(ids, []string{testID}) {
		t.Errorf("Cached: %v, %v", ids, err)
	}

	before := len(hub.Requests())
	again, err := c.Pull(t.Context(), testID, hubtest.Commit, accept)
	if err != nil || again.Downloaded != 0 || again.Path != result.Path || len(hub.Requests()) != before+1 {
		t.Errorf("the second pull: %+v, %v, %v", again, err, hub.Requests()[before:])
	}
}

// cutAfter makes storage break the connection after n bytes of a body, times times. A negative times means always.
func cutAfter(n int64, times int) func(w http.ResponseWriter, r *http.Request, atStorage bool) bool {
	return func(w http.ResponseWriter, r *http.Request, atStorage bool) bool {
		if !atStorage || times == 0 {
			return false
		}
		times--
		w.Header().Set("Content-Type", "application/octet-stream")
		var start int64
		status := http.StatusOK
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &start); err == nil {
			status = http.StatusPartialContent
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", start, 1<<20-1, 1<<20))
		}
		w.Header().Set("Content-Length", fmt.Sprint(1<<20-start))
		w.WriteHeader(status)
		_ = http.NewResponseController(w).Flush()
		_, _ = w.Write(testWeights()[start : start+n])
		panic(http.ErrAbortHandler)
	}
}

func ranges(hub *hubtest.Hub) (list []string) {
	for _, r := range hub.Requests() {
		if r.AtStorage {
			list = append(list, r.Range)
		}
	}
	return list
}

func TestPullGoesOnWhereItWasCut(t *testing.T) {
	hub := hubtest.New(t, testID, testFiles())
	hub.Intercept(cutAfter(100_000, 7)) // more often than attempts without progress are allowed
	c := testClient(t, hub.URL)
	result, err := c.Pull(t.Context(), testID, Main, accept)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"", "bytes=100000-", "bytes=200000-", "bytes=300000-", "bytes=400000-", "bytes=500000-", "bytes=600000-", "bytes=700000-"}
	if got := ranges(hub); !slices.Equal(got, want) {
		t.Errorf("asked for %q, want %q", got, want)
	}
	if result.Downloaded != result.Bytes {
		t.Errorf("%+v: bytes were downloaded twice", result)
	}
}

func TestPullStoppedGoesOnLater(t *testing.T) {
	hub := hubtest.New(t, testID, testFiles())
	c := testClient(t, hub.URL)
	ctx, stop := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	c.pause = func(context.Context, time.Duration) error { stop(interrupted); return context.Cause(ctx) }
	hub.Intercept(cutAfter(300_000, 1))
	if _, err := c.Pull(ctx, testID, Main, accept); !errors.Is(err, interrupted) {
		t.Fatalf("%v, want the reason it was stopped", err)
	}
	if _, err := Snapshot(c.Cache, testID, Main); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a snapshot with half of its weights is found: %v", err)
	}
	hub.Intercept(nil)
	if _, err := c.Pull(t.Context(), testID, Main, accept); err != nil {
		t.Fatal(err)
	}
	if got := ranges(hub); !slices.Equal(got, []string{"", "bytes=300000-"}) {
		t.Errorf("asked for %q", got)
	}
}

func TestPullOverOldRests(t *testing.T) {
	weights := testWeights()
	for name, test := range map[string]struct {
		rest []byte
		want []string // requested ranges
	}{
		"another program's first part": {weights[:500_000], []string{"bytes=500000-"}},
		"whole, but not yet named":     {weights, nil},
		"spoilt part":                  {append([]byte("spoilt"), weights[6:500_000]...), []string{"bytes=500000-", ""}},
		"spoilt whole":                 {append([]byte("spoilt"), weights[6:]...), []string{""}},
		"too long":                     {append(slices.Clone(weights), "more"...), nil},
	} {
		hub := hubtest.New(t, testID, testFiles())
		c := testClient(t, hub.URL)
		blobs := filepath.Join(c.Cache, "models--someone--tiny", "blobs")
		if err := errors.Join(os.MkdirAll(blobs, 0o755), os.WriteFile(filepath.Join(blobs, hub.Hash("model.safetensors")+".incomplete"), test.rest, 0o644)); err != nil {
			t.Fatal(err)
		}
		result, err := c.Pull(t.Context(), testID, Main, accept)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := os.ReadFile(filepath.Join(result.Path, "model.safetensors")); err != nil || !bytes.Equal(got, weights) {
			t.Errorf("%s: %v, or other content", name, err)
		}
		if got := ranges(hub); !slices.Equal(got, test.want) {
			t.Errorf("%s: asked for %q, want %q", name, got, test.want)
		}
	}
}

func TestPullFromAServerWithoutRanges(t *testing.T) {
	hub := hubtest.New(t, testID, testFiles())
	cut := cutAfter(100_000, 1)
	hub.Intercept(func(w http.ResponseWriter, r *http.Request, atStorage bool) bool {
		if cut(w, r, atStorage) {
			return true
		}
		r.Header.Del("Range")
		return false
	})
	c := testClient(t, hub.URL)
	var last Progress
	c.Progress = func(p Progress) { last = p }
	result, err := c.Pull(t.Context(), testID, Main, accept)
	if err != nil || result.Downloaded != result.Bytes+100_000 || last.Done != last.Total {
		t.Errorf("%+v, %v, %+v", result, err, last)
	}
}

func TestPullRefusesDamage(t *testing.T) {
	body := func(text []byte) func(http.ResponseWriter, *http.Request, bool) bool {
		return func(w http.ResponseWriter, r *http.Request, atStorage bool) bool {
			if atStorage {
				_, _ = w.Write(text)
			}
			return atStorage
		}
	}
	weights := testWeights()
	for name, test := range map[string]struct {
		intercept func(http.ResponseWriter, *http.Request, bool) bool
		want      string
		kept      bool // the part stays, for another attempt
	}{
		"truncated":   {body(weights[:1000]), "model.safetensors ended after 1000 of 1048576 bytes. Try: swarm model pull someone/tiny again: it continues", true},
		"broken off":  {cutAfter(0, -1), "model.safetensors ended after 0 of 1048576 bytes. Try: ", true},
		"other bytes": {body(bytes.Repeat([]byte("x"), len(weights))), "model.safetensors was damaged in transit: its hash is ", false},
	} {
		hub := hubtest.New(t, testID, testFiles())
		hub.Intercept(test.intercept)
		c := testClient(t, hub.URL)
		_, err := c.Pull(t.Context(), testID, Main, accept)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), ". Try: ") {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		blob := filepath.Join(c.Cache, "models--someone--tiny", "blobs", hub.Hash("model.safetensors"))
		if _, err := os.Stat(blob); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the damaged file has its name: %v", name, err)
		}
		if _, err := os.Stat(blob + ".incomplete"); (err == nil) != test.kept {
			t.Errorf("%s: kept %v, want %v", name, err == nil, test.kept)
		}
		if _, err := Snapshot(c.Cache, testID, Main); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a snapshot without weights is found: %v", name, err)
		}
	}
}

func TestPullExplainsRefusals(t *testing.T) {
	answer := func(status int, code string) func(http.ResponseWriter, *http.Request, bool) bool {
		return func(w http.ResponseWriter, r *http.Request, atStorage bool) bool {
			if code != "" {
				w.Header().Set("X-Error-Code", code)
			}
			w.WriteHeader(status)
			return true
		}
	}
	for name, test := range map[string]struct {
		intercept           func(http.ResponseWriter, *http.Request, bool) bool
		id, revision, token string
		want                string
		requests            int
	}{
		"gated":            {answer(401, "GatedRepo"), testID, Main, "", "model someone/tiny is gated: its owners grant access on request. Try: request access at ", 1},
		"gated, refused":   {answer(403, "GatedRepo"), testID, Main, "hf_x", "is gated", 1},
		"unknown":          {nil, "someone/other", Main, "", "has no model someone/other, or it is private. Try: ", 1},
		"no token":         {answer(401, ""), testID, Main, "", "has no model someone/tiny, or it is private. Try: ", 1},
		"bad token":        {answer(401, ""), testID, Main, "hf_x", "rejects the token (HF_TOKEN, or the file of hf auth login). Try: a new token", 1},
		"token too weak":   {answer(403, ""), testID, Main, "hf_x", "denies access to model someone/tiny with this token. Try: ", 1},
		"not found":        {answer(404, ""), testID, Main, "", "has no model someone/tiny", 1},
		"revision":         {nil, testID, "v9", "", "the hub has no revision v9 of model someone/tiny. Try: a branch, tag or commit", 1},
		"too many":         {answer(429, ""), testID, Main, "", "it answers 429 Too Many Requests. Try: ", 3},
		"down":             {answer(503, ""), testID, Main, "", "it answers 503 Service Unavailable. Try: ", 3},
		"teapot":           {answer(418, ""), testID, Main, "", "answers 418 I'm a teapot to the request for model someone/tiny", 1},
		"another language": {answer(200, ""), testID, Main, "", "sends no listing of model someone/tiny in the hub's format. Try: ", 1},
	} {
		hub := hubtest.New(t, testID, testFiles())
		hub.Intercept(test.intercept)
		c := testClient(t, hub.URL)
		c.Token = test.token
		_, err := c.Pull(t.Context(), test.id, test.revision, accept)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if got := len(hub.Requests()); got != test.requests {
			t.Errorf("%s: %d requests, want %d", name, got, test.requests)
		}
	}
}

func TestPullTriesAgain(t *testing.T) {
	hub := hubtest.New(t, testID, testFiles())
	failures := map[bool]int{false: 1, true: 2}
	var mutex sync.Mutex
	hub.Intercept(func(w http.ResponseWriter, r *http.Request, atStorage bool) bool {
		mutex.Lock()
		defer mutex.Unlock()
		if failures[atStorage] == 0 {
			return false
		}
		failures[atStorage]--
		w.Header().Set("Retry-After", "17")
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	c := testClient(t, hub.URL)
	var waits []time.Duration
	c.pause = func(ctx context.Context, d time.Duration) error { waits = append(waits, d); return nil }
	if _, err := c.Pull(t.Context(), testID, Main, accept); err != nil {
		t.Fatal(err)
	}
	if want := []time.Duration{17 * time.Second, 17 * time.Second, 17 * time.Second}; !slices.Equal(waits, want) {
		t.Errorf("waited %v, want %v", waits, want)
	}
}

func TestPullGivesUpASilentConnection(t *testing.T) {
	hub := hubtest.New(t, testID, testFiles())
	silent := 1
	hub.Intercept(func(w http.ResponseWriter, r *http.Request, atStorage bool) bool {
		if !atStorage || silent == 0 {
			return false
		}
		silent--
		w.Header().Set("Content-Length", fmt.Sprint(1<<20))
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return true
	})
	c := testClient(t, hub.URL)
	c.idle = 100 * time.Millisecond
	if _, err := c.Pull(t.Context(), testID, Main, accept); err != nil {
		t.Fatal(err)
	}
	if got := ranges(hub); len(got) != 2 {
		t.Errorf("%d connections to storage, want a silent one and another", len(got))
	}
}

func TestPullFromNowhere(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	_, err := testClient(t, server.URL).Pull(t.Context(), testID, Main, accept)
	if err == nil || !strings.Contains(err.Error(), "connection refused. Try: check the connection and HTTPS_PROXY, or set HF_ENDPOINT to a mirror") {
		t.Error(err)
	}
}

// The check of the small files comes before the first byte of weights.
func TestPullChecksBeforeTheWeights(t *testing.T) {
	hub := hubtest.New(t, testID, testFiles())
	client := testClient(t, hub.URL)
	refused := errors.New("refused")
	client.Ready = func(folder string) error {
		for name, want := range map[string]bool{"config.json": true, "tokenizer.json": true, "model.safetensors": false} {
			_, err := os.Stat(filepath.Join(folder, name))
			if there := err == nil; there != want {
				t.Errorf("%s is there: %v, want %v", name, there, want)
			}
		}
		return refused
	}
	if _, err := client.Pull(t.Context(), testID, Main, accept); !errors.Is(err, refused) {
		t.Errorf("%v, want the check's error", err)
	}
}

func TestPullChoosesItsFiles(t *testing.T) {
	shards := map[string][]byte{
		"config.json": []byte("{}"), "model.safetensors.index.json": []byte("{}"),
		"model-00001-of-00002.safetensors": {1}, "model-00002-of-00002.safetensors": {2}, "model-00001-of-00002.bin": {3},
	}
	hub := hubtest.New(t, testID, shards)
	result, err := testClient(t, hub.URL).Pull(t.Context(), testID, Main, accept)
	slices.Sort(result.Files)
	if want := []string{"config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"}; err != nil || !slices.Equal(result.Files, want) {
		t.Errorf("%v, %v, want %v", result.Files, err, want)
	}
	for want, files := range map[string]map[string][]byte{
		"has no model.safetensors, only pytorch_model.bin, whose format is not supported (a pickled file can run code of its author). Try: ": {
			"config.json": []byte("{}"), "pytorch_model.bin": {1}},
		"has no model.safetensors. Try: ":                                {"config.json": []byte("{}")},
		"has no config.json, so it is not a transformers model. Try: ":   {"model.safetensors": {1}},
		"tokenizer.json has 67108865 bytes; allowed are 67108864. Try: ": {"config.json": []byte("{}"), "model.safetensors": {1}, "tokenizer.json": make([]byte, maxSmallFile+1)},
	} {
		hub := hubtest.New(t, testID, files)
		if _, err := testClient(t, hub.URL).Pull(t.Context(), testID, Main, accept); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestPullAsksForHashesThatTheListingLacks(t *testing.T) {
	files := testFiles()
	hub := hubtest.New(t, testID, files)
	hub.Sparse()
	result, err := testClient(t, hub.URL).Pull(t.Context(), testID, Main, accept)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range result.Files {
		if link, err := os.Readlink(filepath.Join(result.Path, name)); err != nil || filepath.Base(link) != hub.Hash(name) {
			t.Errorf("%s leads to %q, %v", name, link, err)
		}
	}
	for _, r := range hub.Requests() {
		if r.AtStorage && r.Method == http.MethodHead {
			t.Error("asked storage, whose headers are of its own")
		}
	}
	hub = hubtest.New(t, testID, files)
	hub.Sparse()
	hub.Intercept(func(w http.ResponseWriter, r *http.Request, atStorage bool) bool { return r.Method == http.MethodHead })
	if _, err := testClient(t, hub.URL).Pull(t.Context(), testID, Main, accept); err == nil || !strings.Contains(err.Error(), "could not be verified") {
		t.Error(err)
	}
}

func TestPullStopsBeforeWeightsNobodyCanUse(t *testing.T) {
	hub := hubtest.New(t, testID, testFiles())
	refusal := errors.New("unknown architecture")
	_, err := testClient(t, hub.URL).Pull(t.Context(), testID, Main, func(config []byte) error {
		if string(config) != `{"model_type":"gpt2"}` {
			t.Errorf("config %q", config)
		}
		return refusal
	})
	if !errors.Is(err, refusal) || len(ranges(hub)) > 0 {
		t.Errorf("%v, %d requests for weights", err, len(ranges(hub)))
	}
}

// config.json is judged before the other files are chosen and before the space on the disk is.
func TestPullJudgesTheConfigurationFirst(t *testing.T) {
	hub := hubtest.New(t, testID, map[string][]byte{"config.json": []byte(`{"model_type":"bloom"}`), "pytorch_model.bin": testWeights()})
	c := testClient(t, hub.URL)
	c.free = func(string) (int64, error) { return 0, nil }
	refusal := errors.New("unknown architecture")
	if _, err := c.Pull(t.Context(), testID, Main, func([]byte) error { return refusal }); !errors.Is(err, refusal) {
		t.Errorf("%v, want the error of the configuration", err)
	}
}

func TestPullNeedsRoom(t *testing.T) {
	hub := hubtest.New(t, testID, testFiles())
	c := testClient(t, hub.URL)
	c.free = func(string) (int64, error) { return diskReserve + 1<<20 - 1, nil }
	_, err := c.Pull(t.Context(), testID, Main, accept)
	if err == nil || !strings.Contains(err.Error(), "model someone/tiny needs 269 MB more on the disk of ") || len(ranges(hub)) > 0 {
		t.Error(err)
	}
}

func TestPullMeetsAnUnwritableDisk(t *testing.T) {
	hub := hubtest.New(t, testID, testFiles())
	c := testClient(t, hub.URL)
	// A folder in place of the incomplete file fails like a broken disk, also for root.
	if err := os.MkdirAll(filepath.Join(c.Cache, "models--someone--tiny", "blobs", hub.Hash("model.safetensors")+".incomplete"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := c.Pull(t.Context(), testID, Main, accept)
	if err == nil || !strings.Contains(err.Error(), "is a directory. Try: fix that and repeat the command") || len(ranges(hub)) > 0 {
		t.Errorf("%v, %d requests for weights", err, len(ranges(hub)))
	}
}

func TestConcurrentPullsDownloadOnce(t *testing.T) {
	hub := hubtest.New(t, testID, testFiles())
	first := testClient(t, hub.URL)
	var group sync.WaitGroup
	for range 6 {
		c := testClient(t, hub.URL)
		c.Cache = first.Cache
		group.Go(func() {
			result, err := c.Pull(t.Context(), testID, Main, accept)
			if err != nil {
				t.Error(err)
				return
			}
			if data, err := os.ReadFile(filepath.Join(result.Path, "model.safetensors")); err != nil || len(data) != 1<<20 {
				t.Errorf("%d bytes, %v", len(data), err)
			}
		})
	}
	group.Wait()
	if got := ranges(hub); len(got) != 1 {
		t.Errorf("the weights were downloaded %d times", len(got))
	}
}

func TestPullOffline(t *testing.T) {
	hub := hubtest.New(t, testID, testFiles())
	c, err := FromEnvironment(func(name string) string {
		return map[string]string{"HF_ENDPOINT": hub.URL, "HF_HUB_OFFLINE": "1", "HOME": "/nowhere"}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Pull(t.Context(), testID, Main, accept); err == nil || !strings.Contains(err.Error(), "HF_HUB_OFFLINE forbids the download") || len(hub.Requests()) > 0 {
		t.Error(err)
	}
}
