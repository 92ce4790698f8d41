package numa

import (
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
)

// Unlimited is Limits.Memory where no control group limits it.
const Unlimited = math.MaxInt64

// Limits are the tightest that any control group above the process sets.
// They bound amounts, not places: which CPUs and nodes is AllowedCPUs and
// AllowedNodes.
type Limits struct {
	// CPUs is the quota in CPUs' worth of time: 1.5 is 150 ms in each 100 ms of
	// wall time. Zero is no quota. GOMAXPROCS follows it since Go 1.25; a pool
	// with more workers than the quota is throttled, all its nodes at once.
	CPUs float64

	// Memory is in bytes, Unlimited if none is set.
	Memory int64
}

func (l Limits) String() string {
	var parts []string
	if l.CPUs > 0 {
		parts = append(parts, fmt.Sprintf("%.2f cpus", l.CPUs))
	}
	if l.Memory != Unlimited {
		parts = append(parts, "memory "+formatBytes(l.Memory))
	}
	return strings.Join(parts, ", ")
}

// limits walks each hierarchy from the process's group up to the mount.
// Version 2 has one hierarchy for all; version 1 one for each controller.
func (r *reader) limits() Limits {
	l := Limits{Memory: Unlimited}
	mounts := r.cgroupMounts()
	for line := range strings.Lines(r.text("proc/self/cgroup", false)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			r.fail("proc/self/cgroup", "expected id:controllers:path, found %q", clip(line))
			return l
		}
		for _, m := range mounts {
			if !m.serves(f[1]) {
				continue
			}
			for dir := m.dir(f[2]); ; dir = path.Dir(dir) {
				r.group(dir, m.version, &l)
				if len(dir) <= len(m.point) {
					break
				}
			}
		}
	}
	return l
}

type cgroupMount struct {
	root, point string // point without the leading slash
	version     int
	controllers string // of version 1, comma-separated among other options
}

func (m cgroupMount) serves(controllers string) bool {
	if m.version == 2 {
		return controllers == ""
	}
	for _, c := range strings.Split(controllers, ",") {
		if (c == "cpu" || c == "memory") && strings.Contains(","+m.controllers+",", ","+c+",") {
			return true
		}
	}
	return false
}

// dir is where the group with that path lies under the mount. A path outside
// the mounted part (a namespace seen from outside) counts as the mount itself.
func (m cgroupMount) dir(group string) string {
	rest, ok := strings.CutPrefix(path.Clean("/"+group), strings.TrimSuffix(m.root, "/"))
	if !ok {
		rest = ""
	}
	return strings.TrimSuffix(m.point+path.Clean("/"+rest), "/")
}

// cgroupMounts reads mountinfo: "36 35 0:30 ROOT POINT opts… - cgroup2 source superopts".
func (r *reader) cgroupMounts() []cgroupMount {
	var mounts []cgroupMount
	for line := range strings.Lines(r.text("proc/self/mountinfo", false)) {
		left, right, ok := strings.Cut(line, " - ")
		l, s := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(s) < 1 {
			continue
		}
		m := cgroupMount{root: l[3], point: strings.Trim(l[4], "/")}
		switch {
		case s[0] == "cgroup2":
			m.version = 2
		case s[0] == "cgroup" && len(s) >= 3:
			m.version, m.controllers = 1, s[2]
		default:
			continue
		}
		mounts = append(mounts, m)
	}
	return mounts
}

// group lowers l to the limits of one group. Files that are not there set none.
func (r *reader) group(dir string, version int, l *Limits) {
	if version == 2 {
		if f := strings.Fields(r.text(dir+"/cpu.max", false)); len(f) == 2 && f[0] != "max" {
			l.lowerCPUs(r.number(dir+"/cpu.max", f[0]), r.number(dir+"/cpu.max", f[1]))
		}
		if s := strings.TrimSpace(r.text(dir+"/memory.max", false)); s != "" && s != "max" {
			l.Memory = min(l.Memory, r.number(dir+"/memory.max", s))
		}
		return
	}
	quota := strings.TrimSpace(r.text(dir+"/cpu.cfs_quota_us", false))
	period := strings.TrimSpace(r.text(dir+"/cpu.cfs_period_us", false))
	if quota != "" && quota != "-1" && period != "" {
		l.lowerCPUs(r.number(dir+"/cpu.cfs_quota_us", quota), r.number(dir+"/cpu.cfs_period_us", period))
	}
	if s := strings.TrimSpace(r.text(dir+"/memory.limit_in_bytes", false)); s != "" {
		// Version 1 writes "no limit" as the largest multiple of a page below 1<<63.
		if n := r.number(dir+"/memory.limit_in_bytes", s); n < 1<<62 {
			l.Memory = min(l.Memory, n)
		}
	}
}

func (l *Limits) lowerCPUs(quota, period int64) {
	if quota <= 0 || period <= 0 {
		return
	}
	if cpus := float64(quota) / float64(period); l.CPUs == 0 || cpus < l.CPUs {
		l.CPUs = cpus
	}
}

func (r *reader) number(name, s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		r.fail(name, "expected a number, found %q", clip(s))
		return 0
	}
	return n
}
