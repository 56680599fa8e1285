package appliance

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// serveFlags are the settings of an appliance that runs.
type serveFlags struct {
	Addr         string        `default:"127.0.0.1:8080" help:"Address to listen on. Off loopback a token is needed."`
	Data         string        `type:"path" help:"Data directory (default: ${data}, where NAME is demo, or the name of the first file)."`
	Brokers      string        `help:"Kafka brokers, host:port, for sources that name none." placeholder:"HOST:PORT,..."`
	QueryTimeout time.Duration `default:"30s" help:"Time after which a query is stopped."`
	QueryMemory  size          `default:"512MB" help:"Memory of all query processes together."`
	Memory       size          `default:"2GB" help:"Memory of the whole appliance."`
	MakeToken    bool          `help:"Make a token at first start, keep it in the data directory, and print the link that logs in."`
	AllowHost    []string      `help:"Host names other than localhost by which browsers may reach the console." placeholder:"NAME"`
	Checkpoint   time.Duration `name:"checkpoint-interval" aliases:"checkpoint" default:"5m" help:"Time between checkpoints."`

	CheckpointRecords   int64         `help:"Take a checkpoint also after so many records (default: only by time)." placeholder:"N"`
	CheckpointBytes     size          `help:"Take a checkpoint also after commits have written so many bytes: keys and values of the groups that changed, in every commit that changed them (default: only by time)." placeholder:"SIZE"`
	CheckpointKeep      int           `default:"3" help:"How many checkpoints stay at most. Savepoints do not count and stay until they are dropped."`
	CheckpointKeepFor   time.Duration `help:"Remove checkpoints that are older, but for the newest (default: no bound)." placeholder:"DURATION"`
	CheckpointKeepBytes size          `help:"Remove the oldest checkpoints beyond so many bytes in all, but for the newest (default: no bound)." placeholder:"SIZE"`

	Restore     string `help:"What to go on from when the state is gone or damaged and checkpoints are there: newest, a checkpoint's number, a savepoint's name, or never to count anew. Without it such a start is refused." placeholder:"WHAT"`
	RestoreFrom string `help:"Directory of checkpoints for --restore, or s3://bucket/prefix (default: where checkpoints go)." placeholder:"DIR"`
	ExportDir   string `help:"Directory below which views are exported that say so in SQL, WITH (export = ...); they name directories in it (default: exported in the data directory). No two appliances share one." placeholder:"DIR"`
	Checkpoints string `help:"Where checkpoints go: a directory, or s3://bucket/prefix[?endpoint=URL&region=NAME] (default: checkpoints in the data directory). No two appliances share one." placeholder:"PLACE"`
}

// size is a number of bytes, written as 512MB or 2GB.
type size int64

func (s *size) UnmarshalText(b []byte) error {
	text := strings.ToUpper(strings.TrimSpace(string(b)))
	unit := int64(1)
	for _, u := range []struct {
		suffix string
		factor int64
	}{{"KIB", 1 << 10}, {"MIB", 1 << 20}, {"GIB", 1 << 30}, {"TIB", 1 << 40}, {"KB", 1000}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}} {
		if n, ok := strings.CutSuffix(text, u.suffix); ok {
			text, unit = strings.TrimSpace(n), u.factor
			break
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if v := n * float64(unit); err != nil || !(v >= 1 && v <= 1<<60) { // NaN is neither
		return fmt.Errorf("%q is not a size such as 512MB", b)
	}
	*s = size(n * float64(unit))
	return nil
}

// The parts of the memory budget, in bytes.
type budget struct {
	groups int64 // resident groups
	cache  int64 // Pebble's blocks
	duckdb int64 // the parent's DuckDB
	scans  int64 // what scans of queries share
	query  int64 // all query processes
}

// share divides the appliance's memory: the query processes have what
// --query-memory says; of the rest, half is for resident groups, a sixteenth
// for Pebble's block cache, another for scans that queries share, a quarter for
// the parent's DuckDB. What remains is for batches under way, fetch buffers and
// the Go heap.
func (f *serveFlags) share() (budget, error) {
	rest := int64(f.Memory) - int64(f.QueryMemory)
	if int64(f.QueryMemory) < 64e6 {
		return budget{}, errors.New("--query-memory is less than 64MB: queries would fail")
	}
	if rest < 256e6 {
		return budget{}, fmt.Errorf("--memory leaves %d MB beside --query-memory: give it 256MB more than that", max(0, rest/1e6))
	}
	return budget{groups: rest / 2, cache: rest / 16, scans: rest / 16, duckdb: rest / 4, query: int64(f.QueryMemory)}, nil
}

// defaultData is where a named appliance keeps its data unless --data says
// otherwise: $XDG_DATA_HOME/weir/NAME, or ~/.local/share/weir/NAME.
func defaultData(name string) string {
	base := os.Getenv("XDG_DATA_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return filepath.Join("weir-data", name)
		}
		base = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(base, "weir", name)
}

// loopback says whether only this machine can reach an address.
func loopback(addr string) (bool, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false, fmt.Errorf("--addr %s: give it as HOST:PORT, for example 127.0.0.1:8080", addr)
	}
	if host == "localhost" {
		return true, nil
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback(), nil
}
