// Package killpoint names the steps between which a process may die. In a build with
// the tag flatrock_killpoints Here kills the process with the odds of one in
// FLATROCK_KILL_ODDS, as kill -9 would; without the tag it is nothing.
package killpoint

// OddsEnv says by its value N that one of N points kills; zero, or none: none does.
const OddsEnv = "FLATROCK_KILL_ODDS"

// Message comes before the name of the point that kills, on standard error.
const Message = "killed at: "
