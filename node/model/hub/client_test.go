package hub

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sapo-swarm/swarm/node/model/hub/hubtest"
)

func TestTokenGoesToTheEndpointAlone(t *testing.T) {
	hub := hubtest.New(t, testID, testFiles())
	c := testClient(t, hub.URL)
	c.Token = "hf_secret"
	if _, err := c.Pull(t.Context(), testID, Main, accept); err != nil {
		t.Fatal(err)
	}
	for _, r := range hub.Requests() {
		want := "Bearer hf_secret"
		if r.AtStorage {
			want = ""
		}
		if r.Authorization != want {
			t.Errorf("%s %s carried %q, want %q", r.Method, r.Path, r.Authorization, want)
		}
	}
}

// seen is a transport that returns empty responses and keeps the last request.
type seen struct{ request *http.Request }

func (s *seen) RoundTrip(r *http.Request) (*http.Response, error) {
	s.request = r
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

func TestTokenTravelsEncryptedOrNotAtAll(t *testing.T) {
	for _, test := range []struct {
		endpoint, address string
		sent              bool
	}{
		{"https://huggingface.co", "https://huggingface.co/api/models/gpt2", true},
		{"https://huggingface.co", "https://cdn.huggingface.co/x", false},
		{"https://huggingface.co", "https://huggingface.co.evil.example/x", false},
		{"https://huggingface.co", "http://huggingface.co/x", false},
		{"http://mirror.example", "http://mirror.example/x", false},
		{"http://127.0.0.1:8000", "http://127.0.0.1:8000/x", true},
		{"http://127.0.0.1:8000", "http://127.0.0.1:8001/x", false},
	} {
		transport := &seen{}
		c := &Client{Endpoint: test.endpoint, Token: "hf_secret", transport: transport}
		request, err := http.NewRequest(http.MethodGet, test.address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.RoundTrip(request); err != nil {
			t.Fatal(err)
		}
		if got := transport.request.Header.Get("Authorization") != ""; got != test.sent {
			t.Errorf("%+v: sent %v", test, got)
		}
	}
}

func TestNoRedirectFromEncryptedToOpen(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.Error("followed") }))
	defer plain.Close()
	encrypted := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	defer encrypted.Close()
	c := testClient(t, encrypted.URL)
	c.transport = encrypted.Client().Transport
	if _, err := c.Pull(t.Context(), testID, Main, accept); err == nil || !strings.Contains(err.Error(), "redirected from https to http") {
		t.Error(err)
	}
}

func TestFromEnvironment(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("hf_file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		env                    map[string]string
		endpoint, token, cache string
		err                    string
	}{
		"nothing":         {map[string]string{"HOME": "/h"}, "https://huggingface.co", "", "/h/.cache/huggingface/hub", ""},
		"XDG":             {map[string]string{"HOME": "/h", "XDG_CACHE_HOME": "/x"}, "https://huggingface.co", "", "/x/huggingface/hub", ""},
		"HF_HOME":         {map[string]string{"HOME": "/h", "HF_HOME": dir}, "https://huggingface.co", "hf_file", dir + "/hub", ""},
		"tilde":           {map[string]string{"HOME": "/h", "HF_HOME": "~/hf"}, "https://huggingface.co", "", "/h/hf/hub", ""},
		"cache":           {map[string]string{"HF_HUB_CACHE": "/c", "HUGGINGFACE_HUB_CACHE": "/d", "HOME": "/h"}, "https://huggingface.co", "", "/c", ""},
		"old cache":       {map[string]string{"HUGGINGFACE_HUB_CACHE": "/d", "HOME": "/h"}, "https://huggingface.co", "", "/d", ""},
		"token wins":      {map[string]string{"HOME": "/h", "HF_HOME": dir, "HF_TOKEN": " hf_env\n"}, "https://huggingface.co", "hf_env", dir + "/hub", ""},
		"token path":      {map[string]string{"HOME": "/h", "HF_TOKEN_PATH": dir + "/token"}, "https://huggingface.co", "hf_file", "/h/.cache/huggingface/hub", ""},
		"implicit is off": {map[string]string{"HOME": "/h", "HF_HOME": dir, "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}, "https://huggingface.co", "", dir + "/hub", ""},
		"mirror":          {map[string]string{"HOME": "/h", "HF_ENDPOINT": "https://mirror.example/"}, "https://mirror.example", "", "/h/.cache/huggingface/hub", ""},
		"no address":      {map[string]string{"HOME": "/h", "HF_ENDPOINT": "mirror"}, "", "", "", `bad HF_ENDPOINT "mirror": allowed: an address such as https://huggingface.co`},
		"another scheme":  {map[string]string{"HOME": "/h", "HF_ENDPOINT": "ftp://x"}, "", "", "", "bad HF_ENDPOINT"},
		"no token":        {map[string]string{"HOME": "/h", "HF_TOKEN": "two words"}, "", "", "", "HF_TOKEN is not a token"},
		"no home":         {nil, "", "", "", "neither HF_HOME nor HOME is set"},
	} {
		c, err := FromEnvironment(func(name string) string { return test.env[name] })
		switch {
		case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
			t.Errorf("%s: %v, want %q", name, err, test.err)
		case test.err == "" && (err != nil || c.Endpoint != test.endpoint || c.Token != test.token || c.Cache != test.cache):
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

func TestParseName(t *testing.T) {
	for text, want := range map[string][2]string{
		"gpt2": {"openai-community/gpt2", "main"}, "gpt2@v1.0": {"openai-community/gpt2", "v1.0"},
		"Qwen/Qwen2.5-0.5B-Instruct": {"Qwen/Qwen2.5-0.5B-Instruct", "main"}, "a/b@" + hubtest.Commit: {"a/b", hubtest.Commit},
	} {
		if id, revision, err := ParseName(text); err != nil || id != want[0] || revision != want[1] {
			t.Errorf("%s: %s, %s, %v", text, id, revision, err)
		}
	}
	for _, text := range []string{"", "a/b/c", "../x", "a/..", "a b", "gpt2@", "gpt2@../x", "gpt2@a/b", "a--b", "https://huggingface.co/gpt2", ".", "a/.b"} {
		if _, _, err := ParseName(text); err == nil {
			t.Errorf("%q is taken for a name", text)
		}
	}
}
