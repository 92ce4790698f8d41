package compaction

import "github.com/flatrock-db/flatrock/internal/manifest"

// Input is all that a picker looks at. Pickers change none of it.
type Input struct {
	Version *manifest.Version
	Options *Options
	// Running are the compactions under way, nil for none.
	Running *Running
}
