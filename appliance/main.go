package appliance

import (
	"fmt"
	"io"
)

// Main runs the command line and returns the exit code: 0, 1 for an error, 2
// for wrong usage.
func Main(args []string, in io.Reader, out, errw io.Writer) int {
	fmt.Fprintln(errw, "weir: not wired yet")
	return 1
}
