package numa

// Release undoes a Pin, PinNode or SetThreadPolicy: it puts back what the thread
// had before, and only then unlocks the goroutine from it, so that no thread
// goes back to Go's scheduler with a changed mask or policy.
//
// It must run on the goroutine that pinned (defer it there), the last pin first.
// On another thread, or out of order, it changes nothing and returns ErrThread;
// call it again where it belongs. Once it has succeeded, calling it again does
// nothing.
//
// If the kernel refuses to put the old state back (every CPU of the old mask may
// have gone away), the error says so and the goroutine stays locked: the runtime
// ends such a thread with its goroutine (the process's first thread it parks for
// good), and nobody else inherits it. The same is true of a forgotten release.
type Release func() error
