//go:build duckdb_arrow

package duckext

/*
#include <stdlib.h>
extern void weirScanBind(void*);
extern void weirScanInit(void*);
extern void weirScanLocal(void*);
extern void weirScanNext(void*, void*);
extern void weirScanDrop(void*);
static void* weir_scan_bind(void)  { return (void*)weirScanBind; }
static void* weir_scan_init(void)  { return (void*)weirScanInit; }
static void* weir_scan_local(void) { return (void*)weirScanLocal; }
static void* weir_scan_next(void)  { return (void*)weirScanNext; }
static void* weir_scan_drop(void)  { return (void*)weirScanDrop; }
*/
import "C"

import (
	"runtime/cgo"
	"unsafe"
)

// box hands a Go value to DuckDB, which gives it back to weirScanDrop.
func box(v any) unsafe.Pointer {
	p := C.malloc(C.size_t(unsafe.Sizeof(cgo.Handle(0))))
	*(*cgo.Handle)(p) = cgo.NewHandle(v)
	return p
}

func unbox[T any](p unsafe.Pointer) T { return (*(*cgo.Handle)(p)).Value().(T) }

func dropFunc() unsafe.Pointer { return C.weir_scan_drop() }

func scanFuncs() (bind, init, local, next unsafe.Pointer) {
	return C.weir_scan_bind(), C.weir_scan_init(), C.weir_scan_local(), C.weir_scan_next()
}

func freeBox(p unsafe.Pointer) {
	(*(*cgo.Handle)(p)).Delete()
	C.free(p)
}
