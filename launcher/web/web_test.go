package web

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/hermetic"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/runlog"
	"github.com/sapo-swarm/swarm/metrics/dashboard"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

func TestMain(m *testing.M) { os.Exit(hermetic.Main(m)) }

func listenFor(t *testing.T, o Options) (*Service, *http.Client) {
	t.Helper()
	o.Home, o.Logger = layout.Home(t.TempDir()), slog.New(slog.DiscardHandler)
	d, err := Listen(t.Context(), o)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	return d, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
}

// status returns the status code for a GET request to an address.
func status(t *testing.T, client *http.Client, address string, header ...string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := client.Do(request)
	require.NoError(t, err)
	response.Body.Close()
	return response.StatusCode
}

// Every user of a machine can reach its loopback, so the page requires the home's token there as well. Only the
// home's owner can read the token's file.
func TestADashboardAsksForItsHomesToken(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", "0.0.0.0:0"} {
		d, client := listenFor(t, Options{Listen: listen})
		address := fmt.Sprintf("http://127.0.0.1:%d/", d.listener.Addr().(*net.TCPAddr).Port)
		require.Equal(t, http.StatusUnauthorized, status(t, client, address+"api/runs"))
		info, err := os.Stat(d.TokenFile())
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		token, err := os.ReadFile(d.TokenFile())
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status(t, client, address+"metrics", "Authorization", "Bearer "+strings.TrimSpace(string(token))))
		require.NotContains(t, d.URL(), strings.TrimSpace(string(token)))
		require.Equal(t, d.URL()+"?token="+strings.TrimSpace(string(token)), d.Link())
		require.Equal(t, listen == "0.0.0.0:0", strings.Contains(strings.Join(d.notes, "\n"), "without TLS the token and the page travel unencrypted"))

		var out, log strings.Builder
		d.Tell(&out, &log)
		require.Equal(t, "Dashboard: "+d.URL()+"\n", out.String(), "no terminal")
		require.Contains(t, log.String(), d.TokenFile())

		again, err := homeToken(d.home)
		require.NoError(t, err)
		require.Equal(t, d.token, again, "it stays")
		require.NoError(t, os.Chmod(d.TokenFile(), 0o644))
		fresh, err := homeToken(d.home)
		require.NoError(t, err)
		require.NotEqual(t, d.token, fresh, "others could read it")
		entries, err := os.ReadDir(string(d.home))
		require.NoError(t, err)
		require.Len(t, entries, 1)
	}
	d, client := listenFor(t, Options{Listen: "127.0.0.1:0", Token: "0123456789abcdef"})
	require.NoFileExists(t, d.home.DashboardToken())
	require.Equal(t, http.StatusUnauthorized, status(t, client, d.URL()+"api/runs"))
	d, client = listenFor(t, Options{Listen: "localhost:0", NoToken: true})
	require.NoFileExists(t, d.home.DashboardToken())
	require.Equal(t, http.StatusOK, status(t, client, d.URL()+"healthz"))
	require.NotEqual(t, http.StatusUnauthorized, status(t, client, d.URL()+"api/runs"))
	require.Equal(t, d.URL(), d.Link())
	for _, o := range []Options{{Listen: "0.0.0.0:0", NoToken: true}, {Listen: "127.0.0.1:0", NoToken: true, Token: "0123456789abcdef"}} {
		o.Home, o.Logger = layout.Home(t.TempDir()), slog.New(slog.DiscardHandler)
		_, err := Listen(t.Context(), o)
		var usage *fail.UsageError
		require.ErrorAs(t, err, &usage)
	}
}

// Dashboards that start at the same time get the same token.
func TestTheHomesTokenIsMadeOnce(t *testing.T) {
	home := layout.Home(filepath.Join(t.TempDir(), "home"))
	tokens := make(chan string, 8)
	for range cap(tokens) {
		go func() {
			token, err := homeToken(home)
			if err != nil {
				token = err.Error()
			}
			tokens <- token
		}()
	}
	first := <-tokens
	for range cap(tokens) - 1 {
		require.Equal(t, first, <-tokens)
	}
	info, err := os.Stat(string(home))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

// Other users can read the arguments of the browser's command, so the token is in a file that only this user can
// read.
func TestTheBrowserIsNotGivenTheTokenAsAnArgument(t *testing.T) {
	bin := t.TempDir()
	given := filepath.Join(bin, "given")
	for _, name := range []string{"xdg-open", "open"} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\necho \"$1\" >"+given+"\ncp \"$1\" "+given+".page\n"), 0o755))
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	d, _ := listenFor(t, Options{Listen: "127.0.0.1:0"})
	ctx, stop := context.WithCancel(t.Context())
	d.Show(ctx)
	path, err := os.ReadFile(given)
	require.NoError(t, err)
	require.NotContains(t, string(path), d.token)
	info, err := os.Stat(strings.TrimSpace(string(path)))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	page, err := os.ReadFile(given + ".page")
	require.NoError(t, err)
	require.Contains(t, string(page), d.Link())
	stop()
	require.Eventually(t, func() bool { _, err := os.Stat(strings.TrimSpace(string(path))); return os.IsNotExist(err) }, time.Minute, 5*time.Millisecond)
}

func TestDashboardSpeaksTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	o := Options{Listen: "127.0.0.1:0", Token: "0123456789abcdef", TLSCert: filepath.Join(dir, "c"), TLSKey: filepath.Join(dir, "k")}
	require.NoError(t, os.WriteFile(o.TLSCert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(o.TLSKey, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	d, client := listenFor(t, o)
	require.True(t, strings.HasPrefix(d.url, "https://"))
	response, err := client.Get(d.Link())
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, 2, response.ProtoMajor, "many streams on one connection")
	require.True(t, response.Cookies()[0].Secure)
}

func TestLogWindowKeepsWhatLiesAround(t *testing.T) {
	window := func(around float64, lines, total int) []string {
		w := &logWindow{ctx: t.Context(), query: dashboard.LogQuery{Around: around, Lines: lines}}
		for i := range total {
			if w.take(runlog.Line{Log: "node_0", Time: time.Unix(int64(i), 0), Text: fmt.Sprint(i)}) != nil {
				break
			}
		}
		w.trim(lines)
		var texts []string
		for _, l := range w.lines {
			texts = append(texts, l.Text)
		}
		return texts
	}
	require.Equal(t, []string{"7", "8", "9"}, window(0, 3, 10), "the newest")
	require.Equal(t, []string{"499", "500", "501", "502"}, window(500.5, 4, 1000), "half before, half after")
	require.Equal(t, []string{"997", "998", "999"}, window(5000, 3, 1000), "the last before")
	require.Equal(t, []string{"0", "1", "2"}, window(0.5, 3, 10), "the first after")
	require.True(t, slices.Equal([]string{"0"}, window(5, 3, 1)))
}

func TestRunsOfOneModelShareItsTokenizer(t *testing.T) {
	f := &runFolders{home: layout.Home(t.TempDir())}
	tokens, err := tokenizer.Open(tokenizer.NameGPT2, "")
	require.NoError(t, err)
	f.texts = map[string]*runText{"a-1": {config: configs.Config{Model: "a-model"}, tokens: tokens}}
	again, err := f.tokenizer("a-model")
	require.NoError(t, err)
	require.Same(t, tokens, again)
	_, err = f.tokenizer("nosuch")
	require.Error(t, err)
}
