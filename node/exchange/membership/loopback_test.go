package membership

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLoopbackInvitations(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"127.0.0.1:4222": true, "127.8.9.1:1": true, "[::1]:4222": true, "localhost:4222": true, "LOCALHOST.:4222": true, "a.localhost:1": true, "0.0.0.0:1": true,
		"127.0.0.1:1,[::1]:1": true, "127.0.0.1:1,10.0.0.1:1": false, "203.0.113.7:4222": false, "notlocalhost:1": false, "[2001:db8::1]:1": false,
	} {
		i, err := ParseInvitation("tls://" + address + "#token")
		require.NoError(t, err)
		require.Equal(t, want, i.Loopback(), address)
		require.Equal(t, "tls://"+address, i.Address())
	}
	require.False(t, Invitation{}.Loopback())
}
