package duckext

import "weir/state/plan"

// Options are the limits of one DuckDB instance. The zero value is one thread,
// 512 MB, and no spilling to disk.
type Options struct {
	Threads     int    // threads of the instance; results are only deterministic with 1
	MemoryLimit string // in DuckDB's form, such as "512MB"
	TempDir     string // where DuckDB may spill; "" keeps it in memory
}

func (o Options) withDefaults() Options {
	if o.Threads < 1 {
		o.Threads = 1
	}
	if o.MemoryLimit == "" {
		o.MemoryLimit = "512MB"
	}
	return o
}

var _ plan.Engine = (*Engine)(nil)

// Exit codes of the query process.
const (
	exitOK       = 0
	exitFailed   = 1
	exitUnlinked = 3
)
