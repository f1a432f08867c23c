#include "acceptance.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr double kLongSeconds = 1200;
// What every figure depends on: all that is built or run, without tests and documents.
const std::vector<std::string> kCodePaths = {"src",
                                             "bench",
                                             "examples",
                                             "python",
                                             "dev",
                                             "cmake",
                                             "CMakeLists.txt",
                                             "CMakePresets.json",
                                             ":(exclude,glob)**/*_test.cc",
                                             ":(exclude)python/tests",
                                             ":(exclude,glob)**/*.md"};

std::string shell_quoted(const std::string& text) {
  std::string result = "'";
  for (char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

int exit_status(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

// Exit status of a shell command.
int run_shell(const std::string& command) {
  int status = std::system(command.c_str());
  if (status == -1) throw resource_error("Cannot start a shell.");
  return exit_status(status);
}

volatile std::sig_atomic_t interruptions = 0;

// While it lives, Ctrl-C and SIGTERM are counted.
class InterruptWatch {
 public:
  InterruptWatch() {
    interruptions = 0;
    struct sigaction action = {};
    action.sa_handler = [](int) { interruptions = interruptions + 1; };
    ::sigaction(SIGINT, &action, &interrupt_);
    ::sigaction(SIGTERM, &action, &terminate_);
  }
  ~InterruptWatch() {
    ::sigaction(SIGINT, &interrupt_, nullptr);
    ::sigaction(SIGTERM, &terminate_, nullptr);
  }
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

 private:
  struct sigaction interrupt_;
  struct sigaction terminate_;
};

// Exit status of a long shell command in a process group of its own. An interruption of this process ends the
// group, a second one at once; then, or when a signal ended the command, throws Error(kResource).
int run_interruptible(const std::string& command, const std::string& what) {
  InterruptWatch watch;
  pid_t child = ::fork();
  if (child < 0) throw resource_error("Cannot start a shell.");
  if (child == 0) {
    ::setpgid(0, 0);
    ::signal(SIGINT, SIG_DFL);
    ::signal(SIGTERM, SIG_DFL);
    ::execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  ::setpgid(child, child);  // here too: whichever process comes first
  int status = 0;
  int passed_on = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (interruptions > passed_on) {
      ::kill(-child, passed_on == 0 ? SIGTERM : SIGKILL);
      passed_on = interruptions;
    }
    ::usleep(20'000);
  }
  int code = exit_status(status);
  if (interruptions > 0 || code == 128 + SIGINT || code == 128 + SIGTERM) {
    throw resource_error(fmt::format("The measurement {} was interrupted; its records are as before.", what));
  }
  return code;
}

// Output of a shell command without the last line break; Error when it fails.
std::string shell_output(const std::string& command) {
  std::string output;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw resource_error("Cannot start a shell.");
  char buffer[4096];
  size_t got;
  while ((got = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0) output.append(buffer, got);
  if (::pclose(pipe) != 0) throw resource_error(fmt::format("The command failed: {}", command));
  while (output.ends_with('\n')) output.pop_back();
  return output;
}

std::string path_arguments(const std::vector<std::string>& paths) {
  std::string arguments = " --";
  for (const std::string& path : paths) arguments += " " + shell_quoted(path);
  return arguments;
}

// "AMD EPYC 9B14, 2 processors, 23 GiB, Linux 6.1": what the figures depend on, without the machine's name.
std::string describe_machine() {
  std::string model = "unknown processor";
  for_each_line("/proc/cpuinfo", [&](std::string_view line, size_t, bool) {
    if (!line.starts_with("model name")) return true;
    model = line.substr(line.find(':') + 2);
    return false;
  });
  utsname system{};
  ::uname(&system);
  double gibibytes =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 0x1p30;
  return fmt::format("{}, {} processors, {:.0f} GiB, {} {}", model, ::sysconf(_SC_NPROCESSORS_ONLN),
                     gibibytes, system.sysname, system.release);
}

Json to_json(const FigureRecord& record) {
  return Json::object({{"area", record.area},
                       {"name", record.name},
                       {"bar", record.bar},
                       {"value", record.value ? Json(*record.value) : Json()},
                       {"unit", record.unit},
                       {"holds", record.holds},
                       {"commit", record.commit},
                       {"clean", record.clean},
                       {"command", record.command},
                       {"machine", record.machine},
                       {"log", record.log},
                       {"seconds", record.seconds}});
}

FigureRecord from_json(const Json& json) {
  FigureRecord record;
  record.area = json.at("area").as_string();
  record.name = json.at("name").as_string();
  record.bar = json.at("bar").as_string();
  if (!json.at("value").is_null()) record.value = json.at("value").as_double();
  record.unit = json.at("unit").as_string();
  record.holds = json.at("holds").as_bool();
  record.commit = json.at("commit").as_string();
  record.clean = json.at("clean").as_bool();
  record.command = json.at("command").as_string();
  record.machine = json.at("machine").as_string();
  record.log = json.at("log").as_string();
  record.seconds = json.at("seconds").as_double();
  return record;
}

struct Value {
  double value = 0;
  std::string unit;
};

// The values that a command wrote, by name; none when it wrote no file.
std::map<std::string, Value> read_values(const fs::path& path) {
  std::map<std::string, Value> values;
  if (!fs::exists(path)) return values;
  Json list = Json::parse(read_file(path), path.string());
  for (const Json& entry : list.as_array()) {
    const Json* unit = entry.find("unit");
    if (!entry.at("value").is_number()) continue;
    values[entry.at("name").as_string()] = {entry.at("value").as_double(),
                                            unit != nullptr && unit->is_string() ? unit->as_string() : ""};
  }
  return values;
}

// Replaces the root of the tree by "." in a log, which is kept in the repository.
void shorten_log(const fs::path& log, const fs::path& root) {
  std::string text = read_file(log);
  std::string prefix = root.string();
  for (size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix, at + 1)) {
    text.replace(at, prefix.size(), ".");
  }
  write_file_atomic(log, text);
}

std::string command_digest(const Measurement& measurement) { return digest_hex(measurement.command); }

std::string value_text(const std::optional<FigureRecord>& record) {
  if (!record || !record->value) return "-";
  return record->unit.empty() ? fmt::format("{:.6g}", *record->value)
                              : fmt::format("{:.6g} {}", *record->value, record->unit);
}

}  // namespace

AcceptanceTable Acceptance::table(const std::string& area) const {
  fs::path path = root_ / "acceptance" / (area + ".toml");
  if (!fs::exists(path))
    throw input_error(fmt::format("There is no area {}: acceptance/{}.toml does not exist.", area, area));
  return read_acceptance_table(path);
}

fs::path Acceptance::record_path(const std::string& area, const std::string& figure) const {
  return root_ / "acceptance" / area / (figure + ".json");
}

std::optional<FigureRecord> Acceptance::record_of(const std::string& area, const Figure& figure) const {
  fs::path path = record_path(area, figure.name);
  if (!fs::exists(path)) return std::nullopt;
  FigureRecord record;
  try {
    record = from_json(Json::parse(read_file(path), path.string()));
  } catch (const Error& error) {
    throw input_error(fmt::format("{} is no record of a figure ({}); remove it and measure again.",
                                  path.string(), error.what()));
  }
  // The table may have changed since; its bar is the one that counts.
  record.bar = figure.bar.text;
  record.holds = record.value && figure.bar.holds(*record.value);
  return record;
}

bool Acceptance::stands(const Measurement& measurement, const FigureRecord& record) const {
  if (!record.clean || record.command != command_digest(measurement)) return false;
  bool by_paths = record.seconds > kLongSeconds && !measurement.paths.empty();
  std::string paths = path_arguments(by_paths ? measurement.paths : kCodePaths);
  std::string command = fmt::format(
      "cd {} && git diff --quiet {}{} 2>/dev/null && test -z \"$(git ls-files --others "
      "--exclude-standard{})\"",
      shell_quoted(root_.string()), shell_quoted(record.commit), paths, paths);
  return run_shell(command) == 0;
}

bool Acceptance::run(const std::string& area, const Measurement& measurement) {
  fmt::print(stderr, "accept: measuring {} {}\n", area, measurement.name);
  const std::string enter = fmt::format("cd {} && ", shell_quoted(root_.string()));
  FigureRecord common;
  common.area = area;
  common.commit = shell_output(enter + "git rev-parse HEAD");
  common.clean = shell_output(enter + "git status --porcelain" + path_arguments(kCodePaths)).empty();
  common.command = command_digest(measurement);
  common.machine = describe_machine();
  common.log = fmt::format("acceptance/{}/logs/{}.txt", area, measurement.name);
  fs::path log = root_ / common.log;
  fs::create_directories(log.parent_path());
  fs::path values_path = fs::temp_directory_path() / fmt::format("stoker_figures_{}.json", ::getpid());
  fs::remove(values_path);

  auto start = std::chrono::steady_clock::now();
  std::string inner = fmt::format("set -o pipefail; ({}\n) 2>&1 | tee {} >&2", measurement.command,
                                  shell_quoted(log.string()));
  int status = run_interruptible(
      fmt::format("{}exec env FIGURES_JSON={} timeout -k 10 {:.0f} bash -c {}", enter,
                  shell_quoted(values_path.string()), measurement.limit_seconds, shell_quoted(inner)),
      measurement.name);
  common.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  std::map<std::string, Value> values = read_values(values_path);
  fs::remove(values_path);
  shorten_log(log, root_);
  values.try_emplace("exit_status", Value{static_cast<double>(status), ""});
  values.try_emplace("seconds", Value{common.seconds, "s"});
  bool all_hold = true;
  for (const Figure& figure : measurement.figures) {
    FigureRecord record = common;
    record.name = figure.name;
    record.bar = figure.bar.text;
    auto value = values.find(figure.value);
    auto minus = values.find(figure.minus);
    if (value != values.end() && (figure.minus.empty() || minus != values.end())) {
      record.value = value->second.value - (figure.minus.empty() ? 0.0 : minus->second.value);
      record.unit = value->second.unit;
    }
    record.holds = record.value && figure.bar.holds(*record.value);
    all_hold = all_hold && record.holds;
    std::optional<FigureRecord> old = record_of(area, figure);
    if (!record.value && old && old->holds && stands(measurement, *old)) {
      fmt::print(stderr, "accept: {} got no value; its record stays\n", figure.name);
    } else {
      write_file_atomic(record_path(area, figure.name), to_json(record).dump_pretty() + "\n");
    }
    fmt::print("{:14} {:44} {:>9} {:>18} {}\n", area, figure.name, figure.bar.text, value_text(record),
               record.holds ? "holds" : "does not hold");
  }
  return all_hold;
}

bool Acceptance::measure(const std::string& area, const std::string& name, bool again) {
  AcceptanceTable figures = table(area);
  bool found = false;
  bool all_hold = true;
  for (const Measurement& measurement : figures.measurements) {
    bool wanted = name.empty() || name == measurement.name ||
                  std::any_of(measurement.figures.begin(), measurement.figures.end(),
                              [&](const Figure& figure) { return figure.name == name; });
    if (!wanted) continue;
    found = true;
    bool done = !again && std::all_of(measurement.figures.begin(), measurement.figures.end(),
                                      [&](const Figure& figure) {
                                        std::optional<FigureRecord> old = record_of(area, figure);
                                        return old && old->holds && stands(measurement, *old);
                                      });
    if (done) {
      fmt::print(stderr, "accept: {} {} stands\n", area, measurement.name);
    } else if (!run(area, measurement)) {
      all_hold = false;
    }
  }
  if (!found)
    throw input_error(fmt::format("acceptance/{}.toml has no figure or measurement called {}.", area, name));
  return all_hold;
}

bool Acceptance::list(const std::string& area) {
  std::vector<std::string> areas;
  if (!area.empty()) {
    areas.push_back(area);
  } else {
    for (const auto& entry : fs::directory_iterator(root_ / "acceptance")) {
      if (entry.path().extension() == ".toml") areas.push_back(entry.path().stem().string());
    }
    std::sort(areas.begin(), areas.end());
  }
  bool all_hold = true;
  for (const std::string& name : areas) {
    for (const Measurement& measurement : table(name).measurements) {
      for (const Figure& figure : measurement.figures) {
        std::optional<FigureRecord> found = record_of(name, figure);
        const char* verdict = !found                         ? "missing"
                              : !found->holds                ? "does not hold"
                              : !stands(measurement, *found) ? "does not hold: the code has changed since"
                                                             : "holds";
        all_hold = all_hold && std::string_view(verdict) == "holds";
        std::string commit = found ? found->commit.substr(0, 12) + (found->clean ? "" : "+changes") : "-";
        fmt::print("{:14} {:44} {:>9} {:>18} {:12} {}\n", name, figure.name, figure.bar.text,
                   value_text(found), commit, verdict);
      }
    }
  }
  return all_hold;
}

void merge_figures(const fs::path& output, const std::vector<fs::path>& inputs) {
  Json::Array all;
  for (const fs::path& input : inputs) {
    Json list = Json::parse(read_file(input), input.string());
    all.insert(all.end(), list.as_array().begin(), list.as_array().end());
  }
  write_file_atomic(output, Json(std::move(all)).dump_pretty() + "\n");
}

void count_tests(const fs::path& output, const std::vector<fs::path>& inputs) {
  std::map<std::string, double> counts = {{"tests", 0}, {"tests_failed", 0}, {"tests_skipped", 0}};
  const std::vector<std::string_view> described = {"name",   "file", "line",      "value_param", "type_param",
                                                   "status", "time", "timestamp", "result",      "classname"};
  for (const fs::path& input : inputs) {
    Json report = Json::parse(read_file(input), input.string());
    for (const Json& suite : report.at("testsuites").as_array()) {
      for (const Json& test : suite.at("testsuite").as_array()) {
        if (test.at("status") != Json("RUN")) continue;
        ++counts["tests"];
        counts["tests_skipped"] += test.at("result") == Json("SKIPPED");
        counts["tests_failed"] += test.find("failures") != nullptr;
        for (const auto& [name, value] : test.as_object()) {
          if (!value.is_string() || std::find(described.begin(), described.end(), name) != described.end())
            continue;
          char* end = nullptr;
          double number = std::strtod(value.as_string().c_str(), &end);
          if (*end == '\0' && end != value.as_string().c_str()) counts[name] += number;
        }
      }
    }
  }
  Json::Array figures;
  for (const auto& [name, count] : counts)
    figures.push_back(Json::object({{"name", name}, {"value", count}, {"unit", ""}}));
  write_file_atomic(output, Json(std::move(figures)).dump_pretty() + "\n");
}

}  // namespace stoker
