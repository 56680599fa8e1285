package duckext

// Package export links pqarrow, which registers Arrow's extension types for the
// process. With this import all tests of the package run as the appliance does:
// arrays of arrow.uuid, arrow.bool8 and so on that were read by IPC arrive as
// array.ExtensionArray.
import _ "github.com/apache/arrow-go/v18/arrow/extensions"
