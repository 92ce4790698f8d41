package manifest

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/zeebo/xxh3"
)

// NewDBID makes a random database id: a version 4 UUID in lower case.
func NewDBID() string {
	var u [16]byte
	rand.Read(u[:]) // never fails: it aborts the process instead
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// SessionIDLen is the length of a session id in characters.
const SessionIDLen = 20

const base36Digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// NewSessionID makes a random session id: 20 characters of 0-9A-Z, which name
// one run of one database in table properties. The first 8 characters hold the
// upper and the last 12 the lower 62 bits, as UniqueID reads them.
func NewSessionID() string {
	var u [16]byte
	rand.Read(u[:])
	upper := binary.LittleEndian.Uint64(u[:8])
	lower := binary.LittleEndian.Uint64(u[8:])
	var s [SessionIDLen]byte
	a := upper<<2 | lower>>62
	putBase36(s[:8], a)
	putBase36(s[8:], lower&(1<<62-1))
	return string(s[:])
}

func putBase36(dst []byte, v uint64) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = base36Digits[v%36]
		v /= 36
	}
}

// base36 reads digits and letters of either case, at most 12 of them, which fit.
func base36(s string) (v uint64, ok bool) {
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'A' && c <= 'Z':
			c -= 'A' - 10
		case c >= 'a' && c <= 'z':
			c -= 'a' - 10
		default:
			return 0, false
		}
		v = v*36 + uint64(c)
	}
	return v, true
}

// UniqueID computes what NewFile4 custom field 12 holds for a table file, from
// the identity in its properties. RocksDB recomputes it when it opens a
// block-based file and refuses one that does not match, so a file that moves to
// another directory keeps the id of its origin. ok is false when the identity is
// incomplete; the field is then left out, which means "not verified".
//
// Fact sheet: manifest, section 2.3.
func UniqueID(dbID, sessionID string, originalFileNumber uint64) (id [16]byte, ok bool) {
	const lowDigits = 12
	n := len(sessionID)
	if dbID == "" || originalFileNumber == 0 || n < lowDigits+1 || n > lowDigits*2 {
		return id, false
	}
	a, okA := base36(sessionID[:n-lowDigits])
	b, okB := base36(sessionID[n-lowDigits:])
	if !okA || !okB {
		return id, false
	}
	upper := a >> 2
	lower := a<<62 | b&(1<<62-1)
	h := xxh3.HashString128Seed(dbID, upper)
	binary.LittleEndian.PutUint64(id[:8], lower)
	binary.LittleEndian.PutUint64(id[8:], h.Hi^originalFileNumber)
	return id, true
}

// formatUniqueID prints an id the way RocksDB's tools do.
func formatUniqueID(id []byte) string {
	if len(id) < 16 {
		return fmt.Sprintf("%x", id)
	}
	return fmt.Sprintf("{%d,%d}", binary.LittleEndian.Uint64(id), binary.LittleEndian.Uint64(id[8:]))
}

// The 16 bytes whose hash is zero, so that a zero id has a zero public form.
const (
	zeroHashLow  = 0x590eb907c873e891
	zeroHashHigh = 0xf1598607fb45cbd8
)

// PublicUniqueID is the form of a unique id that RocksDB's tools show for a file: a
// bijection of the 16 bytes that the MANIFEST holds. Shorter ids have none.
func PublicUniqueID(id []byte) string {
	if len(id) < 16 {
		return ""
	}
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], binary.LittleEndian.Uint64(id[:8])+zeroHashLow)
	binary.LittleEndian.PutUint64(b[8:], binary.LittleEndian.Uint64(id[8:16])+zeroHashHigh)
	h := xxh3.Hash128(b[:])
	binary.LittleEndian.PutUint64(b[:8], h.Lo)
	binary.LittleEndian.PutUint64(b[8:], h.Hi)
	return fmt.Sprintf("%X-%X", b[:8], b[8:])
}
