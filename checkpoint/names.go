package checkpoint

import (
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"weir/state"
)

func positionsOf(ps []state.Position) []Position {
	out := make([]Position, len(ps))
	for i, p := range ps {
		h := hex.EncodeToString(p.TopicID[:])
		id := strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
		out[i] = Position{Topic: p.Topic, TopicID: id, Partition: p.Partition, Next: p.Next, LeaderEpoch: p.LeaderEpoch}
	}
	slices.SortFunc(out, func(a, b Position) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Partition) - int(b.Partition)
	})
	return out
}

func (p Position) state() (state.Position, error) {
	out := state.Position{Topic: p.Topic, Partition: p.Partition, Next: p.Next, LeaderEpoch: p.LeaderEpoch}
	id, err := hex.DecodeString(strings.ReplaceAll(p.TopicID, "-", ""))
	if err != nil || len(id) != len(out.TopicID) {
		return out, fmt.Errorf("topic id %q of %s is no UUID", p.TopicID, p.Topic)
	}
	copy(out.TopicID[:], id)
	return out, nil
}

func positionsTo(ps []Position) ([]state.Position, error) {
	var out []state.Position
	for _, p := range ps {
		q, err := p.state()
		if err != nil {
			return nil, err
		}
		out = append(out, q)
	}
	return out, nil
}

// StatePositions are where the view stood, as the store has them.
func (v *View) StatePositions() ([]state.Position, error) { return positionsTo(v.Positions) }

func spansOf(spans []state.Span) (out []Span) {
	for _, s := range spans {
		out = append(out, Span{Position: positionsOf([]state.Position{s.Position})[0], From: s.From})
	}
	return out
}

func spansTo(spans []Span) (out []state.Span, err error) {
	for _, s := range spans {
		p, err := s.Position.state()
		if err != nil {
			return nil, err
		}
		out = append(out, state.Span{Position: p, From: s.From})
	}
	return out, nil
}

// dirName is the directory of checkpoint id.
func dirName(id uint64) string { return fmt.Sprintf("%08d", id) }

// fileName makes a file's name of a view's name, which may hold anything.
func fileName(view string, id uint32) string {
	var b strings.Builder
	for _, r := range view {
		switch {
		case r == '_' || r == '-' || r == '.' && b.Len() > 0 || r >= '0' && r <= '9' || r|0x20 >= 'a' && r|0x20 <= 'z' || r >= 0xa0 && strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			for _, c := range []byte(string(r)) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		}
		if b.Len() > 150 {
			fmt.Fprintf(&b, "-%d", id)
			break
		}
	}
	return path.Join("views", b.String()+".arrow")
}

// partName is the name of part i of a view with deltas.
func partName(view string, id uint32, i int) string {
	dir := strings.TrimSuffix(fileName(view, id), ".arrow")
	if strings.HasSuffix(dir, ".arrow") { // the file of another view
		dir = fmt.Sprintf("%s-%d", dir, id)
	}
	kind := "delta"
	if i == 0 {
		kind = "base"
	}
	return path.Join(dir, fmt.Sprintf("%03d-%s.arrow", i, kind))
}
