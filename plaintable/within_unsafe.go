package plaintable

import "unsafe"

// endWithin is where part ends in whole, if it lies in it, else -1. The addresses are only
// compared; neither is read. An empty part lies where it begins.
func endWithin(whole, part []byte) int {
	base, p := uintptr(unsafe.Pointer(unsafe.SliceData(whole))), uintptr(unsafe.Pointer(unsafe.SliceData(part)))
	if p < base || p-base > uintptr(len(whole)) {
		return -1
	}
	if end := int(p-base) + len(part); end <= len(whole) {
		return end
	}
	return -1
}
