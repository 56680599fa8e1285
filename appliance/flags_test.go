//go:build duckdb_arrow

package appliance

import (
	"bytes"
	"strings"
	"testing"
)

func TestFlagsThatNothingCanRunWith(t *testing.T) {
	for _, flag := range []string{"--checkpoint-interval=-5s", "--checkpoint-interval=0", "--checkpoint-records=-1", "--checkpoint-keep=0", "--checkpoint-keep-for=-1s", "--query-timeout=-1s", "--query-timeout=0"} {
		var out, errs bytes.Buffer
		code := Main([]string{"demo", "--data", t.TempDir(), flag}, strings.NewReader(""), &out, &errs)
		if name, _, _ := strings.Cut(flag, "="); code != 2 || !strings.Contains(errs.String(), name+" must be at least") {
			t.Errorf("%s: exit status %d, %s%s", flag, code, out.String(), errs.String())
		}
	}
}
