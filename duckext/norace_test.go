//go:build !race

package duckext

const underRace = false
