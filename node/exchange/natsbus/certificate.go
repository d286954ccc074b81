package natsbus

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/sapo-swarm/swarm/internal/files"
)

const (
	keyFile         = "key.pem"
	certificateFile = "certificate.pem"

	certificateLife = 2 * 365 * 24 * time.Hour
	renewBefore     = 60 * 24 * time.Hour
	clockSlack      = 48 * time.Hour // clocks that are slow by less than this accept a new certificate
)

// Certificate returns a coordinator's self-signed certificate for the hosts, and its fingerprint. dir (mode 0700) keeps
// the key permanently. The certificate is renewed before it expires or when hosts change. The fingerprint stays the
// same, so invitations remain valid.
func Certificate(dir string, hosts []string) (tls.Certificate, string, error) {
	certificate, err := certificate(dir, hosts, time.Now())
	if err != nil {
		return tls.Certificate{}, "", fmt.Errorf("certificate of the message bus: %w", err)
	}
	return certificate, Fingerprint(certificate.Leaf), nil
}

// Fingerprint returns the SHA-256 of a certificate's SubjectPublicKeyInfo in base64url. Invitations pin it.
func Fingerprint(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func certificate(dir string, hosts []string, now time.Time) (tls.Certificate, error) {
	if err := files.MakeFolder(dir, 0o700); err != nil {
		return tls.Certificate{}, err
	}
	key, err := loadKey(filepath.Join(dir, keyFile))
	if err != nil {
		return tls.Certificate{}, err
	}
	path := filepath.Join(dir, certificateFile)
	if kept, err := os.ReadFile(path); err == nil {
		if c, err := pair(kept, key); err == nil && now.Add(renewBefore).Before(c.Leaf.NotAfter) && now.After(c.Leaf.NotBefore) && names(c.Leaf, hosts) {
			return c, nil
		}
	}
	made, err := selfSigned(key, hosts, now)
	if err != nil {
		return tls.Certificate{}, err
	}
	if err := files.EnsureSecret(path, made); err != nil {
		return tls.Certificate{}, err
	}
	return pair(made, key)
}

// loadKey reads the key, or creates it if there is none. It never replaces an unreadable key, because all invitations
// depend on it.
func loadKey(path string) (*ecdsa.PrivateKey, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return makeKey(path)
	}
	if err != nil {
		return nil, err
	}
	if block, _ := pem.Decode(data); block != nil {
		if parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if key, ok := parsed.(*ecdsa.PrivateKey); ok {
				return key, nil
			}
		}
	}
	return nil, fmt.Errorf("%s is not a key. Try: remove it and hand out new invitations", path)
}

func makeKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, files.EnsureSecret(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func selfSigned(key *ecdsa.PrivateKey, hosts []string, now time.Time) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template := x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "swarm coordinator"},
		NotBefore:    now.Add(-clockSlack),
		NotAfter:     now.Add(certificateLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// pair parses a certificate and combines it with its key.
func pair(encoded []byte, key *ecdsa.PrivateKey) (tls.Certificate, error) {
	block, _ := pem.Decode(encoded)
	if block == nil {
		return tls.Certificate{}, errors.New("not a certificate")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return tls.Certificate{}, err
	}
	if public, ok := leaf.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(key.Public()) {
		return tls.Certificate{}, errors.New("the certificate belongs to another key")
	}
	return tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key, Leaf: leaf}, nil
}

// names reports whether a certificate is valid for all the hosts.
func names(leaf *x509.Certificate, hosts []string) bool {
	for _, host := range hosts {
		if leaf.VerifyHostname(host) != nil {
			return false
		}
	}
	return true
}
