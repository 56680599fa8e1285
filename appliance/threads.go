package appliance

import (
	"os"
	"runtime"
)

// threadsPerProcessor is how many threads run Go for each processor.
const threadsPerProcessor = 2

// oversubscribe lets more threads run Go than there are processors. A reader
// that becomes runnable while ingest computes then finds a thread, which the
// kernel runs soon because it has slept; with one thread for each processor it
// would wait until Go's scheduler takes one from ingest, which is 10 ms. What
// GOMAXPROCS says in the environment is left alone.
func oversubscribe() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(threadsPerProcessor * runtime.GOMAXPROCS(0))
	}
}

// halfOfProcessors is how many threads are half of the processors.
func halfOfProcessors() int {
	return max(1, runtime.GOMAXPROCS(0)/(2*threadsPerProcessor))
}
