// oracle opens databases with RocksDB and runs a script on them.
//
//   oracle DIRECTORY SCRIPT
//
// With "-" as script the commands come from stdin, and "ok" goes to stdout when each is done.
//
// The script's language is described in ../doc.go; each line is a command, its
// words separated by one space, and bytes are written in hex ("-" for none).
// The first thing that RocksDB refuses, or that a check finds different, goes
// to stderr, and the exit code is 1.
//
// Only the public API of Debian's librocksdb-dev (7.8.3).
#include <rocksdb/comparator.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/transaction_log.h>
#include <rocksdb/utilities/options_util.h>
#include <rocksdb/wide_columns.h>
#include <rocksdb/write_batch.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

using namespace ROCKSDB_NAMESPACE;
using std::string;
using std::vector;

static string g_where = "start";  // what the program is doing, for messages

[[noreturn]] static void Die(const string& what) {
  fprintf(stderr, "oracle: %s: %s\n", g_where.c_str(), what.c_str());
  exit(1);
}
static void Must(const Status& s, const string& what) {
  if (!s.ok()) Die(what + ": " + s.ToString());
}

static string Hex(const Slice& s) {
  static const char* digits = "0123456789abcdef";
  if (s.empty()) return "-";
  string out;
  for (size_t i = 0; i < s.size(); i++) {
    unsigned char c = s[i];
    out.push_back(digits[c >> 4]);
    out.push_back(digits[c & 15]);
  }
  return out;
}
static string Short(const Slice& s) {
  string h = Hex(s);
  if (h.size() > 80) h = h.substr(0, 80) + "... (" + std::to_string(s.size()) + " bytes)";
  return h;
}
static int Digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  Die(string("not a hex digit: ") + c);
}
static string Unhex(const string& h) {
  if (h == "-") return "";
  if (h.size() % 2) Die("odd hex string");
  string out(h.size() / 2, '\0');
  for (size_t i = 0; i < out.size(); i++)
    out[i] = static_cast<char>(Digit(h[2 * i]) << 4 | Digit(h[2 * i + 1]));
  return out;
}
static string Printable(const string& s) {  // a JSON string
  string out = "\"";
  for (unsigned char c : s) {
    char b[8];
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(static_cast<char>(c));
    } else if (c < 0x20 || c > 0x7e) {
      snprintf(b, sizeof b, "\\u%04x", c);
      out += b;
    } else {
      out.push_back(static_cast<char>(c));
    }
  }
  return out + "\"";
}

// ------------------------------------------------------------- the database

struct Database {
  string dir;
  string db_options;                             // for a new database
  vector<std::pair<string, string>> new_families;  // name, options
  std::unique_ptr<DB> db;
  vector<ColumnFamilyHandle*> handles;
  std::map<string, ColumnFamilyHandle*> by_name;
  WriteOptions wo;
  std::unique_ptr<WriteBatch> batch;

  ColumnFamilyHandle* Family(const string& name) {
    auto it = by_name.find(name);
    if (it == by_name.end()) Die("no open column family " + name);
    return it->second;
  }

  void Adopt(DB* opened) {
    db.reset(opened);
    for (auto* h : handles) by_name[h->GetName()] = h;
  }

  // Create makes a new database from option strings.
  void Create() {
    ConfigOptions co;
    DBOptions o;
    Must(GetDBOptionsFromString(co, DBOptions(), db_options, &o), "database options");
    o.create_if_missing = true;
    o.create_missing_column_families = true;
    o.error_if_exists = true;
    vector<ColumnFamilyDescriptor> families;
    for (auto& [name, text] : new_families) {
      ColumnFamilyOptions c;
      Must(GetColumnFamilyOptionsFromString(co, ColumnFamilyOptions(), text, &c), "options of " + name);
      families.emplace_back(name, c);
    }
    DB* opened;
    Must(DB::Open(o, dir, families, &handles, &opened), "create");
    Adopt(opened);
  }

  // Load opens every family with what the OPTIONS file says, as an application
  // would that was written for RocksDB.
  void Load(bool read_only, const string& secondary = "") {
    ConfigOptions co;
    co.ignore_unknown_options = false;
    DBOptions o;
    vector<ColumnFamilyDescriptor> families;
    Must(LoadLatestOptions(co, dir, &o, &families), "LoadLatestOptions");
    vector<string> listed;
    Must(DB::ListColumnFamilies(o, dir, &listed), "ListColumnFamilies");
    vector<string> described;
    for (auto& f : families) described.push_back(f.name);
    std::sort(listed.begin(), listed.end());
    std::sort(described.begin(), described.end());
    if (listed != described) Die("the MANIFEST and the OPTIONS file name different families");
    o.create_if_missing = false;
    o.create_missing_column_families = false;
    o.error_if_exists = false;
    o.paranoid_checks = true;
    DB* opened;
    if (!secondary.empty())
      Must(DB::OpenAsSecondary(o, dir, secondary, families, &handles, &opened), "open as secondary");
    else if (read_only)
      Must(DB::OpenForReadOnly(o, dir, families, &handles, &opened), "open read-only");
    else
      Must(DB::Open(o, dir, families, &handles, &opened), "open");
    Adopt(opened);
  }

  void Close() {
    for (auto* h : handles) Must(db->DestroyColumnFamilyHandle(h), "destroy handle");
    handles.clear();
    by_name.clear();
    Must(db->Close(), "close");
    db.reset();
  }

  void Drop(const string& name) {
    auto* h = Family(name);
    Must(db->DropColumnFamily(h), "drop");
    Must(db->DestroyColumnFamilyHandle(h), "destroy handle");
    handles.erase(std::find(handles.begin(), handles.end(), h));
    by_name.erase(name);
  }
};

// --------------------------------------------------------------- comparison

struct Expected {
  string name;
  bool backward = false;
  vector<std::pair<string, string>> present;  // in the family's order
  vector<string> absent;
};

static vector<Expected> ReadExpected(const string& path) {
  std::ifstream f(path);
  if (!f) Die("cannot read " + path);
  vector<Expected> out;
  string line;
  while (std::getline(f, line)) {
    std::istringstream words(line);
    string op, a, b;
    words >> op >> a >> b;
    if (op == "family") {
      out.emplace_back();
      out.back().name = a;
      out.back().backward = b == "backward";
    } else if (op == "has") {
      out.back().present.emplace_back(Unhex(a), Unhex(b));
    } else if (op == "lacks") {
      out.back().absent.push_back(Unhex(a));
    } else {
      Die("bad line in " + path + ": " + line);
    }
  }
  return out;
}

class Check {
 public:
  Check(DB* db, ColumnFamilyHandle* h, const Expected& e) : db_(db), h_(h), e_(e) {
    Options o = db->GetOptions(h);
    extractor_ = o.prefix_extractor;
    comparator_ = o.comparator;
  }

  void Run() {
    for (size_t i = 1; i < e_.present.size(); i++)
      if (comparator_->Compare(e_.present[i - 1].first, e_.present[i].first) >= 0)
        Fail("the expected keys are not in the order of the family's comparator", e_.present[i].first);
    Gets();
    MultiGets();
    Forward();
    if (e_.backward) Backward();
    Seeks();
  }

 private:
  [[noreturn]] void Fail(const string& what, const string& key) {
    Die("family " + e_.name + ": " + what + " at key " + Short(key));
  }

  void Gets() {
    for (auto& [k, v] : e_.present) {
      string got;
      Status s = db_->Get(ReadOptions(), h_, k, &got);
      if (!s.ok()) Fail("Get: " + s.ToString(), k);
      if (got != v) Fail("Get gives " + Short(got) + ", want " + Short(v), k);
    }
    for (auto& k : e_.absent) {
      string got;
      Status s = db_->Get(ReadOptions(), h_, k, &got);
      if (!s.IsNotFound()) Fail("Get gives " + s.ToString() + " " + Short(got) + ", want not found", k);
    }
  }

  void MultiGets() {
    vector<Slice> keys;
    for (auto& [k, v] : e_.present) keys.push_back(k);
    for (auto& k : e_.absent) keys.push_back(k);
    const size_t step = 37;
    for (size_t at = 0; at < keys.size(); at += step) {
      size_t n = std::min(step, keys.size() - at);
      vector<Slice> some(keys.begin() + at, keys.begin() + at + n);
      vector<ColumnFamilyHandle*> families(n, h_);
      vector<string> values;
      auto statuses = db_->MultiGet(ReadOptions(), families, some, &values);
      for (size_t i = 0; i < n; i++) {
        string k = some[i].ToString();
        if (at + i >= e_.present.size()) {
          if (!statuses[i].IsNotFound()) Fail("MultiGet gives " + statuses[i].ToString() + ", want not found", k);
          continue;
        }
        if (!statuses[i].ok()) Fail("MultiGet: " + statuses[i].ToString(), k);
        if (values[i] != e_.present[at + i].second) Fail("MultiGet gives " + Short(values[i]), k);
      }
    }
  }

  void Forward() {
    ReadOptions ro;
    ro.total_order_seek = true;
    std::unique_ptr<Iterator> it(db_->NewIterator(ro, h_));
    size_t i = 0;
    for (it->SeekToFirst(); it->Valid(); it->Next(), i++) {
      if (i >= e_.present.size()) Fail("a walk finds a key too many", it->key().ToString());
      Same(it.get(), i, "a forward walk");
    }
    Must(it->status(), "forward walk of " + e_.name);
    if (i < e_.present.size()) Fail("a walk ends too early", e_.present[i].first);
  }

  void Backward() {
    ReadOptions ro;
    ro.total_order_seek = true;
    std::unique_ptr<Iterator> it(db_->NewIterator(ro, h_));
    size_t i = e_.present.size();
    for (it->SeekToLast(); it->Valid(); it->Prev()) {
      if (i == 0) Fail("a backward walk finds a key too many", it->key().ToString());
      Same(it.get(), --i, "a backward walk");
    }
    Must(it->status(), "backward walk of " + e_.name);
    if (i > 0) Fail("a backward walk ends too early", e_.present[i - 1].first);
  }

  void Same(Iterator* it, size_t i, const string& what) {
    auto& [k, v] = e_.present[i];
    if (it->key() != Slice(k)) Fail(what + " finds " + Short(it->key()) + " instead", k);
    if (it->value() != Slice(v)) Fail(what + " finds the value " + Short(it->value()) + ", want " + Short(v), k);
  }

  // Seeks looks for a sample of keys, present and absent, and walks on: within the
  // prefix where there is an extractor, since nothing else is defined there.
  void Seeks() {
    vector<string> targets;
    size_t step = 1 + e_.present.size() / 150;
    for (size_t i = 0; i < e_.present.size(); i += step) targets.push_back(e_.present[i].first);
    for (size_t i = 0; i < e_.absent.size() && i < 150; i++) targets.push_back(e_.absent[i]);
    ReadOptions ro;
    ro.prefix_same_as_start = extractor_ != nullptr;
    for (auto& target : targets) {
      std::unique_ptr<Iterator> it(db_->NewIterator(ro, h_));
      auto at = std::lower_bound(e_.present.begin(), e_.present.end(), target,
                                 [&](const auto& p, const string& k) { return comparator_->Compare(p.first, k) < 0; });
      it->Seek(target);
      for (int n = 0; n < 25; n++, ++at) {
        bool more = at != e_.present.end() && SamePrefix(at->first, target);
        if (it->Valid() != more)
          Fail(string("a seek to ") + Short(target) + (more ? " ends before" : " goes on to " + Short(it->key()) + " after"),
               more ? at->first : target);
        if (!more) break;
        Same(it.get(), at - e_.present.begin(), "a seek to " + Short(target));
        it->Next();
      }
      Must(it->status(), "seek in " + e_.name);
    }
  }

  bool SamePrefix(const string& a, const string& b) {
    if (extractor_ == nullptr) return true;
    return extractor_->Transform(a) == extractor_->Transform(b);
  }

  DB* db_;
  ColumnFamilyHandle* h_;
  const Expected& e_;
  std::shared_ptr<const SliceTransform> extractor_;
  const Comparator* comparator_;
};

static void CheckAll(Database& d, const string& path) {
  auto expected = ReadExpected(path);
  if (expected.size() != d.by_name.size())
    Die(std::to_string(d.by_name.size()) + " column families are open, want " + std::to_string(expected.size()));
  string outer = g_where;
  for (auto& e : expected) {
    g_where = outer + ", family " + e.name;
    Check(d.db.get(), d.Family(e.name), e).Run();
  }
  g_where = outer;
}

// CheckWide compares the columns of all keys of a family with a file of lines
// "wide KEY NAME VALUE NAME VALUE ...".
static void CheckWide(Database& d, ColumnFamilyHandle* h, const string& path) {
  std::ifstream f(path);
  if (!f) Die("cannot read " + path);
  auto text = [](const WideColumns& columns) {
    string out;
    for (auto& c : columns) out += " " + Hex(c.name()) + " " + Hex(c.value());
    return out;
  };
  ReadOptions ro;
  std::unique_ptr<Iterator> it(d.db->NewIterator(ro, h));
  it->SeekToFirst();
  string line;
  while (std::getline(f, line)) {
    std::istringstream words(line);
    string op, k;
    words >> op >> k;
    string want = line.substr(std::min(line.size(), op.size() + 1 + k.size()));
    PinnableWideColumns columns;
    Must(d.db->GetEntity(ro, h, Unhex(k), &columns), "GetEntity of " + k);
    if (text(columns.columns()) != want) Die("GetEntity of " + k + " gives" + text(columns.columns()) + ", want" + want);
    if (!it->Valid()) Die("a walk ends before " + k);
    if (Hex(it->key()) != k) Die("a walk finds " + Hex(it->key()) + " instead of " + k);
    if (text(it->columns()) != want) Die("a walk finds" + text(it->columns()) + " at " + k + ", want" + want);
    it->Next();
  }
  if (it->Valid()) Die("a walk goes on to " + Hex(it->key()));
  Must(it->status(), "walk");
}

// Dump writes every family's contents as JSON lines to stdout.
static void Dump(Database& d) {
  for (auto* h : d.handles) {
    ReadOptions ro;
    ro.total_order_seek = true;
    std::unique_ptr<Iterator> it(d.db->NewIterator(ro, h));
    for (it->SeekToFirst(); it->Valid(); it->Next())
      printf("{\"cf\":%s,\"k\":\"%s\",\"v\":\"%s\"}\n", Printable(h->GetName()).c_str(),
             it->key().ToString(true).c_str(), it->value().ToString(true).c_str());
    Must(it->status(), "dump of " + h->GetName());
  }
}

// Updates writes the batches that write anything from a sequence number on as lines "SEQUENCE BYTES".
static void Updates(Database& d, SequenceNumber from, const string& path) {
  std::ofstream f(path);
  std::unique_ptr<TransactionLogIterator> it;
  Must(d.db->GetUpdatesSince(from, &it), "GetUpdatesSince");
  for (; it->Valid(); it->Next()) {
    BatchResult b = it->GetBatch();
    if (b.writeBatchPtr->Count() == 0) continue;  // notes alone
    f << b.sequence << " " << Hex(b.writeBatchPtr->Data()) << "\n";
  }
  Status s = it->status();
  if (!s.ok() && !s.IsTryAgain()) Must(s, "updates");
  if (!f.flush()) Die("cannot write " + path);
}

// ------------------------------------------------------------------- script

static void Write(Database& d, const string& op, ColumnFamilyHandle* h, const string& k, const string& v) {
  WriteBatch one;
  WriteBatch& b = d.batch ? *d.batch : one;
  Status s;
  if (op == "put") s = b.Put(h, k, v);
  else if (op == "delete") s = b.Delete(h, k);
  else if (op == "single") s = b.SingleDelete(h, k);
  else if (op == "merge") s = b.Merge(h, k, v);
  else if (op == "range") s = b.DeleteRange(h, k, v);
  else Die("unknown command");
  Must(s, op);
  if (!d.batch) Must(d.db->Write(d.wo, &one), op);
}

static void Run(Database& d, const string& line) {
  string rest;
  vector<string> w;
  {
    std::istringstream words(line);
    string word;
    while (words >> word) w.push_back(word);
    w.resize(std::max<size_t>(w.size(), 4));
  }
  // What follows the n-th word, spaces included.
  auto tail = [&](int n) {
    size_t at = 0;
    for (int i = 0; i < n && at != string::npos; i++) at = line.find(' ', at + (i > 0));
    return at == string::npos ? string() : line.substr(at + 1);
  };
  const string& op = w[0];
  if (op == "dboptions") d.db_options = tail(1);
  else if (op == "family") d.new_families.emplace_back(w[1], tail(2));
  else if (op == "create") d.Create();
  else if (op == "open") d.Load(false);
  else if (op == "openreadonly") d.Load(true);
  else if (op == "opensecondary") d.Load(false, w[1]);
  else if (op == "catchup") Must(d.db->TryCatchUpWithPrimary(), op);
  else if (op == "updates") Updates(d, std::stoull(w[1]), w[2]);
  else if (op == "begin") d.batch = std::make_unique<WriteBatch>();
  else if (op == "commit") {
    Must(d.db->Write(d.wo, d.batch.get()), op);
    d.batch.reset();
  } else if (op == "note") Must(d.batch->PutLogData(Unhex(w[1])), op);
  else if (op == "sync") d.wo.sync = w[1] == "on";
  else if (op == "log") d.wo.disableWAL = w[1] == "off";
  else if (op == "flushall") Must(d.db->Flush(FlushOptions(), d.handles), op);
  else if (op == "flush") Must(d.db->Flush(FlushOptions(), d.Family(w[1])), op);
  else if (op == "compact") {
    CompactRangeOptions o;
    o.bottommost_level_compaction = BottommostLevelCompaction::kForce;
    Must(d.db->CompactRange(o, d.Family(w[1]), nullptr, nullptr), op);
  } else if (op == "newfamily") {
    ConfigOptions co;
    ColumnFamilyOptions c;
    Must(GetColumnFamilyOptionsFromString(co, ColumnFamilyOptions(), tail(2), &c), "options");
    ColumnFamilyHandle* h;
    Must(d.db->CreateColumnFamily(c, w[1], &h), op);
    d.handles.push_back(h);
    d.by_name[w[1]] = h;
  } else if (op == "drop") d.Drop(w[1]);
  else if (op == "check") CheckAll(d, w[1]);
  else if (op == "checkwide") CheckWide(d, d.Family(w[1]), w[2]);
  else if (op == "entity") {
    vector<string> words;  // kept as long as the columns refer to them
    for (size_t i = 3; i < w.size() && !w[i].empty(); i++) words.push_back(Unhex(w[i]));
    WideColumns columns;
    for (size_t i = 0; i + 1 < words.size(); i += 2) columns.emplace_back(words[i], words[i + 1]);
    Must(d.db->PutEntity(d.wo, d.Family(w[1]), Unhex(w[2]), columns), op);
  } else if (op == "dump") Dump(d);
  else if (op == "close") d.Close();
  else if (op == "crash") {
    fflush(stdout);
    _exit(0);  // no destructor runs, nothing is flushed
  } else Write(d, op, d.Family(w[1]), Unhex(w[2]), w[3].empty() ? "" : Unhex(w[3]));
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: oracle DIRECTORY SCRIPT\n");
    return 2;
  }
  Database d;
  d.dir = argv[1];
  const bool interactive = string(argv[2]) == "-";
  std::ifstream file;
  if (!interactive) {
    file.open(argv[2]);
    if (!file) Die(string("cannot read ") + argv[2]);
  }
  std::istream& script = interactive ? std::cin : file;
  string line;
  for (int n = 1; std::getline(script, line); n++) {
    if (line.empty()) continue;
    g_where = "line " + std::to_string(n) + ": " + line.substr(0, line.find(' '));
    Run(d, line);
    if (interactive) std::cout << "ok" << std::endl;
  }
  if (d.db) Die("the script neither closes nor crashes");
  return 0;
}
