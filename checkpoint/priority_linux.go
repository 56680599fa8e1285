package checkpoint

import (
	"runtime"
	"syscall"
)

// background runs f on an operating system thread of low priority, which ends
// with it: a checkpoint gets the processor time that ingest leaves.
func background(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so that the thread is not used again
		// Without the right to do so it runs at normal priority, and is as correct.
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, syscall.Gettid(), 10)
		f()
	}()
	<-done
}
