// Command weir is the Weir appliance: streams in, running SQL aggregates out.
package main

import (
	"os"

	"weir/appliance"
)

func main() {
	os.Exit(appliance.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
