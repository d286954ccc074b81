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

func TestDashboardBeyondThisMachineHasAToken(t *testing.T) {
	d, client := listenFor(t, Options{Listen: "0.0.0.0:0"})
	require.True(t, d.secret)
	require.Contains(t, d.url, "/?token=")
	require.Contains(t, strings.Join(d.notes, "\n"), "without TLS the token and everything shown travel in clear")
	port := d.listener.Addr().(*net.TCPAddr).Port
	response, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/api/runs", port))
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, http.StatusUnauthorized, response.StatusCode)

	d, _ = listenFor(t, Options{Listen: "localhost:0"})
	require.False(t, d.secret, "on this machine nobody needs one")
	d, _ = listenFor(t, Options{Listen: "127.0.0.1:0", Token: "0123456789abcdef"})
	require.True(t, d.secret, "but may ask for one")
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
	response, err := client.Get(d.url)
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
