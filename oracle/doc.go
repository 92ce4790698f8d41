// Package oracle asks RocksDB itself whether Flatrock's files are right. Its tests
// run with the build tag oracle (make oracle): databases go back and forth between
// Flatrock, a C++ program on RocksDB's library, and RocksDB's command line tools,
// and after each step their contents are compared with plain Go maps.
//
// install.sh installs what they need. A missing oracle fails them.
//
// # Scripts
//
// Both engines run the same scripts: cpp/oracle.cc with RocksDB, player_test.go
// with Flatrock. A command is a line, its words separated by one space; keys and
// values are in hex, "-" for none.
//
//	dboptions TEXT       options of the database for create (RocksDB's option string, or JSON)
//	family NAME TEXT     a family and its options, likewise
//	create               make a new database with these
//	open                 open it with what its OPTIONS file says
//	openreadonly         the same without writing
//	opensecondary PATH   follow a primary that has it open; RocksDB keeps its own log in PATH
//	catchup              with the primary
//	put FAMILY KEY VALUE
//	delete FAMILY KEY
//	single FAMILY KEY    a single delete
//	merge FAMILY KEY OPERAND
//	range FAMILY START END
//	entity FAMILY KEY NAME VALUE NAME VALUE ...
//	begin, commit        around writes: one batch
//	note BYTES           log data, in a batch
//	sync on|off          whether writes are synced
//	log on|off           whether writes are logged
//	flush FAMILY
//	flushall             all families, at once with atomic_flush
//	updates SEQ FILE     the batches that GetUpdatesSince gives, as lines "SEQUENCE BYTES"
//	compact FAMILY       all of it, the deepest level included
//	newfamily NAME TEXT
//	drop NAME
//	check FILE           compare all families with FILE, by every way of reading
//	checkwide FAMILY FILE  compare the columns of all keys with lines "wide KEY NAME VALUE ..."
//	dump                 contents as JSON lines on stdout
//	close
//	crash                end the process at once
//
// A file for check has a line "family NAME [backward]" for each family, below it
// "has KEY VALUE" for each key in order, and "lacks KEY" for keys that must not
// be found. backward says that RocksDB can walk the family backwards.
package oracle
