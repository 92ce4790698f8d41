// Reads table files with RocksDB and compares what it finds with what was
// written. Each line of standard input is one job:
//
//	TABLE EXPECTED COMPARATOR PREFIX-LENGTH SCRATCH-DIRECTORY
//
// EXPECTED holds (fixed32 length, key, fixed32 length, value)*, in order. The
// table is ingested into a new database; every key is read by Get, all by
// iterators both ways, and each prefix by a prefix seek. Prints OK or what is wrong.
//
//	g++ -std=c++17 -O1 oracle.cc -o oracle -lrocksdb
#include <rocksdb/comparator.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/table.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

using namespace ROCKSDB_NAMESPACE;
using Pairs = std::vector<std::pair<std::string, std::string>>;

static Pairs Read(const std::string& path) {
  std::ifstream f(path, std::ios::binary);
  std::string b((std::istreambuf_iterator<char>(f)), std::istreambuf_iterator<char>());
  Pairs pairs;
  auto next = [&](size_t& at) {
    uint32_t n;
    memcpy(&n, &b[at], 4);
    std::string s = b.substr(at + 4, n);
    at += 4 + n;
    return s;
  };
  for (size_t at = 0; at < b.size();) {
    std::string k = next(at);
    pairs.emplace_back(k, next(at));
  }
  return pairs;
}

static std::string Check(const std::string& table, const Pairs& want, const std::string& cmp, int prefix, const std::string& dir) {
  Options o;
  o.create_if_missing = true;
  if (cmp == "reverse") o.comparator = ReverseBytewiseComparator();
  if (prefix > 0) o.prefix_extractor.reset(NewFixedPrefixTransform(prefix));
  BlockBasedTableOptions t;
  t.filter_policy.reset(NewBloomFilterPolicy(10));
  o.table_factory.reset(NewBlockBasedTableFactory(t));
  DestroyDB(dir, o);
  DB* raw = nullptr;
  Status s = DB::Open(o, dir, &raw);
  if (!s.ok()) return "open: " + s.ToString();
  std::unique_ptr<DB> db(raw);
  IngestExternalFileOptions in;
  in.verify_checksums_before_ingest = true;
  if (!(s = db->IngestExternalFile({table}, in)).ok()) return "ingest: " + s.ToString();
  for (const auto& p : want) {
    std::string v;
    if (!(s = db->Get(ReadOptions(), p.first, &v)).ok()) return "get " + Slice(p.first).ToString(true) + ": " + s.ToString();
    if (v != p.second) return "get " + Slice(p.first).ToString(true) + ": another value";
    s = db->Get(ReadOptions(), p.first + "\x01", &v);
    if (!s.IsNotFound()) return "get of an absent key: " + s.ToString();
  }
  ReadOptions all;
  all.total_order_seek = true;
  std::unique_ptr<Iterator> it(db->NewIterator(all));
  size_t i = 0;
  for (it->SeekToFirst(); it->Valid(); it->Next(), ++i)
    if (i >= want.size() || it->key() != want[i].first || it->value() != want[i].second) return "forward: entry " + std::to_string(i);
  if (i != want.size() || !it->status().ok()) return "forward: " + std::to_string(i) + " entries, " + it->status().ToString();
  for (it->SeekToLast(); it->Valid(); it->Prev())
    if (i-- == 0 || it->key() != want[i].first || it->value() != want[i].second) return "backward: entry " + std::to_string(i);
  if (i != 0) return "backward: " + std::to_string(i) + " entries left";
  if (prefix > 0) {
    ReadOptions same;
    same.prefix_same_as_start = true;
    std::unique_ptr<Iterator> pit(db->NewIterator(same));
    for (const auto& p : want) {
      if (p.first.size() < size_t(prefix)) continue;
      std::string pre = p.first.substr(0, prefix);
      pit->Seek(cmp == "reverse" ? p.first : pre);  // the first key of the prefix may be any
      if (!pit->Valid() || !pit->key().starts_with(pre)) return "prefix " + Slice(pre).ToString(true) + " is not found";
    }
  }
  return "OK";
}

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream f(line);
    std::string table, expected, cmp, dir;
    int prefix = 0;
    f >> table >> expected >> cmp >> prefix >> dir;
    std::cout << table << " " << Check(table, Read(expected), cmp, prefix, dir) << std::endl;
  }
}
