package membership

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Bounds of an invitation's text.
const (
	maxInvitationBytes = 4 << 10
	maxInvitationHosts = 16
	maxTokenBytes      = 256
	fingerprintBytes   = 32 // SHA-256
)

// Schemes of an Invitation.
const (
	SchemeTLS  = "tls"  // the coordinator's own broker
	SchemeNATS = "nats" // an external cluster
)

// Invitation locates a swarm and permits joining it: tls://host:port?fp=FINGERPRINT#TOKEN, several hosts separated by
// commas.
type Invitation struct {
	Scheme      string   // one of Scheme*
	Hosts       []string // host:port
	Fingerprint string   // base64url SHA-256 of the certificate's SubjectPublicKeyInfo; empty: verified by the system's CAs and the host's name
	Token       string   // empty: for a worker that has credentials
}

const inviteAgain = "Try: copy the whole line that swarm up printed, in quotes"

// ParseInvitation parses an invitation. Its errors name the problem and never quote the token.
func ParseInvitation(text string) (Invitation, error) {
	text = strings.TrimSpace(text)
	if len(text) > maxInvitationBytes {
		return Invitation{}, invitationErr("it is longer than %d bytes", maxInvitationBytes)
	}
	address, token, _ := strings.Cut(text, "#")
	scheme, rest, found := strings.Cut(address, "://")
	if !found || scheme != SchemeTLS && scheme != SchemeNATS {
		return Invitation{}, invitationErr("it does not begin with tls:// or nats://")
	}
	hosts, query, _ := strings.Cut(rest, "?")
	i := Invitation{Scheme: scheme, Token: token}
	for host := range strings.SplitSeq(strings.TrimSuffix(hosts, "/"), ",") {
		if err := checkHost(host); err != nil {
			return Invitation{}, err
		}
		i.Hosts = append(i.Hosts, host)
	}
	if len(i.Hosts) > maxInvitationHosts {
		return Invitation{}, invitationErr("it has %d hosts, more than %d", len(i.Hosts), maxInvitationHosts)
	}
	if err := i.parseQuery(query); err != nil {
		return Invitation{}, err
	}
	if !plain(token, "-_.~") || len(token) > maxTokenBytes {
		return Invitation{}, invitationErr("its token (after #) is too long or has characters other than letters, digits, - and _")
	}
	return i, nil
}

func (i *Invitation) parseQuery(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return invitationErr("the part after ? is not readable")
	}
	for key, list := range values {
		if key != "fp" || len(list) != 1 {
			return invitationErr("only one fp= is allowed after ?, not %.20q", key)
		}
		sum, err := base64.RawURLEncoding.Strict().DecodeString(list[0])
		if err != nil || len(sum) != fingerprintBytes {
			return invitationErr("its fingerprint (fp=) is not a sha256 in base64url: it may be truncated")
		}
		i.Fingerprint = list[0]
	}
	return nil
}

func checkHost(text string) error {
	host, port, err := net.SplitHostPort(text)
	number, numberErr := strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" || numberErr != nil || number == 0 {
		return invitationErr("%.80q is not host:port", text)
	}
	if !plain(host, "-_.:%[]") {
		return invitationErr("%.80q has characters that a host name cannot have", text)
	}
	return nil
}

// String returns the invitation as one line, including the token.
func (i Invitation) String() string {
	text := i.URL()
	if i.Token != "" {
		text += "#" + i.Token
	}
	return text
}

// Address returns the address of the coordinator or the cluster, for messages: tls://host:port.
func (i Invitation) Address() string { return i.Scheme + "://" + strings.Join(i.Hosts, ",") }

// Loopback reports whether all its addresses refer to the reader's own host: 127.0.0.1, ::1, localhost and the like.
func (i Invitation) Loopback() bool {
	for _, text := range i.Hosts {
		host, _, err := net.SplitHostPort(text)
		address := net.ParseIP(host)
		name := strings.TrimSuffix(strings.ToLower(host), ".")
		local := name == "localhost" || strings.HasSuffix(name, ".localhost") || address.IsLoopback() || address.IsUnspecified()
		if err != nil || !local {
			return false
		}
	}
	return len(i.Hosts) > 0
}

// URL returns the invitation without its token, so it may be logged.
func (i Invitation) URL() string {
	text := i.Address()
	if i.Fingerprint != "" {
		text += "?fp=" + i.Fingerprint
	}
	return text
}

func invitationErr(format string, args ...any) error {
	return fmt.Errorf("invitation: %s. %s", fmt.Sprintf(format, args...), inviteAgain)
}

// plain reports whether text consists of ASCII letters, digits and the characters of more.
func plain(text, more string) bool {
	for _, c := range []byte(text) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && strings.IndexByte(more, c) < 0 {
			return false
		}
	}
	return true
}
