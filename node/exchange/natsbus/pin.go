package natsbus

import (
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// pinned returns a TLS configuration that identifies a coordinator by its key instead of its name: the holder of the
// key is the coordinator, at any address.
func pinned(fingerprint string) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // skips the check of chain and name; checkPin is stricter
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return &pinError{"the server sent no certificate"}
			}
			return checkPin(state.PeerCertificates[0], fingerprint, time.Now())
		},
	}
}

// pinError reports that the server is not the expected one. Retrying does not help.
type pinError struct{ line string }

func (e *pinError) Error() string { return e.line }

func checkPin(certificate *x509.Certificate, fingerprint string, now time.Time) error {
	const day = "2006-01-02 15:04 MST"
	switch {
	case subtle.ConstantTimeCompare([]byte(Fingerprint(certificate)), []byte(fingerprint)) != 1:
		return &pinError{"the coordinator's certificate has changed since the invitation was made. " +
			"Try: ask for a new invitation (swarm workers invite)"}
	case now.After(certificate.NotAfter):
		return &pinError{fmt.Sprintf("the coordinator's certificate expired on %s, but the date is %s here. "+
			"Try: restart swarm up, which renews it, or set this machine's clock", certificate.NotAfter.Format(day), now.Format(day))}
	case now.Before(certificate.NotBefore):
		return &pinError{fmt.Sprintf("the coordinator's certificate is valid from %s on, but the date is %s here. Try: set this machine's clock",
			certificate.NotBefore.Format(day), now.Format(day))}
	}
	return nil
}

// untrusted returns why a server's certificate was rejected, or nil if err has another cause.
func untrusted(err error) error {
	var pin *pinError
	if errors.As(err, &pin) {
		return pin
	}
	var verification *tls.CertificateVerificationError
	if errors.As(err, &verification) {
		return &pinError{fmt.Sprintf("the server's certificate is not trusted here: %v. "+
			"Try: use the whole invitation, with its fingerprint (fp=), or name the authority's certificate", verification.Err)}
	}
	return nil
}
