// Prints what RocksDB's sortlist makes of values and operands, which are its own since it
// throws where it finds no number:
//   g++ -std=c++17 sortlist_gen.cc -lrocksdb -o sortlist_gen && ./sortlist_gen > sortlist-7.8.3.txt
// Lines are: success (0: it threw), the existing value, the result, the operands; in hex, "-" for empty,
// "absent" for no value.
#include <rocksdb/convenience.h>
#include <rocksdb/merge_operator.h>
#include <cstdio>

using namespace rocksdb;

static std::string hex(const std::string& s) {
  if (s.empty()) return "-";
  std::string out;
  char b[3];
  for (unsigned char c : s) {
    snprintf(b, sizeof b, "%02x", c);
    out += b;
  }
  return out;
}

int main() {
  std::shared_ptr<MergeOperator> op;
  ConfigOptions config;
  if (!MergeOperator::CreateFromString(config, "sortlist", &op).ok()) return 1;
  const char* existing[] = {nullptr, "", "1,3,5", "x"};
  const std::vector<std::vector<std::string>> operands = {
      {"2,4"}, {"3,1", "2,9"}, {"3", "1", "9,8"}, {"5,5", "5"}, {"5,3", "4,1", "2"}, {"1,1", "1,1", "0"},
      {""}, {"1", ""}, {"a,b"}, {"1 ,2"}, {"1,,2"}, {"1,2,"}, {",1"}, {","}, {"1", "2,", "3"},
      {"2147483648"}, {"2147483647", "-2147483648"}, {"-2147483649"}, {"99999999999999999999"}, {"0x10", "1e3"},
      {"1\n,2", "\t3"}, {"- 1"}, {"+-1"}, {"\v\f\r 1x"}, {"00000000000000000001,-0"}, {"+7,-8"}, {"+"}, {" "},
      {std::string("1\0,2", 4)}, {std::string("\0", 1)}, {"10,9,8", "7"}, {"1x,2y", "0"}};
  for (auto base : existing) {
    for (auto& list : operands) {
      std::vector<Slice> slices(list.begin(), list.end());
      Slice value = base ? Slice(base) : Slice();
      std::string made;
      Slice kept(nullptr, 0);
      MergeOperator::MergeOperationInput in("k", base ? &value : nullptr, slices, nullptr);
      MergeOperator::MergeOperationOutput out(made, kept);
      bool ok = false;
      try {
        ok = op->FullMergeV2(in, &out);
      } catch (const std::logic_error&) {
        made.clear();
      }
      printf("%d %s %s", ok, base ? hex(base).c_str() : "absent", hex(made).c_str());
      for (auto& o : list) printf(" %s", hex(o).c_str());
      printf("\n");
    }
  }
}
