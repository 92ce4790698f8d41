// Reads a plain table with RocksDB and compares it with a listing: every row in
// order, then a seek to every key, which goes through bloom filter and index.
//
//   g++ -std=c++17 read_plain.cc -lrocksdb -o read_plain
//   read_plain FILE LISTING noop|fixedN|none HASH_TABLE_RATIO
//
// The listing has a line for each row: key and value in hex.
#include <rocksdb/options.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/table.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

static std::string Unhex(const std::string& hex) {
  std::string s;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    s.push_back(static_cast<char>(strtol(hex.substr(i, 2).c_str(), nullptr, 16)));
  }
  return s;
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  rocksdb::Options options;
  options.allow_mmap_reads = true;
  const std::string extractor = argv[3];
  if (extractor == "noop") {
    options.prefix_extractor.reset(rocksdb::NewNoopTransform());
  } else if (extractor.rfind("fixed", 0) == 0) {
    options.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(atoi(extractor.c_str() + 5)));
  }
  rocksdb::PlainTableOptions plain;
  plain.user_key_len = 0;
  plain.hash_table_ratio = atof(argv[4]);
  options.table_factory.reset(rocksdb::NewPlainTableFactory(plain));

  std::vector<std::pair<std::string, std::string>> rows;
  std::ifstream listing(argv[2]);
  for (std::string line; std::getline(listing, line);) {
    const size_t space = line.find(' ');
    rows.emplace_back(Unhex(line.substr(0, space)), Unhex(line.substr(space + 1)));
  }

  rocksdb::SstFileReader reader(options);
  rocksdb::Status s = reader.Open(argv[1]);
  if (!s.ok()) {
    printf("open: %s\n", s.ToString().c_str());
    return 1;
  }
  std::unique_ptr<rocksdb::Iterator> it(reader.NewIterator(rocksdb::ReadOptions()));
  size_t i = 0;
  for (it->SeekToFirst(); it->Valid(); it->Next(), i++) {
    if (i >= rows.size() || it->key() != rows[i].first || it->value() != rows[i].second) {
      printf("row %zu differs\n", i);
      return 1;
    }
  }
  if (i != rows.size() || !it->status().ok()) {
    printf("expected %zu rows, found %zu: %s\n", rows.size(), i, it->status().ToString().c_str());
    return 1;
  }
  for (const auto& row : rows) {
    it->Seek(row.first);
    if (!it->Valid() || it->key() != row.first || it->value() != row.second) {
      printf("a seek failed\n");
      return 1;
    }
  }
  return 0;
}
