package gpuwatch

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/gpu"
	"github.com/sapo-swarm/swarm/launcher/gpu/fakenvml"
)

// An XID error that arrives while the driver hangs is in the next document.
func TestXIDsOutliveAHang(t *testing.T) {
	library, err := fakenvml.BuildIn(t.TempDir())
	if err != nil {
		t.Skip(err)
	}
	write := fakenvml.File(t)
	write("Tesla T4:15360:15000\n")
	t.Setenv(gpu.LibraryVariable, library)
	t.Setenv(gpu.VisibleVariable, "0")
	w, err := Open(t.Context(), layout.Home(t.TempDir()), error.Error)
	require.NoError(t, err)
	defer w.Close()
	write("Tesla T4:15360:15000:xid=79,hang\n")
	for len(w.xids) == 0 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err = w.Look(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	write("Tesla T4:15360:15000\n")
	document, err := w.Look(t.Context())
	require.NoError(t, err)
	require.Len(t, document.Warnings, 1)
	require.Equal(t, "xid", document.Warnings[0].Code)
}
