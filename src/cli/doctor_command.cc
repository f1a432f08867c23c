#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "base/error.h"
#include "cli/command.h"
#include "cli/model_path.h"
#include "cli/session.h"
#include "compute/cpu/instruction_set.h"
#include "model/model_directory.h"

namespace stoker {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

// The value of the first line "key : value" of a /proc file; empty when absent.
std::string proc_value(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) != 0) continue;
    size_t colon = line.find(':');
    size_t begin = colon == std::string::npos ? std::string::npos : line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string landlock_state() {
  constexpr uint32_t kVersionFlag = 1;  // LANDLOCK_CREATE_RULESET_VERSION
  long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, kVersionFlag);
  return version > 0 ? fmt::format("yes, ABI {}", version) : "no";
}

std::string seccomp_state() { return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0 ? "yes" : "no"; }

std::string bubblewrap_state() {
  for (const char* path : {"/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"}) {
    if (access(path, X_OK) == 0) return path;
  }
  return "not installed (Debian package bubblewrap)";
}

void print_row(const char* name, const std::string& value) { fmt::print("{:<26}{}\n", name, value); }

// What a model is, and that all its tensors can be read.
void print_model(const std::filesystem::path& path) {
  const ModelConfig config = load_model_config(path);
  const Weights weights = load_model_weights(path, loading_bar("loading"));
  print_row("model", path.string());
  print_row("  family", config.model_type);
  print_row("  layers, width, tokens",
            fmt::format("{}, {}, {}", config.num_hidden_layers, config.hidden_size, config.vocab_size));
  print_row("  context", fmt::format("{} tokens", config.max_position_embeddings));
  print_row("  parameters",
            fmt::format("{} in {} tensors, all read", weights.values().size(), weights.manifest().size()));
  const double bytes = static_cast<double>(weights.values().size_bytes());
  print_row("  weights in memory",
            fmt::format("{:.2f} GiB in float32, {:.2f} GiB in bfloat16", bytes / kGiB, bytes / 2 / kGiB));
}

}  // namespace

int run_doctor(const std::filesystem::path& model) {
  if (!model.empty()) check_model_path(model, "MODEL");
  print_row("stoker", kVersion);
  print_row("compiler", __VERSION__);
  print_row("kernel", first_line("/proc/sys/kernel/osrelease"));
  print_row("processor", proc_value("/proc/cpuinfo", "model name"));
  print_row("cores", std::to_string(std::thread::hardware_concurrency()));
  int status = kExitDone;
  try {
    const cpu::InstructionSet set = cpu::instruction_set();
    print_row("kernels", std::string(cpu::to_string(set)));
    print_row("  float32", "packed float32 panels, fused multiply-adds");
    print_row("  bfloat16", set == cpu::InstructionSet::kAvx512Bf16
                                ? "packed bfloat16 panels, VDPBF16PS"
                                : "packed bfloat16 panels, widened in registers, float32 multiply-adds");
  } catch (const Error& error) {
    print_row("kernels", error.what());
    status = kExitFailed;
  }
  for (const cpu::InstructionSet set : cpu::kInstructionSets) {
    print_row(fmt::format("  {}", cpu::to_string(set)).c_str(), cpu::is_supported(set) ? "yes" : "no");
  }
  struct sysinfo memory{};
  if (sysinfo(&memory) == 0) {
    print_row("memory",
              fmt::format("{:.1f} GiB", static_cast<double>(memory.totalram) * memory.mem_unit / kGiB));
  }
  double available_kib = std::strtod(proc_value("/proc/meminfo", "MemAvailable").c_str(), nullptr);
  print_row("memory available", fmt::format("{:.1f} GiB", available_kib * 1024 / kGiB));
  print_row("transparent huge pages", first_line("/sys/kernel/mm/transparent_hugepage/enabled"));
  std::error_code error;
  auto space = std::filesystem::space(".", error);
  if (!error)
    print_row("disk free here", fmt::format("{:.1f} GiB", static_cast<double>(space.available) / kGiB));
  print_row("sandbox: seccomp", seccomp_state());
  print_row("sandbox: landlock", landlock_state());
  print_row("sandbox: bubblewrap", bubblewrap_state());
  std::string namespaces = first_line("/proc/sys/user/max_user_namespaces");
  print_row("sandbox: namespaces", namespaces.empty() || namespaces == "0" ? "no" : "yes");
  if (!model.empty()) print_model(model);
  return status;
}

}  // namespace stoker
