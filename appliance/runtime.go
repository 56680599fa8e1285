package appliance

import (
	"os"
	"runtime"
	"runtime/debug"
)

const (
	// threadsPerProcessor is how many threads run Go for each processor.
	threadsPerProcessor = 2
	// garbagePercent is how much garbage the heap may hold, in percent of what
	// lives. Most of what lives are large buffers that are used again, which cost
	// a collection little: catching up on a million groups takes a tenth less
	// memory than with Go's 100, at the same speed.
	garbagePercent = 75
)

// tuneRuntime lets more threads run Go than there are processors. A reader
// that becomes runnable while ingest computes then finds a thread, which the
// kernel runs soon because it has slept; with one thread for each processor it
// would wait until Go's scheduler takes one from ingest, which is 10 ms. What
// GOMAXPROCS and GOGC say in the environment is left alone.
func tuneRuntime() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(threadsPerProcessor * runtime.GOMAXPROCS(0))
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
}

// halfOfProcessors is how many threads are half of the processors.
func halfOfProcessors() int {
	return max(1, runtime.GOMAXPROCS(0)/(2*threadsPerProcessor))
}
