//go:build !nonuma

package numa

// hasCPUNode: cpuNode works here, if the kernel keeps it true.
const hasCPUNode = true

// cpuNode returns node<<12 | cpu of the calling thread, or all ones. Linux keeps
// it, for its own vDSO, as the limit of a segment that user code may look at
// (arch/x86/include/asm/segment.h, GDT_ENTRY_CPUNODE).
//
//go:noescape
func cpuNode() uint32
