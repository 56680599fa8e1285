package ingest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/ingest/kafka"
	"weir/state"
)

func everyCursor(state.CursorID) bool { return true }

func mustOpenInflight(t testing.TB, path string, known func(state.CursorID) bool) *inflight {
	t.Helper()
	f, err := openInflight(path, known)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// places are positions by partition.
func places(next map[int32]int64) map[int32]state.Position {
	m := map[int32]state.Position{}
	for p, n := range next {
		m[p] = state.Position{Partition: p, Next: n}
	}
	return m
}

// killed is what another process finds in the file while this one still has it
// open: what it would find had this one been killed.
func killed(t *testing.T, path string) map[state.CursorID]map[int32]int64 {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.WriteFile(copied, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f := mustOpenInflight(t, copied, everyCursor)
	defer f.close()
	found := map[state.CursorID]map[int32]int64{}
	for _, s := range f.slots {
		if s.left != nil {
			found[s.cursor] = s.left.upTo
		}
	}
	return found
}

func TestNotesOutliveTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inflight")
	f := mustOpenInflight(t, path, everyCursor)
	a, b := f.take(3), f.take(1<<31)
	if d := cmp.Diff(map[state.CursorID]map[int32]int64{}, killed(t, path)); d != "" {
		t.Errorf("nothing was noted: %s", d)
	}
	a.note(places(map[int32]int64{0: 100, 7: 1 << 40}))
	b.note(places(map[int32]int64{1: 5}))
	want := map[state.CursorID]map[int32]int64{3: {0: 100, 7: 1 << 40}, 1 << 31: {1: 5}}
	if d := cmp.Diff(want, killed(t, path)); d != "" {
		t.Error(d)
	}
	a.clear()
	a.note(places(map[int32]int64{0: 200}))
	b.clear()
	want = map[state.CursorID]map[int32]int64{3: {0: 200}}
	if d := cmp.Diff(want, killed(t, path)); d != "" {
		t.Error(d)
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}

	// The next process keeps the note until the cursor has passed it.
	f = mustOpenInflight(t, path, everyCursor)
	other := f.take(1 << 31)
	if other.suspect() {
		t.Error("what was cleared is suspect")
	}
	a = f.take(3)
	if !a.suspect() || a.passed(places(map[int32]int64{0: 199, 1: 1000})) {
		t.Fatal("the noted batch is not suspect")
	}
	f.giveBack(a)
	if a = f.take(3); !a.suspect() {
		t.Fatal("a new lane of the cursor does not know")
	}
	if d := cmp.Diff(want, killed(t, path)); d != "" {
		t.Error(d)
	}
	if !a.passed(places(map[int32]int64{0: 200})) || a.suspect() {
		t.Error("the batch is suspect for ever")
	}
	if got := killed(t, path); len(got) != 0 {
		t.Errorf("left in the file: %v", got)
	}

	// A note that a lane leaves is for the next lane.
	a.note(places(map[int32]int64{4: 4}))
	f.giveBack(a)
	if a = f.take(3); !a.suspect() || a.left.upTo[4] != 4 {
		t.Error("a failed batch is forgotten")
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	f = mustOpenInflight(t, path, func(c state.CursorID) bool { return c != 3 })
	defer f.close()
	if f.take(3).suspect() || len(killed(t, path)) != 0 {
		t.Error("a cursor that is gone is suspect")
	}
}

func TestBrokenNotesAreNone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "inflight")
	f := mustOpenInflight(t, path, everyCursor)
	f.take(3).note(places(map[int32]int64{0: 0x0102030405060708, 1: 0x1112131415161718}))
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	try := func(b []byte) *inflight {
		t.Helper()
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return mustOpenInflight(t, path, everyCursor)
	}
	f = try(whole)
	if !f.take(3).suspect() {
		t.Fatal("the whole note is not read")
	}
	f.close()
	// Every flipped bit, and every write that stopped half way.
	noted := whole[inflightHead : inflightHead+slotSize]
	const size = slotHead + 2*12
	for i := range size * 8 {
		s := &slot{mem: slices.Clone(noted)}
		s.mem[i/8] ^= 1 << (i % 8)
		if s.read(); s.left != nil {
			t.Errorf("bit %d: %+v", i, s.left)
		}
	}
	for n := range size - 1 {
		s := &slot{mem: slices.Clone(noted)}
		clear(s.mem[n:size])
		if s.read(); s.left != nil {
			t.Errorf("%d bytes of a note are read", n)
		}
	}
	for _, b := range [][]byte{nil, []byte("x"), whole[:len(whole)-1], append([]byte("weirfly0"), whole[8:]...), append(whole, 0)} {
		f := try(b)
		if f.take(3).suspect() {
			t.Errorf("%d bytes of another file are read", len(b))
		}
		f.take(4).note(places(map[int32]int64{0: 1}))
		if d := cmp.Diff(map[state.CursorID]map[int32]int64{4: {0: 1}}, killed(t, path)); d != "" {
			t.Error(d)
		}
		f.close()
	}
	if _, err := openInflight(filepath.Join(dir, "no", "file"), everyCursor); err == nil {
		t.Error("a file in no directory was opened")
	}
}

// A batch of very many partitions makes all of them suspect up to their ends.
func TestTooManyPartitionsToNote(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inflight")
	f := mustOpenInflight(t, path, everyCursor)
	next := map[int32]int64{}
	for p := range int32(slotRoom) {
		next[p] = int64(p)
	}
	s := f.take(1)
	s.note(places(next))
	if d := cmp.Diff(map[state.CursorID]map[int32]int64{1: next}, killed(t, path)); d != "" {
		t.Error(d)
	}
	next[slotRoom] = 1
	s.note(places(next))
	f.close()
	f = mustOpenInflight(t, path, everyCursor)
	defer f.close()
	if s = f.take(1); !s.suspect() || s.passed(places(map[int32]int64{0: 1e9, 1: 1e9})) {
		t.Fatal("it is not suspect")
	}
	ends := func(a, b int64) []kafka.PartitionStatus {
		return []kafka.PartitionStatus{{Partition: 0, LastStable: a}, {Partition: 1, LastStable: b}}
	}
	s.left.see(nil)
	if s.passed(places(map[int32]int64{0: 1e9, 1: 1e9})) {
		t.Error("passed before any end is known")
	}
	s.left.see(ends(50, -1))
	if s.passed(places(map[int32]int64{0: 1e9, 1: 1e9})) {
		t.Error("passed before every end is known")
	}
	s.left.see(ends(70, 20)) // 50 stays: it need not chase a moving end
	if s.passed(places(map[int32]int64{0: 49, 1: 20})) || !s.passed(places(map[int32]int64{0: 50, 1: 20})) || s.suspect() {
		t.Error("not passed just at its ends")
	}
}

func TestCursorThatCrashedIsNotTrustedAtOnce(t *testing.T) {
	f := mustOpenInflight(t, filepath.Join(t.TempDir(), "inflight"), everyCursor)
	defer f.close()
	s := f.take(1)
	s.note(places(map[int32]int64{0: 10}))
	f.giveBack(s)
	s = f.take(1)
	past := places(map[int32]int64{0: 10})
	for range 2 {
		s.left.evaluated(true)
		for range trusted - 1 {
			s.left.evaluated(false)
			if s.passed(past) {
				t.Fatal("trusted too early")
			}
		}
	}
	s.left.evaluated(false)
	if !s.passed(past) {
		t.Error("never trusted again")
	}
}

func TestSlotsAreUsedAgain(t *testing.T) {
	f := mustOpenInflight(t, filepath.Join(t.TempDir(), "inflight"), everyCursor)
	defer f.close()
	var taken []*slot
	for c := range state.CursorID(slotCount) {
		s := f.take(c)
		if s == nil || slices.Contains(taken, s) {
			t.Fatalf("cursor %d: slot %p", c, s)
		}
		taken = append(taken, s)
	}
	none := f.take(slotCount)
	if none != nil {
		t.Fatal("more slots than there are")
	}
	none.note(places(map[int32]int64{0: 1})) // goes without
	none.clear()
	if none.suspect() || none.passed(nil) {
		t.Error("no slot, and yet suspect")
	}
	f.giveBack(none)
	f.giveBack(taken[9])
	if f.take(1000) != taken[9] {
		t.Error("a slot given back is not used")
	}
}

func BenchmarkNote(b *testing.B) {
	f := mustOpenInflight(b, filepath.Join(b.TempDir(), "inflight"), everyCursor)
	defer f.close()
	s := f.take(1)
	next := places(map[int32]int64{0: 1, 1: 2, 2: 3, 3: 4, 4: 5, 5: 6})
	for b.Loop() {
		s.note(next)
		s.clear()
	}
}
