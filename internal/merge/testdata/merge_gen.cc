// Prints what the merge operators of the installed RocksDB make of a table of
// values and operands:
//   g++ -std=c++17 merge_gen.cc -lrocksdb -o merge_gen && ./merge_gen > rocksdb-7.8.3.txt
// Lines are: success, index of the existing value, index of the operands, result in hex.
// TestResultsEqualRocksDBs holds the same table.
#include <rocksdb/convenience.h>
#include <rocksdb/merge_operator.h>
#include <cstdio>

using namespace rocksdb;

int main() {
  const char* ids[] = {"uint64add", "stringappend", "{id=StringAppendOperator;delimiter=--;}",
                       "stringappendtest", "max", "put", "bytesxor"};
  const std::string one("\x01\0\0\0\0\0\0\0", 8), ff(8, '\xff'), empty, shorter = "short", z = "z", x = "\x01\x02\x03";
  const std::vector<const std::string*> existing = {nullptr, &empty, &shorter, &one, &ff, &z, &x};
  const std::vector<std::vector<std::string>> operands = {
      {one}, {"a", "b"}, {""}, {"\xff"}, {"nine bytes", one}, {"\x01\x05", std::string("\x00\x01\x07", 3)}};
  for (const char* id : ids) {
    std::shared_ptr<MergeOperator> op;
    ConfigOptions config;
    Status s = MergeOperator::CreateFromString(config, id, &op);
    if (!s.ok()) {
      printf("%s: %s\n", id, s.ToString().c_str());
      return 1;
    }
    printf("# %s %s\n", id, op->Name());
    for (size_t e = 0; e < existing.size(); e++) {
      for (size_t o = 0; o < operands.size(); o++) {
        std::vector<Slice> list(operands[o].begin(), operands[o].end());
        Slice value = existing[e] ? Slice(*existing[e]) : Slice();
        std::string made;
        Slice kept(nullptr, 0);
        MergeOperator::MergeOperationInput in("k", existing[e] ? &value : nullptr, list, nullptr);
        MergeOperator::MergeOperationOutput out(made, kept);
        bool ok = op->FullMergeV2(in, &out);
        printf("%d %zu %zu ", ok, e, o);
        for (unsigned char c : kept.data() ? kept.ToString() : made) printf("%02x", c);
        printf("\n");
      }
    }
  }
}
