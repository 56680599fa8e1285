package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// fetched is a Fetched outside of a Reader.
func fetched(raw []byte, txns []abortedTxn, limit int) (*Fetched, error) {
	r := &Reader{}
	r.mu.memory.maxBatch = limit
	next, size, epoch, err := survey(raw, 0, -1)
	return &Fetched{
		Topic: "t", Next: next, LeaderEpoch: epoch, rest: raw[:size], aborted: newAborted(txns),
		answer: &answer{f: &fetcher{r: r, wake: make(chan struct{}, 1)}, refs: 1},
	}, err
}

// The broker lists aborted transactions by where they end. Here two overlap, and
// the inner one ends first.
func TestAbortedTransactionsUnsorted(t *testing.T) {
	f, err := fetched(slices.Concat(
		txn(1, 0, "a"), txn(2, 1, "b"), txn(1, 2, "c"), marker(2, 3, 0), txn(2, 4, "kept"), marker(1, 5, 0),
		rawBatch{base: 6, span: 1, producer: 1, attributes: attrControl | attrTransactional}.encode(),
		txn(1, 7, "kept too"), marker(1, 8, 1), marker(2, 9, 1), data(10, 1, 0).encode(),
	), []abortedTxn{{producer: 2, first: 1}, {producer: 1, first: 0}}, 1<<20)
	if err != nil || f.Next != 11 {
		t.Fatal(f.Next, err)
	}
	got, err := records(f)
	if want := "0/4=kept 0/7=kept too 0/10=v10"; strings.Join(got, " ") != want || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// Random interleavings of transactions against what was committed.
func TestAbortedTransactionsRandom(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		type open struct {
			first int64
			vals  []string
		}
		var (
			raw     [][]byte
			txns    []abortedTxn
			ends    = map[abortedTxn]int64{}
			running = map[int64]*open{}
			want    = map[string]bool{}
			at      int64
		)
		end := func(p int64) {
			abort := rng.IntN(2) == 0
			if abort {
				txn := abortedTxn{producer: p, first: running[p].first}
				txns = append(txns, txn)
				ends[txn] = at
				raw = append(raw, marker(p, at, 0))
			} else {
				for _, v := range running[p].vals {
					want[v] = true
				}
				raw = append(raw, marker(p, at, 1))
			}
			at++
			delete(running, p)
		}
		for range 60 {
			p := rng.Int64N(5)
			switch {
			case p == 0:
				v := fmt.Sprint("plain", at)
				want[v] = true
				raw = append(raw, rawBatch{base: at, span: 1, producer: 1}.with(0, nil, []byte(v), nil).encode())
				at++
			case running[p] != nil && rng.IntN(3) == 0:
				end(p)
			default:
				if running[p] == nil {
					running[p] = &open{first: at}
				}
				v := fmt.Sprint("txn", at)
				running[p].vals = append(running[p].vals, v)
				raw = append(raw, txn(p, at, v))
				at++
			}
		}
		for p := range int64(5) {
			if running[p] != nil {
				end(p)
			}
		}
		// Read in answers of some batches each, with the aborted transactions of each.
		got := map[string]bool{}
		for i := 0; i < len(raw); {
			n := min(1+rng.IntN(20), len(raw)-i)
			from, _, _ := readHeader(raw[i])
			last, _, _ := readHeader(raw[i+n-1])
			var listed []abortedTxn
			for _, x := range txns { // in order of their ends
				if x.first <= last.last && ends[x] >= from.first {
					listed = append(listed, x)
				}
			}
			f, err := fetched(slices.Concat(raw[i:i+n]...), listed, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			recs, err := records(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range recs {
				_, v, _ := strings.Cut(r, "=")
				got[v] = true
			}
			i += n
		}
		for v := range got {
			if !want[v] {
				t.Errorf("seed %d: aborted %s is delivered", seed, v)
			}
		}
		for v := range want {
			if !got[v] {
				t.Errorf("seed %d: %s is not delivered", seed, v)
			}
		}
	}
}

func TestTimestamps(t *testing.T) {
	r := rawBatch{span: 3, baseTime: 1000, maxTime: 5000}.with(0, nil, nil, nil).with(2, nil, nil, nil)
	for attributes, want := range map[uint16][]int64{0: {1000, 1014}, attrLogAppendTime: {5000, 5000}} {
		r.attributes = attributes
		f, _ := fetched(r.encode(), nil, 1<<20)
		b, err := f.Batch()
		if err != nil || b.LogAppendTime != (attributes != 0) || b.Records[0].Timestamp != want[0] || b.Records[1].Timestamp != want[1] {
			t.Errorf("%+v, %v", b, err)
		}
	}
}

func compressed(t testing.TB, codec string, b []byte) (uint16, []byte) {
	var out bytes.Buffer
	stream := func(w io.WriteCloser) []byte {
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	switch codec {
	case "gzip":
		return 1, stream(gzip.NewWriter(&out))
	case "snappy":
		return 2, snappy.Encode(nil, b)
	case "xerial":
		out.WriteString(xerial + "\x00\x00\x00\x01\x00\x00\x00\x01")
		for block := range slices.Chunk(b, 32<<10) {
			enc := snappy.Encode(nil, block)
			out.Write(binary.BigEndian.AppendUint32(nil, uint32(len(enc))))
			out.Write(enc)
		}
		return 2, out.Bytes()
	case "lz4":
		return 3, stream(lz4.NewWriter(&out))
	case "zstd":
		w, err := zstd.NewWriter(&out)
		if err != nil {
			t.Fatal(err)
		}
		return 4, stream(w)
	}
	return 0, b
}

var codecs = []string{"none", "gzip", "snappy", "xerial", "lz4", "zstd"}

func TestCodecs(t *testing.T) {
	for _, codec := range codecs {
		for _, size := range []int{0, 1, 100, 100_000, 3 << 20} {
			value := make([]byte, size)
			for i := range value {
				value[i] = byte(i * i >> 8)
			}
			r := rawBatch{span: 1}.with(0, []byte("k"), value, nil)
			r.attributes, r.body = compressed(t, codec, r.body)
			f, err := fetched(slices.Concat(r.encode(), data(1, 1, 0).encode()), nil, 4<<20)
			if err != nil {
				t.Fatal(err)
			}
			b, err := f.Batch()
			if err != nil || len(b.Records) != 1 || !bytes.Equal(b.Records[0].Value, value) || string(b.Records[0].Key) != "k" {
				t.Errorf("%s, %d bytes: %v", codec, size, err)
			}
			if b, err := f.Batch(); err != nil || string(b.Records[0].Value) != "v1" {
				t.Errorf("%s: the batch after: %v", codec, err)
			}
			f.Release()
		}
	}
}

// A small batch that becomes a large one is refused before it does.
func TestDecompressedSizeIsCapped(t *testing.T) {
	const limit = 8 << 20
	for _, codec := range codecs[1:] {
		r := rawBatch{span: 1}.with(0, nil, make([]byte, 4*limit), nil)
		r.attributes, r.body = compressed(t, codec, r.body)
		f, err := fetched(r.encode(), nil, limit)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := f.Batch(); !errors.Is(err, errInflated) {
			t.Errorf("%s: %v, %v", codec, b, err)
		}
		if f.decoder != nil && cap(f.decoder.inflater.out) > 3*limit {
			t.Errorf("%s: took %d bytes", codec, cap(f.decoder.inflater.out))
		}
	}
}

// A batch that is cut anywhere is left for the next answer.
func TestCutBatch(t *testing.T) {
	first, second := data(0, 2, 0, 1).encode(), data(2, 1, 0).encode()
	both := slices.Concat(first, second)
	for n := range both {
		f, err := fetched(both[:n], nil, 1<<20)
		want, next := "", int64(0)
		if n >= len(first) {
			want, next = "0/0=v0 0/1=v1", 2
		}
		got, rerr := records(f)
		if err != nil || rerr != nil || f.Next != next || strings.Join(got, " ") != want {
			t.Errorf("cut at %d: %q, next %d, %v, %v", n, got, f.Next, err, rerr)
		}
	}
}

// Decoding takes no memory per record.
func TestDecodeAllocations(t *testing.T) {
	for _, codec := range []string{"none", "snappy", "zstd"} {
		r := rawBatch{span: 1000}
		for i := range int64(1000) {
			r = r.with(i, []byte("key"), []byte("value"), nil)
		}
		r.attributes, r.body = compressed(t, codec, r.body)
		raw := r.encode()
		f, err := fetched(raw, nil, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		least := math.Inf(1) // of some tries: the race detector empties pools at random, and the runtime allocates, too
		for range 20 {
			least = min(least, testing.AllocsPerRun(1, func() {
				f.rest, f.at = raw, 0
				if b, err := f.Batch(); err != nil || len(b.Records) != 1000 {
					t.Fatal(err)
				}
				f.err = nil
			}))
		}
		if least > 20 { // a few per batch, none per record
			t.Errorf("%s: %v allocations for 1000 records", codec, least)
		}
	}
}

func FuzzRecordBatch(f *testing.F) {
	f.Add(data(0, 3, 0, 1, 2).encode(), int64(0))
	f.Add(slices.Concat(data(0, 3, 0).encode(), data(3, 9).encode(), marker(7, 12, 0), txn(7, 13, "x")), int64(1))
	for _, codec := range codecs {
		r := data(0, 2, 0, 1).with(2, []byte{}, nil, []byte{2, 2, 'a', 1})
		r.span = 3
		r.attributes, r.body = compressed(f, codec, r.body)
		f.Add(r.encode(), int64(0))
	}
	f.Fuzz(func(t *testing.T, raw []byte, from int64) {
		for b := raw; len(b) > batchHeader; { // so that mutations get past the CRC
			h, ok, err := readHeader(b)
			if err != nil || !ok {
				break
			}
			sum(b[:h.size])
			b = b[h.size:]
		}
		x, _ := fetched(raw, []abortedTxn{{producer: 7, first: 1}}, 1<<20)
		x.From, x.at = from, from
		last := from - 1
		for {
			b, err := x.Batch()
			if err != nil {
				break
			}
			for i := range b.Records {
				r := &b.Records[i]
				if r.Offset <= last || r.Offset >= b.Next {
					t.Fatalf("offset %d after %d, next %d", r.Offset, last, b.Next)
				}
				last = r.Offset
				n := 0
				for range r.Headers() {
					n++
				}
				if n != r.HeaderCount() {
					t.Fatalf("%d headers of %d", n, r.HeaderCount())
				}
			}
		}
	})
}

func TestCloneOutlivesTheBatch(t *testing.T) {
	r := rawBatch{span: 2}.with(0, []byte{}, []byte("value"), []byte{2, 2, 'a', 2, '1'}).with(1, nil, []byte{}, nil)
	raw := r.encode()
	f, _ := fetched(raw, nil, 1<<20)
	b, err := f.Batch()
	if err != nil {
		t.Fatal(err)
	}
	first, second := b.Records[0].Clone(), b.Records[1].Clone()
	clear(b.Records)
	f.Release()
	clear(raw)
	var headers strings.Builder
	for k, v := range first.Headers() {
		headers.WriteString(k + "=" + string(v))
	}
	if first.Key == nil || string(first.Value) != "value" || headers.String() != "a=1" || second.Key != nil || second.Value == nil || second.Offset != 1 {
		t.Errorf("%+v, %+v", first, second)
	}
}

// BenchmarkBatch is the cost of a record from fetched bytes to a Record.
func BenchmarkBatch(b *testing.B) {
	for _, codec := range codecs {
		b.Run(codec, func(b *testing.B) {
			r := rawBatch{span: 5000}
			for i := range int64(5000) {
				r = r.with(i, fmt.Append(nil, i), fmt.Appendf(nil, `{"order_id":%d,"city":"Paris","amount":"%d.50","note":"%0150d"}`, i, i%1000, i*i), nil)
			}
			r.attributes, r.body = compressed(b, codec, r.body)
			raw := r.encode()
			f, err := fetched(raw, nil, 64<<20)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				f.rest, f.at, f.err = raw, 0, nil
				batch, err := f.Batch()
				if err != nil {
					b.Fatal(err)
				}
				n += len(batch.Records)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/record")
		})
	}
}
