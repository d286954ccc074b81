package membership

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const testPrint = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"

func TestAnInvitationIsRead(t *testing.T) {
	for text, want := range map[string]Invitation{
		"tls://example.org:4222?fp=" + testPrint + "#abc_-1":     {SchemeTLS, []string{"example.org:4222"}, testPrint, "abc_-1"},
		" tls://10.0.0.1:1,[::1]:65535?fp=" + testPrint + "#t\n": {SchemeTLS, []string{"10.0.0.1:1", "[::1]:65535"}, testPrint, "t"},
		"tls://example.org:4222/#t":                              {SchemeTLS, []string{"example.org:4222"}, "", "t"},
		"nats://h1:4222,h2:4222#t":                               {SchemeNATS, []string{"h1:4222", "h2:4222"}, "", "t"},
		"tls://h:1":                                              {SchemeTLS, []string{"h:1"}, "", ""},
	} {
		got, err := ParseInvitation(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
		again, err := ParseInvitation(got.String())
		require.NoError(t, err)
		require.Equal(t, got, again)
		require.NotContains(t, got.URL(), "#")
	}
}

func TestABrokenInvitationIsRefusedInOneLine(t *testing.T) {
	for text, says := range map[string]string{
		"":                                      "does not begin with",
		"http://h:1#t":                          "does not begin with",
		"tls://h#t":                             `"h" is not host:port`,
		"tls://:4222#t":                         "not host:port",
		"tls://h:0#t":                           "not host:port",
		"tls://h:70000#t":                       "not host:port",
		"tls://h:1,#t":                          "not host:port",
		"tls://user@h:1#t":                      "characters that a host name cannot have",
		"tls://h:1?fp=short#t":                  "may be truncated",
		"tls://h:1?fp=" + testPrint + "&x=1#t":  "only one fp=",
		"tls://h:1?fp=%zz#t":                    "is not readable",
		"tls://h:1#a b":                         "its token",
		"tls://h:1#" + strings.Repeat("a", 300): "its token",
		"tls://" + strings.Repeat("h:1,", 16) + "h:1#t": "17 hosts",
		"tls://" + strings.Repeat("h", 5000) + ":1#t":   "longer than",
	} {
		_, err := ParseInvitation(text)
		require.ErrorContains(t, err, says, text)
		require.Contains(t, err.Error(), ". Try: ")
		require.NotContains(t, err.Error(), "\n")
	}
	_, err := ParseInvitation("tls://h:1?x=1#topsecret")
	require.NotContains(t, err.Error(), "topsecret")
}

func TestAnyInvitationThatIsReadIsWrittenTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		i := Invitation{
			Scheme: rapid.SampledFrom([]string{SchemeTLS, SchemeNATS}).Draw(t, "scheme"),
			Hosts:  rapid.SliceOfN(rapid.StringMatching(`([a-z0-9.-]{1,20}|\[[0-9a-f:]{2,20}\]):[1-9][0-9]{0,3}`), 1, maxInvitationHosts).Draw(t, "hosts"),
			Token:  rapid.StringMatching(`[A-Za-z0-9_-]{0,40}`).Draw(t, "token"),
		}
		if rapid.Bool().Draw(t, "pinned") {
			i.Fingerprint = testPrint
		}
		got, err := ParseInvitation(i.String())
		require.NoError(t, err)
		require.Equal(t, i, got)
	})
}

func FuzzInvitation(f *testing.F) {
	f.Add("tls://example.org:4222?fp=" + testPrint + "#abc")
	f.Add("nats://h1:1,[::1]:2#t")
	f.Add("tls://h:1?fp=&fp=#")
	f.Fuzz(func(t *testing.T, text string) {
		i, err := ParseInvitation(text)
		if err != nil {
			return
		}
		again, err := ParseInvitation(i.String())
		require.NoError(t, err)
		require.Equal(t, i, again)
	})
}
