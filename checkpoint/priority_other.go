//go:build !linux

package checkpoint

// background runs f: only Linux gives single threads a priority.
func background(f func()) { f() }
