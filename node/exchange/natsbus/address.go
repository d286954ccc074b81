package natsbus

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

const (
	schemeTLS  = membership.SchemeTLS
	schemeNATS = membership.SchemeNATS

	maxAddressBytes = 4 << 10
)

// address holds the servers of a connection and how to authenticate them. Its text form is nats://host:port, several
// separated by commas, or tls://host:port?fp=FINGERPRINT. A coordinator starts with the TLS handshake. Servers of an
// external cluster (tls://...?handshake=later) send INFO first, NATS's default.
type address struct {
	scheme      string
	hosts       []string // host:port; for an external cluster optionally user:password@host:port
	fingerprint string
	later       bool // INFO comes before the TLS handshake
}

func parseAddress(text string) (address, error) {
	if len(text) > maxAddressBytes {
		return address{}, fmt.Errorf("an address of %d bytes, at most %d", len(text), maxAddressBytes)
	}
	servers, query, _ := strings.Cut(text, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return address{}, errors.New("an address whose part after ? is not readable")
	}
	a := address{scheme: schemeNATS, fingerprint: values.Get("fp"), later: values.Get("handshake") == "later"}
	for i, server := range strings.Split(servers, ",") {
		scheme, host, found := strings.Cut(strings.TrimSpace(server), "://")
		switch {
		case !found && i > 0:
			host = scheme
		case !found || scheme != schemeTLS && scheme != schemeNATS || i > 0 && scheme != a.scheme:
			return address{}, errors.New("an address that does not begin with tls:// or nats://")
		default:
			a.scheme = scheme
		}
		if host = strings.TrimSuffix(host, "/"); host == "" {
			return address{}, errors.New("an address without a host")
		}
		a.hosts = append(a.hosts, host)
	}
	if a.fingerprint != "" {
		if sum, err := base64.RawURLEncoding.Strict().DecodeString(a.fingerprint); err != nil || len(sum) != 32 || a.scheme != schemeTLS {
			return address{}, errors.New("a fingerprint (fp=) that is not a sha256 in base64url of a tls:// address")
		}
	}
	return a, nil
}

// addressOf returns an invitation's address.
func addressOf(i membership.Invitation) address {
	return address{scheme: i.Scheme, hosts: slices.Clone(i.Hosts), fingerprint: i.Fingerprint}
}

// servers returns the argument of nats.Connect.
func (a address) servers() string {
	servers := make([]string, len(a.hosts))
	for i, host := range a.hosts {
		servers[i] = a.scheme + "://" + host
	}
	return strings.Join(servers, ",")
}

// String returns the address without passwords, for messages.
func (a address) String() string {
	hosts := make([]string, len(a.hosts))
	for i, host := range a.hosts {
		hosts[i] = host[strings.LastIndexByte(host, '@')+1:]
	}
	return a.scheme + "://" + strings.Join(hosts, ",")
}

// security returns the options that authenticate and encrypt a connection to the address. caFile and credentials may be
// empty.
func (a address) security(caFile, credentials string) ([]nats.Option, error) {
	var options []nats.Option
	if credentials != "" {
		if _, err := os.Stat(credentials); err != nil {
			return nil, fmt.Errorf("credentials of the NATS cluster: %w. Try: name a credentials file from nsc", err)
		}
		options = append(options, nats.UserCredentials(credentials))
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("certificates to trust: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("trusted certificates: %s contains none. Try: name a PEM file", caFile)
		}
	}
	switch {
	case a.scheme == schemeTLS:
		if a.fingerprint != "" {
			config = pinned(a.fingerprint)
		}
		options = append(options, nats.Secure(config))
		if !a.later {
			options = append(options, nats.TLSHandshakeFirst())
		}
	case caFile != "":
		options = append(options, nats.Secure(config))
	}
	return options, nil
}
