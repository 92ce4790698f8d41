//go:build !linux

package numa

import "time"

// ThreadCPUTime needs Linux; elsewhere it is zero.
func ThreadCPUTime() time.Duration { return 0 }
