package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// answerWithTags is a Fetch answer of version 13 or later with an unknown tagged
// field in every structure, an aborted transaction, and a new leader.
func answerWithTags(id TopicID) []byte {
	be := binary.BigEndian
	b := append(be.AppendUint32(nil, correlationID), 1, 5, 2, 9, 9) // field 5, of 2 bytes
	b = append(b, make([]byte, 10)...)                              // throttle time, error, session
	b = append(append(b, 2), id[:]...)
	b = append(b, 2, 0, 0, 0, 3, 0, 6) // partition 3, error 6
	for _, v := range []uint64{10, 9, 1} {
		b = be.AppendUint64(b, v)
	}
	b = be.AppendUint64(be.AppendUint64(append(b, 2), 77), 3) // aborted
	b = append(b, 2, 1, 1, 0, 200, 1, 1, 5)                   // with fields 1 and 200
	b = append(be.AppendUint32(b, 0xffffffff), 4, 'a', 'b', 'c')
	b = append(b, 2, 1, 9, 0, 0, 0, 4, 0, 0, 0, 6, 0, 99, 0) // CurrentLeader, and field 99, empty
	return append(b, 1, 8, 1, 0, 1, 0, 2, 1, 2)              // of the topic, of the answer
}

func TestFetchAnswer(t *testing.T) {
	id := TopicID{7}
	raw := answerWithTags(id)
	res, err := parseFetch(raw, fetchNewest, id)
	if err != nil {
		t.Fatal(err)
	}
	want := []fetchedPartition{{
		id: 3, code: codeNotLeader, highWatermark: 10, lastStable: 9, logStart: 1,
		aborted: []abortedTxn{{producer: 77, first: 3}}, records: []byte("abc"),
	}}
	if d := cmp.Diff(want, res.parts, cmp.AllowUnexported(fetchedPartition{}, abortedTxn{})); d != "" {
		t.Error(d)
	}
	for i := range raw {
		if res, err := parseFetch(raw[:i], fetchNewest, id); err == nil {
			t.Errorf("accepted when cut at %d: %+v", i, res)
		}
	}
	if _, err := parseFetch(raw, fetchNewest, TopicID{8}); err == nil {
		t.Error("another topic's answer is accepted")
	}
	raw[3]++
	if _, err := parseFetch(raw, fetchNewest, id); err == nil {
		t.Error("another request's answer is accepted")
	}
}

// A length that the answer does not have must not become memory.
func TestHostileLengths(t *testing.T) {
	be := binary.BigEndian
	head := append(be.AppendUint32(nil, correlationID), make([]byte, 10)...)
	b := be.AppendUint32(head, 1)
	b = append(b, 0, 1, 't')
	b = be.AppendUint32(b, 0x7fffffff) // partitions
	if _, err := parseFetch(append(b, make([]byte, 100)...), fetchByName, TopicID{}); err == nil {
		t.Error("2^31 partitions in 100 bytes")
	}
	least := math.Inf(1) // of some tries: other goroutines allocate, too
	for range 5 {
		least = min(least, testing.AllocsPerRun(1, func() { parseFetch(b, fetchByName, TopicID{}) }))
	}
	if least > 8 {
		t.Errorf("%v allocations", least)
	}
	for _, size := range []uint32{0x7fffffff, 0xffffffff} {
		rw := struct {
			*bytes.Reader
			*bytes.Buffer
		}{bytes.NewReader(be.AppendUint32(nil, size)), new(bytes.Buffer)}
		_, err := exchange(readWriter{rw.Reader, rw.Buffer}, make([]byte, 8), 1<<20, func(n int) []byte {
			t.Fatal("allocates", n)
			return nil
		})
		if _, ok := errors.AsType[*TooLargeError](err); !ok {
			t.Error(err)
		}
	}
}

type readWriter struct {
	*bytes.Reader
	w *bytes.Buffer
}

func (rw readWriter) Write(b []byte) (int, error) { return rw.w.Write(b) }

func TestFetchVersion(t *testing.T) {
	id := TopicID{1}
	for _, x := range []struct {
		lo, hi int16
		id     TopicID
		want   int16 // 0: refused
	}{
		{0, 18, id, 18},
		{4, 18, id, 18},
		{4, 25, id, 18},
		{4, 13, id, 13},
		{4, 12, id, 11},
		{0, 11, id, 11},
		{4, 18, TopicID{}, 11},
		{0, 10, id, 0},
		{19, 22, id, 0},
		{12, 18, TopicID{}, 0},
		{12, 18, id, 18},
	} {
		got, err := fetchVersion(x.lo, x.hi, x.id)
		if got != x.want || (err != nil) != (x.want == 0) {
			t.Errorf("%d to %d, id %v: %d, %v", x.lo, x.hi, x.id, got, err)
		}
	}
}

func FuzzFetchResponse(f *testing.F) {
	id := TopicID{7}
	f.Add(answerWithTags(id), uint8(18))
	f.Add(answerWithTags(id), uint8(11))
	be := binary.BigEndian
	b := append(be.AppendUint32(nil, correlationID), make([]byte, 10)...)
	b = append(be.AppendUint32(b, 1), 0, 1, 't', 0, 0, 0, 1, 0, 0, 0, 0, 0, 0)
	b = append(b, make([]byte, 24)...)
	b = be.AppendUint64(be.AppendUint64(be.AppendUint32(b, 1), 7), 0)
	raw := append(txn(7, 0, "x"), marker(7, 1, 0)...)
	b = append(be.AppendUint32(be.AppendUint32(b, 0), uint32(len(raw))), raw...)
	f.Add(b, uint8(11))
	f.Fuzz(func(t *testing.T, b []byte, version uint8) {
		res, err := parseFetch(b, int16(version%19), id)
		if err != nil {
			return
		}
		for _, p := range res.parts {
			if len(p.records) > len(b) || len(p.aborted) > len(b) {
				t.Fatal("more than there is")
			}
			x, _ := fetched(p.records, p.aborted, 1<<20)
			recs, _ := records(x)
			if len(recs) > len(p.records) {
				t.Fatal("more records than bytes")
			}
			if x.Next < 0 {
				t.Fatal("next", x.Next)
			}
		}
	})
}
