//go:build race

package duckext

const underRace = true
