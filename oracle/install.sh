#!/usr/bin/env bash
# Makes sure that the oracles are there: RocksDB's own tools and library, and a
# C++ compiler to build programs on it. Installs Debian's packages where they are
# missing and this user may; otherwise it says what to install, and fails.
set -euo pipefail

missing() {
  local out=()
  for tool in ldb sst_dump db_bench; do
    command -v "$tool" >/dev/null || { out+=(rocksdb-tools); break; }
  done
  command -v g++ >/dev/null || out+=(g++)
  # The compiler knows where headers and libraries live; without one, guess.
  if command -v g++ >/dev/null; then
    echo '#include <rocksdb/db.h>' | g++ -std=c++17 -fsyntax-only -x c++ - 2>/dev/null || out+=(librocksdb-dev)
  else
    [ -e /usr/include/rocksdb/db.h ] || out+=(librocksdb-dev)
  fi
  echo "${out[*]-}"
}

want=$(missing)
[ -z "$want" ] && exit 0

fail() {
  echo "oracle/install.sh: $1" >&2
  echo "The oracle tests need these Debian packages: $want" >&2
  exit 1
}

command -v apt-get >/dev/null || fail "no apt-get here; install RocksDB's tools and headers, and a C++ compiler, by hand."
[ "$(id -u)" = 0 ] || fail "not root; run: sudo apt-get install $want"

export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # a list of package names
apt-get install -y -q --no-install-recommends $want ||
  { apt-get update -q && apt-get install -y -q --no-install-recommends $want; } ||
  fail "apt-get could not install them."

want=$(missing)
[ -z "$want" ] || fail "still missing after the installation."
