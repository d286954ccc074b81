package natsbus

import (
	"crypto/tls"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func pemOf(c tls.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})
}

// The fingerprint survives restarts, renewals and changed host names. Invitations remain valid as long as the key
// exists.
func TestCertificateKeepsItsFingerprint(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls")
	first, fingerprint, err := Certificate(dir, []string{"example.org", "10.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	same, again, err := Certificate(dir, []string{"10.0.0.1"})
	if err != nil || again != fingerprint || !same.Leaf.Equal(first.Leaf) {
		t.Errorf("again: %s and %s, %v", fingerprint, again, err)
	}
	other, again, err := Certificate(dir, []string{"example.com"})
	if err != nil || again != fingerprint || other.Leaf.Equal(first.Leaf) || other.Leaf.VerifyHostname("example.com") != nil {
		t.Errorf("another host: %s and %s, %v", fingerprint, again, err)
	}
	later := time.Now().Add(certificateLife - renewBefore + time.Hour)
	renewed, err := certificate(dir, []string{"example.com"}, later)
	if err != nil || Fingerprint(renewed.Leaf) != fingerprint || !renewed.Leaf.NotAfter.After(later.Add(renewBefore)) {
		t.Errorf("renewed: until %v, %v", renewed.Leaf.NotAfter, err)
	}
	info, err := os.Stat(filepath.Join(dir, keyFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(filepath.Join(dir, keyFile), []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Certificate(dir, nil); err == nil || !strings.Contains(err.Error(), "Try:") {
		t.Errorf("a key that is none: %v", err)
	}
}

func TestPinErrors(t *testing.T) {
	c, fingerprint, err := Certificate(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		pin  string
		at   time.Time
		want string
	}{
		"good":              {fingerprint, time.Now(), ""},
		"a clock two hours": {fingerprint, time.Now().Add(-2 * time.Hour), ""},
		"expired":           {fingerprint, c.Leaf.NotAfter.Add(time.Hour), "expired on"},
		"a clock in 1970":   {fingerprint, time.Unix(0, 0), "set this machine's clock"},
		"changed":           {strings.Repeat("A", 43), time.Now(), "has changed since the invitation"},
	} {
		err := checkPin(c.Leaf, test.pin, test.at)
		if (err == nil) != (test.want == "") || err != nil && (!strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "Try:")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
