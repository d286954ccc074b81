package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Limits on data from a hub: an answer of its API, and a file other than weights.
const (
	maxAnswer    = 16 << 20
	maxSmallFile = 64 << 20
)

var (
	commitPattern = regexp.MustCompile(`^[0-9a-f]{40}$`)
	shardPattern  = regexp.MustCompile(`^model-\d{5}-of-\d{5}\.safetensors$`)
	sha256Pattern = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Files of a model.
const (
	configName  = "config.json"
	weightsName = "model.safetensors"
	indexName   = "model.safetensors.index.json"
)

// SmallFiles lists the tokenizer and generation files beside the weights. A model may lack any of them.
func SmallFiles() []string {
	return []string{
		"generation_config.json", "tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "special_tokens_map.json",
		"added_tokens.json", "chat_template.jinja",
	}
}

// ofWeights reports whether a file holds weights or their index. Pull downloads these last.
func ofWeights(name string) bool { return name == indexName || strings.HasSuffix(name, ".safetensors") }

// listing is the list of a model's files at one commit.
type listing struct {
	id, commit string
	files      []remote
}

// remote is one file. Its hash is a sha256 for files in large-file storage and git's blob hash (sha1) for others.
// The hash is the file's ETag at the hub, and its name in the cache.
type remote struct {
	name string
	size int64
	hash string
}

// list fetches the list of all files of a model's revision.
func (c *Client) list(ctx context.Context, id, revision string) (listing, error) {
	what := "model " + id
	if revision != Main {
		what = fmt.Sprintf("revision %s of model %s", revision, id)
	}
	var answer struct {
		SHA      string `json:"sha"`
		Siblings []struct {
			Name string `json:"rfilename"`
			Size *int64 `json:"size"`
			Blob string `json:"blobId"`
			LFS  *struct {
				SHA256 string `json:"sha256"`
				Size   int64  `json:"size"`
			} `json:"lfs"`
		} `json:"siblings"`
	}
	address := fmt.Sprintf("%s/api/models/%s/revision/%s?blobs=true", c.Endpoint, id, url.PathEscape(revision))
	err := c.retry(ctx, func() error {
		response, err := c.do(ctx, http.MethodGet, address, nil)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return c.judge(response, id, what)
		}
		data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
		if err != nil {
			return err
		}
		if len(data) > maxAnswer || json.Unmarshal(data, &answer) != nil || !commitPattern.MatchString(answer.SHA) {
			return &refusal{fmt.Sprintf("%s sends no listing of %s in the hub's format. Try: another HF_ENDPOINT", c.Host(), what)}
		}
		return nil
	})
	if err != nil {
		return listing{}, c.explain(err, id, false)
	}
	l := listing{id: id, commit: answer.SHA}
	for _, s := range answer.Siblings {
		file := remote{name: s.Name, hash: s.Blob, size: -1}
		if s.Size != nil {
			file.size = *s.Size
		}
		if s.LFS != nil {
			file.hash, file.size = s.LFS.SHA256, s.LFS.Size
		}
		l.files = append(l.files, file)
	}
	return l, nil
}

// config selects config.json.
func (l listing) config() ([]remote, error) {
	at := slices.IndexFunc(l.files, func(f remote) bool { return f.name == configName })
	if at < 0 {
		return nil, fmt.Errorf("model %s has no %s, so it is not a transformers model. Try: swarm model list", l.id, configName)
	}
	return l.files[at : at+1], nil
}

// rest selects the files to download besides config.json: the tokenizer's, then the weights in safetensors. It takes
// only known file names, so that no path leaves the cache.
func (l listing) rest() ([]remote, error) {
	names := map[string]remote{}
	for _, f := range l.files {
		names[f.name] = f
	}
	var chosen []remote
	add := func(name string) {
		if f, ok := names[name]; ok {
			chosen = append(chosen, f)
		}
	}
	for _, name := range SmallFiles() {
		add(name)
	}
	small := len(chosen)
	if add(weightsName); len(chosen) == small {
		add(indexName)
		for _, f := range l.files {
			if shardPattern.MatchString(f.name) {
				chosen = append(chosen, f)
			}
		}
	}
	if len(chosen) == small {
		other := ""
		for _, f := range l.files {
			if strings.HasSuffix(f.name, ".bin") || strings.HasSuffix(f.name, ".pt") || strings.HasSuffix(f.name, ".gguf") {
				other = ", only " + f.name + ", whose format is not supported (a pickled file can run code of its author)"
				break
			}
		}
		return nil, fmt.Errorf("model %s has no %s%s. Try: a revision that has it (NAME@REVISION), or convert it with transformers", l.id, weightsName, other)
	}
	return chosen, nil
}

// complete returns files of a listing with the sizes and hashes that it lacks, which mirrors may omit. It checks their
// sizes.
func (c *Client) complete(ctx context.Context, l listing, files []remote) ([]remote, error) {
	files = slices.Clone(files)
	for i, file := range files {
		if file.size < 0 || !commitPattern.MatchString(file.hash) && !sha256Pattern.MatchString(file.hash) {
			err := c.retry(ctx, func() (err error) {
				file, err = c.head(ctx, l.id, l.commit, file.name)
				return err
			})
			if err != nil {
				return nil, c.explain(err, l.id, false)
			}
			files[i] = file
		}
		if !strings.HasSuffix(file.name, ".safetensors") && file.size > maxSmallFile {
			return nil, fmt.Errorf("model %s: %s has %d bytes; allowed are %d. Try: swarm model list", l.id, file.name, file.size, maxSmallFile)
		}
	}
	return files, nil
}

// head reads a file's size and hash from the headers of the hub's own answer, before the redirect to storage.
func (c *Client) head(ctx context.Context, id, commit, name string) (remote, error) {
	client := c.client()
	follow := client.CheckRedirect
	client.CheckRedirect = func(request *http.Request, via []*http.Request) error {
		if request.URL.Host != via[0].URL.Host {
			return http.ErrUseLastResponse
		}
		return follow(request, via)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, c.resolve(id, commit, name), nil)
	if err != nil {
		return remote{}, err
	}
	request.Header.Set("Accept-Encoding", "identity") // sizes refer to the uncompressed file
	response, err := client.Do(request)
	if err != nil {
		return remote{}, unwrapURL(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode >= 400 {
		return remote{}, c.judge(response, id, name+" of model "+id)
	}
	hash := response.Header.Get("X-Linked-Etag")
	if hash == "" {
		hash = response.Header.Get("Etag")
	}
	hash = strings.Trim(strings.TrimPrefix(hash, "W/"), `"`)
	size := response.ContentLength
	if linked := response.Header.Get("X-Linked-Size"); linked != "" {
		if _, err := fmt.Sscan(linked, &size); err != nil {
			size = -1
		}
	}
	if size < 0 || !commitPattern.MatchString(hash) && !sha256Pattern.MatchString(hash) {
		text := fmt.Sprintf("%s lists neither size nor hash of %s, so a download could not be verified. Try: another HF_ENDPOINT", c.Host(), name)
		return remote{}, &refusal{text}
	}
	return remote{name: name, size: size, hash: hash}, nil
}

// resolve is the URL of a file.
func (c *Client) resolve(id, commit, name string) string {
	return fmt.Sprintf("%s/%s/resolve/%s/%s", c.Endpoint, id, commit, url.PathEscape(name))
}

// do sends one request. The caller closes the response's body.
func (c *Client) do(ctx context.Context, method, address string, header http.Header) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, err
	}
	for key, values := range header {
		request.Header[key] = slices.Clone(values)
	}
	response, err := c.client().Do(request)
	if err != nil {
		return nil, unwrapURL(err)
	}
	return response, nil
}

// unwrapURL removes the address from an error, because it may be a long signed one.
func unwrapURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// retry calls f until it succeeds, is refused, or has failed three times. Three tries are few, so that a user
// without a connection learns of it soon.
func (c *Client) retry(ctx context.Context, f func() error) error {
	for failed := 1; ; failed++ {
		err := f()
		var no *refusal
		switch {
		case err == nil || errors.As(err, &no) || failed == 3:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		if err := c.pause(ctx, delay(err, failed)); err != nil {
			return err
		}
	}
}
