package appliance

import (
	"fmt"
	"io"
	"runtime/debug"
)

type versionCmd struct{}

func (versionCmd) Run(out io.Writer) error {
	fmt.Fprintln(out, version())
	return nil
}

// version is the release, or the commit that the binary was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 && (v == "" || v == "(devel)") {
			v = s.Value[:12]
		}
	}
	if v == "" {
		v = "devel"
	}
	return "weir " + v
}
