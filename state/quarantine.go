package state

import (
	"fmt"
	"maps"

	"github.com/cockroachdb/pebble/v2"
)

func newRefusedState() *refusedState {
	return &refusedState{RefusedCount: RefusedCount{ByView: map[ViewID]int64{}}, older: 1, younger: 1}
}

// count is a copy for readers.
func (q *refusedState) count() RefusedCount {
	c := q.RefusedCount
	c.ByView = maps.Clone(c.ByView)
	return c
}

// add writes a record into the batch and counts it. When the younger
// generation is full the older goes, so that what is kept is between half of
// the bound and the bound.
func (q *refusedState) add(b *pebble.Batch, f *Refused, epoch uint64, bound int64) error {
	q.seq++
	v := f.encode(epoch)
	if err := b.Set(refusedKey(f.Source, q.seq), v, nil); err != nil {
		return err
	}
	q.Total++
	q.ByView[f.View]++
	q.size += int64(len(v))
	if q.size > bound/2 {
		if q.older < q.younger {
			if err := b.DeleteRange(refusedKey(f.Source, q.older), refusedKey(f.Source, q.younger), nil); err != nil {
				return err
			}
		}
		q.older, q.younger = q.younger, q.seq+1
		q.olderSize, q.size = q.size, 0
	}
	q.Kept, q.Bytes = int64(q.seq-q.older+1), q.olderSize+q.size
	return nil
}

// RefusedCount counts the refused records of a source.
func (sn *Snapshot) RefusedCount(source SourceID) RefusedCount { return sn.p.refused[source] }

// Refused reads the refused records of a source that are still kept, those
// after the given sequence number, at most limit of them, oldest first.
func (sn *Snapshot) Refused(source SourceID, after uint64, limit int) (records []RefusedRecord, err error) {
	it, err := sn.p.snap.NewIter(&pebble.IterOptions{
		LowerBound: refusedKey(source, after+1), UpperBound: sysKey(kindRefused, uint32(source)+1),
	})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	for ok := it.First(); ok && len(records) < limit; ok = it.Next() {
		key := it.Key()
		seq := uint64(0)
		for _, c := range key[9:] {
			seq = seq<<8 | uint64(c)
		}
		f, err := decodeRefused(source, seq, it.Value())
		if err != nil {
			return nil, fmt.Errorf("refused record %d of source %d: %w", seq, source, err)
		}
		records = append(records, f)
	}
	return records, it.Error()
}
