package main

// ldbCommands are the commands of ldb that work, in the order of help.
func ldbCommands() []ldbCommand {
	return []ldbCommand{
		{name: "dump_all", about: "all families, for scripts with --json", run: (*ldb).dumpAll},
	}
}
