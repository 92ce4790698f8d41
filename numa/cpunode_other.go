//go:build !linux || !amd64 || nonuma

package numa

const hasCPUNode = false

func cpuNode() uint32 { return 1<<32 - 1 }
