#include "acceptance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/testing/test_folder.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(Bar, ComparesAndRefusesWhatIsNoNumber) {
  EXPECT_TRUE(parse_bar(">= 0.9").holds(0.9));
  EXPECT_FALSE(parse_bar("> 0.9").holds(0.9));
  EXPECT_TRUE(parse_bar("<=240").holds(240));
  EXPECT_FALSE(parse_bar("< 60").holds(60));
  EXPECT_TRUE(parse_bar("== 0").holds(0));
  EXPECT_FALSE(parse_bar("== 0").holds(1e-9));
  EXPECT_FALSE(parse_bar(">= 0").holds(std::nan("")));
  EXPECT_FALSE(parse_bar(">= 0").holds(INFINITY));
  for (const char* text : {"", "0.9", ">=", ">= x", ">= 0.9x", "=> 1", "<= inf", "about 3"}) {
    EXPECT_THROW(parse_bar(text), Error) << text;
  }
}

// A tree with Git, one source file and a table of figures.
class AcceptanceTree : public testing::Test {
 protected:
  AcceptanceTree() {
    fs::create_directories(root_ / "src");
    fs::create_directories(root_ / "acceptance");
    write("src/a.cc", "int a;\n");
    shell("git init -q . && git config user.name t && git config user.email t@t");
  }

  void write(const std::string& path, const std::string& content) {
    write_file_atomic(root_ / path, content);
  }
  void shell(const std::string& command) {
    ASSERT_EQ(std::system(("cd '" + root_.string() + "' && (" + command + ") >/dev/null 2>&1").c_str()), 0)
        << command;
  }
  void commit() { shell("git add -A && git commit -q -m x"); }
  void table(const std::string& text) { write("acceptance/spine.toml", text); }
  // The command leaves a mark each time it runs, so that a test can count the runs.
  void standard_table() {
    table(
        "[[measurement]]\nname = \"run\"\n"
        "command = '''echo ran >> runs.txt; echo '[{\"name\": \"before\", \"value\": 0.25, \"unit\": "
        "\"share\"}, "
        "{\"name\": \"after\", \"value\": 1, \"unit\": \"share\"}]' > \"$FIGURES_JSON\"; echo in $PWD'''\n"
        "[[measurement.figure]]\nname = \"after\"\nvalue = \"after\"\nbar = \">= 0.9\"\n"
        "[[measurement.figure]]\nname = \"rise\"\nvalue = \"after\"\nminus = \"before\"\nbar = \"== "
        "0.75\"\n");
  }
  size_t runs() const {
    size_t count = 0;
    if (fs::exists(root_ / "runs.txt")) {
      for_each_line(root_ / "runs.txt", [&](std::string_view, size_t, bool) { return ++count, true; });
    }
    return count;
  }
  Json record(const std::string& name) const {
    return Json::parse(read_file(root_ / "acceptance/spine" / (name + ".json")));
  }
  bool measure(const std::string& name = "", bool again = false) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    bool holds = Acceptance(root_).measure("spine", name, again);
    testing::internal::GetCapturedStderr();
    testing::internal::GetCapturedStdout();
    return holds;
  }
  std::string list(bool expected) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(Acceptance(root_).list(""), expected);
    std::fflush(stdout);
    return testing::internal::GetCapturedStdout();
  }

  const TestFolder test_folder_;
  const fs::path& root_ = test_folder_.path();
};

TEST_F(AcceptanceTree, RecordsValueCommitMachineAndLog) {
  standard_table();
  commit();
  EXPECT_THAT(list(false), HasSubstr("missing"));
  EXPECT_TRUE(measure());
  Json after = record("after");
  EXPECT_EQ(after.at("value").as_double(), 1.0);
  EXPECT_EQ(after.at("unit").as_string(), "share");
  EXPECT_EQ(after.at("commit").as_string().size(), 40u);
  EXPECT_TRUE(after.at("clean").as_bool());
  EXPECT_THAT(after.at("machine").as_string(), HasSubstr("processors"));
  EXPECT_EQ(record("rise").at("value").as_double(), 0.75);
  EXPECT_EQ(read_file(root_ / after.at("log").as_string()), "in .\n");
  std::string lines = list(true);
  EXPECT_THAT(lines, HasSubstr("holds"));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2);
}

TEST_F(AcceptanceTree, SkipsWhatStandsAndMeasuresAgainWhenCodeChanges) {
  standard_table();
  commit();
  measure();
  measure();
  EXPECT_EQ(runs(), 1u);
  commit();  // the records themselves, and notes and tests, change nothing that was measured
  write("src/a_test.cc", "test");
  write("src/notes.md", "notes");
  commit();
  measure();
  EXPECT_EQ(runs(), 1u);
  measure("rise", /*again=*/true);
  EXPECT_EQ(runs(), 2u);
  write("src/a.cc", "int b;\n");
  commit();
  EXPECT_THAT(list(false), HasSubstr("the code has changed since"));
  EXPECT_TRUE(measure("run"));
  EXPECT_EQ(runs(), 3u);
  list(true);
}

TEST_F(AcceptanceTree, FiguresOfUncommittedCodeDoNotStand) {
  standard_table();
  commit();
  write("src/a.cc", "int changed;\n");
  EXPECT_TRUE(measure());
  EXPECT_FALSE(record("after").at("clean").as_bool());
  EXPECT_THAT(list(false), HasSubstr("+changes"));
}

TEST_F(AcceptanceTree, LongMeasurementsStandWhileTheirPathsAreUnchanged) {
  standard_table();
  commit();
  measure();
  std::string text = read_file(root_ / "acceptance/spine.toml");
  text.insert(text.find("[[measurement.figure]]"), "paths = [\"src/a.cc\"]\n");
  table(text);
  for (const char* figure : {"after", "rise"}) {
    Json slow = record(figure);
    slow.set("seconds", 1201.0);
    write(std::string("acceptance/spine/") + figure + ".json", slow.dump());
  }
  write("src/other.cc", "int c;\n");
  commit();
  EXPECT_TRUE(measure());
  EXPECT_EQ(runs(), 1u);
  write("src/a.cc", "int d;\n");
  commit();
  EXPECT_TRUE(measure());
  EXPECT_EQ(runs(), 2u);
}

TEST_F(AcceptanceTree, AFailedOrSilentCommandDoesNotHold) {
  table(
      "[[measurement]]\nname = \"run\"\ncommand = \"exit 3\"\n"
      "[[measurement.figure]]\nname = \"status\"\nvalue = \"exit_status\"\nbar = \"== 0\"\n"
      "[[measurement.figure]]\nname = \"gone\"\nvalue = \"gone\"\nbar = \">= 0\"\n");
  commit();
  EXPECT_FALSE(measure());
  EXPECT_EQ(record("status").at("value").as_double(), 3.0);
  EXPECT_TRUE(record("gone").at("value").is_null());
  EXPECT_FALSE(record("gone").at("holds").as_bool());
  list(false);
}

TEST_F(AcceptanceTree, ACommandPastItsLimitIsStopped) {
  table(
      "[[measurement]]\nname = \"run\"\ncommand = \"sleep 30\"\nlimit_seconds = 1\n"
      "[[measurement.figure]]\nname = \"status\"\nvalue = \"exit_status\"\nbar = \"== 0\"\n");
  commit();
  EXPECT_FALSE(measure());
  EXPECT_EQ(record("status").at("value").as_double(), 124.0);
}

TEST_F(AcceptanceTree, TheTableOfTodayDecides) {
  standard_table();
  commit();
  measure();
  std::string text = read_file(root_ / "acceptance/spine.toml");
  text.replace(text.find(">= 0.9"), 6, ">= 1.5");
  table(text);
  EXPECT_THAT(list(false), HasSubstr("does not hold"));
}

TEST_F(AcceptanceTree, WrongTablesAndNamesAreRefusedWithThePlace) {
  auto sentence = [&](const std::string& text) -> std::string {
    table(text);
    try {
      read_acceptance_table(root_ / "acceptance/spine.toml");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::string head = "[[measurement]]\nname = \"a\"\ncommand = \"true\"\n";
  const std::string figure = "[[measurement.figure]]\nname = \"f\"\nvalue = \"v\"\nbar = \"> 0\"\n";
  EXPECT_EQ(sentence(head + figure), "");
  EXPECT_THAT(sentence(head), HasSubstr("line 1: the key figure is missing"));
  EXPECT_THAT(sentence(head + "color = 1\n" + figure), HasSubstr("line 4: there is no key color"));
  EXPECT_THAT(sentence(head + figure + figure), HasSubstr("the name f is used twice"));
  EXPECT_THAT(sentence(head + "limit_seconds = -1\n" + figure),
              HasSubstr("limit_seconds must be a number above 0"));
  EXPECT_THAT(sentence("[[measurement]]\nname = \"../a\"\ncommand = \"true\"\n" + figure),
              HasSubstr("may hold only"));
  EXPECT_THAT(sentence("measurement = 3"), HasSubstr("must be a list of tables"));
  EXPECT_THAT(sentence("[[x"), HasSubstr("not valid TOML"));
  EXPECT_THROW(Acceptance(root_).list("none"), Error);
  standard_table();
  EXPECT_THROW(Acceptance(root_).measure("spine", "none", false), Error);
}

TEST_F(AcceptanceTree, MergesLists) {
  write("a.json", R"([{"name": "x", "value": 1}])");
  write("b.json", R"([{"name": "y", "value": 2}, {"name": "z", "value": 3}])");
  merge_figures(root_ / "all.json", {root_ / "a.json", root_ / "b.json"});
  EXPECT_EQ(Json::parse(read_file(root_ / "all.json")).as_array().size(), 3u);
}

TEST_F(AcceptanceTree, AChangedCommandAndUntrackedSourcesMakeARecordStale) {
  standard_table();
  commit();
  measure();
  commit();
  list(true);
  write("src/untracked.cc", "int u;\n");
  EXPECT_THAT(list(false), HasSubstr("the code has changed since"));
  measure();
  EXPECT_FALSE(record("after").at("clean").as_bool());
  fs::remove(root_ / "src/untracked.cc");
  measure();
  list(true);
  write("dev", "the verbs\n");
  commit();
  EXPECT_THAT(list(false), HasSubstr("the code has changed since"));
  measure();
  commit();
  list(true);
  std::string text = read_file(root_ / "acceptance/spine.toml");
  text.replace(text.find("echo in"), 7, "echo at");
  table(text);
  EXPECT_THAT(list(false), HasSubstr("the code has changed since"));
}

TEST_F(AcceptanceTree, AnInterruptedMeasurementStopsAndLeavesTheRecords) {
  standard_table();
  commit();
  measure();
  std::string before = read_file(root_ / "acceptance/spine/after.json");
  std::string text = read_file(root_ / "acceptance/spine.toml");
  // The command interrupts the process that measures, as Ctrl-C does, and would go on for a minute.
  text.replace(text.find("echo ran"), 8, "kill -TERM " + std::to_string(::getpid()) + "; sleep 60; echo ran");
  table(text);
  auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(measure(), Error);
  testing::internal::GetCapturedStderr();
  testing::internal::GetCapturedStdout();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_EQ(read_file(root_ / "acceptance/spine/after.json"), before);
  EXPECT_EQ(runs(), 1u);
}

TEST_F(AcceptanceTree, AMeasurementWithoutValuesLeavesAGoodRecord) {
  table(
      "[[measurement]]\nname = \"run\"\n"
      "command = '''if [ -e runs.txt ]; then exit 3; fi; echo ran > runs.txt; "
      "echo '[{\"name\": \"after\", \"value\": 1}]' > \"$FIGURES_JSON\"'''\n"
      "[[measurement.figure]]\nname = \"after\"\nvalue = \"after\"\nbar = \">= 0.9\"\n");
  commit();
  EXPECT_TRUE(measure());
  EXPECT_FALSE(measure("run", /*again=*/true));
  EXPECT_EQ(record("after").at("value").as_double(), 1.0);
}

TEST(CountTests, SumsResultsAndRecordedNumbers) {
  TestFolder folder;
  folder.write("a.json", R"({"testsuites": [{"name": "S", "testsuite": [
    {"name": "one", "status": "RUN", "result": "COMPLETED", "time": "0.5s", "strings": "200", "note": "x"},
    {"name": "two", "status": "RUN", "result": "COMPLETED", "strings": "3", "failures": [{"failure": "no"}]}]}]})");
  folder.write("b.json", R"({"testsuites": [{"name": "T", "testsuite": [
    {"name": "three", "status": "RUN", "result": "SKIPPED", "line": 7},
    {"name": "four", "status": "NOTRUN", "result": "SUPPRESSED", "strings": "9"}]}]})");
  count_tests(folder.path() / "figures.json", {folder.path() / "a.json", folder.path() / "b.json"});
  Json figures = Json::parse(read_file(folder.path() / "figures.json"));
  std::string found;
  for (const Json& figure : figures.as_array())
    found += figure.at("name").as_string() + "=" + std::to_string(figure.at("value").as_int()) + " ";
  EXPECT_EQ(found, "strings=203 tests=3 tests_failed=1 tests_skipped=1 ");
  folder.write("a.json", "{}");
  EXPECT_THROW(count_tests(folder.path() / "f.json", {folder.path() / "a.json"}), Error);
}

// The tables of this tree are read as they are.
TEST(AcceptanceTables, OfThisTreeAreValid) {
  size_t tables = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(STOKER_SOURCE_DIR) / "acceptance")) {
    if (entry.path().extension() != ".toml") continue;
    EXPECT_FALSE(read_acceptance_table(entry.path()).measurements.empty()) << entry.path();
    ++tables;
  }
  EXPECT_GT(tables, 0u);
}

}  // namespace
}  // namespace stoker
