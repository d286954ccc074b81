package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// sum appends a CRC to a header.
func sum(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

const (
	damagedRounds = 12
	damagedEvery  = 5
)

// harm damages a file: it cuts its end, flips a bit, overwrites a piece or adds bytes.
func harm(t *rapid.T, data []byte) []byte {
	at := rapid.IntRange(0, len(data)-1).Draw(t, "at")
	switch rapid.SampledFrom([]string{"cut", "bit", "zeros", "overwrite", "insert", "append"}).Draw(t, "harm") {
	case "cut":
		return data[:at]
	case "bit":
		out := bytes.Clone(data)
		out[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		return out
	case "zeros":
		out := bytes.Clone(data)
		clear(out[at:])
		return out
	case "overwrite":
		out := bytes.Clone(data)
		copy(out[at:], rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(t, "bytes"))
		return out
	case "insert":
		return append(bytes.Clone(data[:at]), append(rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(t, "bytes"), data[at:]...)...)
	}
	return append(bytes.Clone(data), rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(t, "bytes")...)
}

// subset reports whether every record that r has equals that of the complete round.
func subset(r, of Round) bool {
	return r.Round == of.Round &&
		(r.Generated == nil || reflect.DeepEqual(r.Generated, of.Generated)) &&
		(r.Trained == nil || reflect.DeepEqual(r.Trained, of.Trained)) &&
		(r.Done == nil || reflect.DeepEqual(r.Done, of.Done))
}

// Whatever happens to a segment, no wrong record is read. All records before the damage and in other segments are read,
// and the journal can continue.
func TestHarmCostsOnlyWhatFollowsInItsSegment(t *testing.T) {
	pristine := written(t, damagedRounds, damagedEvery)
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, entry := range entries {
			require.NoError(t, os.Remove(filepath.Join(dir, entry.Name())))
		}
		require.NoError(t, os.CopyFS(dir, os.DirFS(pristine)))
		first := rapid.SampledFrom([]int{0, 5, 10}).Draw(t, "segment")
		path := filepath.Join(dir, segmentName(first))
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		harmed := harm(t, data)
		require.NoError(t, os.WriteFile(path, harmed, 0o644))
		intact := common(data, harmed)

		list, err := read(dir, 0)
		if err != nil {
			require.ErrorIs(t, err, ErrDamaged)
		}
		if err == nil && first < 10 {
			require.GreaterOrEqual(t, len(list), 10, "what is lost in the middle is told")
			for _, r := range list[:10] {
				require.NotNil(t, r.Generated)
				require.NotNil(t, r.Trained)
			}
		}
		for i, r := range list {
			require.Equal(t, i, r.Round)
			require.True(t, subset(r, whole(i, 0)), "round %d: %+v", i, r)
		}
		for i := range min(first, len(list)) {
			require.Equal(t, whole(i, 0), list[i])
		}
		require.GreaterOrEqual(t, len(list), first)
		require.GreaterOrEqual(t, len(list), first+wholeRounds(t, data[:intact], first), "what precedes the harm is read")
		for _, segment := range []int{0, 5, 10} {
			if segment != first {
				r, err := Find(dir, segment+1)
				require.NoError(t, err)
				require.Equal(t, whole(segment+1, 0), r)
			}
		}
		for round := range damagedRounds {
			if r, err := Find(dir, round); err == nil {
				require.True(t, subset(r, whole(round, 0)))
			} else {
				require.True(t, errors.Is(err, ErrDamaged) || errors.Is(err, ErrNotFound), "%v", err)
			}
		}

		for i, r := range list {
			if r.Generated != nil && r.Trained != nil {
				found, err := Find(dir, i)
				require.NoError(t, err, "what Rounds can read of a round, Find can")
				require.NotNil(t, found.Generated)
				require.NotNil(t, found.Trained)
			}
		}

		// The next process continues after the last round that it could read.
		next := len(list)
		if next > 0 && list[next-1].Trained == nil {
			next--
		}
		j, err := Open(dir, quiet())
		require.NoError(t, err)
		require.NoError(t, j.Resume(next))
		for _, round := range []int{next, next + 1} {
			require.NoError(t, j.Generated(round, generated(round, 1)))
			require.NoError(t, j.write(round, frameOf2(kindTrained, round, trained(round, 1)), false))
			require.NoError(t, j.Done(round, done(round, 1)))
		}
		require.NoError(t, j.Close())
		again, err := read(dir, 0)
		require.NoError(t, err)
		require.Len(t, again, next+2)
		require.Equal(t, []Round{whole(next, 1), whole(next+1, 1)}, again[next:])
	})
}

func frameOf2(k kind, round int, record any) []byte {
	payload, err := encodePayload(record)
	if err != nil {
		panic(err)
	}
	data, err := encodeRecord(k, round, payload)
	if err != nil {
		panic(err)
	}
	return data
}

// common returns the length of the common prefix of two files.
func common(a, b []byte) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// wholeRounds counts the rounds with all three records in data, the beginning of a segment.
func wholeRounds(t *rapid.T, data []byte, first int) int {
	records := 0
	for offset := int64(segmentHeader); ; records++ {
		f, err := readFrame(bytes.NewReader(data), offset, int64(len(data)))
		if err != nil || f.round < first {
			return records / 3
		}
		offset = f.end()
	}
}

// Cutting any number of bytes from the last segment leaves a torn tail. That is no error, and only the torn record is
// lost.
func TestATornTailIsNoDamage(t *testing.T) {
	dir := written(t, 2, 10)
	path := filepath.Join(dir, segmentName(0))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	for size := range data {
		require.NoError(t, os.WriteFile(path, data[:size], 0o644))
		list, err := read(dir, 0)
		require.NoError(t, err, "%d bytes of %d", size, len(data))
		for i, r := range list {
			require.True(t, subset(r, whole(i, 0)))
		}
		zeros := append(bytes.Clone(data[:size]), make([]byte, 40)...)
		require.NoError(t, os.WriteFile(path, zeros, 0o644))
		again, _ := read(dir, 0)
		require.Equal(t, list, again, "nor do zeros change what is read")
	}
}

// Damage can cost a segment its last Done when the next segment has already begun. The node must be able to continue:
// it reports that round again, and has nowhere to log that.
func TestALostDoneBeforeANewSegment(t *testing.T) {
	dir := written(t, 3, 10)
	j := resumed(t, dir, 3)
	require.NoError(t, j.Rotate(3))
	require.NoError(t, j.Close())
	path := filepath.Join(dir, segmentName(0))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(path, info.Size()-3))

	lost := whole(2, 0)
	lost.Done = nil
	want := []Round{whole(0, 0), whole(1, 0), lost}
	for range 2 { // processes
		list, err := read(dir, 0)
		require.NoError(t, err)
		require.Equal(t, want, list)
		j = resumed(t, dir, len(want))
		require.NoError(t, j.Done(2, done(2, 1)))
		write(t, j, len(want), 0)
		require.NoError(t, j.Close())
		want = append(want, whole(len(want), 0))
	}
}

// TestEveryFlippedBitIsFound flips every bit of a small journal.
func TestEveryFlippedBitIsFound(t *testing.T) {
	dir := written(t, 1, 10)
	path := filepath.Join(dir, segmentName(0))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	for bit := range 8 * len(data) {
		harmed := bytes.Clone(data)
		harmed[bit/8] ^= 1 << (bit % 8)
		require.NoError(t, os.WriteFile(path, harmed, 0o644))
		list, err := read(dir, 0)
		require.ErrorIs(t, err, ErrDamaged, "bit %d", bit)
		for i, r := range list {
			require.True(t, subset(r, whole(i, 0)), "bit %d", bit)
		}
	}
}

// FuzzSegment reads untrusted bytes as a segment, including records with correct checksums.
func FuzzSegment(f *testing.F) {
	f.Add([]byte{}, false)
	f.Add(frameOf2(kindGenerated, 0, generated(0, 0)), false)
	f.Add([]byte(`{"event":{"type":"round","round":{"round":0}}}`), true)
	f.Add(encoder().EncodeAll([]byte(`{"batch":{},"completions":[[1e999]]}`), nil), true)
	f.Fuzz(func(t *testing.T, data []byte, asPayload bool) {
		if asPayload {
			var err error
			if data, err = encodeRecord(kind(1+len(data)%3), 0, data); err != nil {
				t.Skip()
			}
		}
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, segmentName(0)), append(encodeSegmentHeader(0), data...), 0o644))
		list, err := read(dir, 0)
		if err != nil {
			require.ErrorIs(t, err, ErrDamaged)
		}
		j, err := Open(dir, quiet())
		require.NoError(t, err)
		defer j.Close()
		require.NoError(t, j.Resume(len(list)))
	})
}
