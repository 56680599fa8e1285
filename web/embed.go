package web

import (
	"embed"
	"io/fs"
)

//go:embed all:console/dist
var dist embed.FS

// Console is the built console. Its sources are in web/console; the build is
// committed, so that the binary needs no Node.
func Console() fs.FS {
	sub, err := fs.Sub(dist, "console/dist")
	if err != nil {
		panic(err) // the path is a constant
	}
	return sub
}
