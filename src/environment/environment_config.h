#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "environment/registry.h"

namespace stoker {

// The options of one environment kind, whichever it is.
class EnvironmentOptions {
 public:
  virtual ~EnvironmentOptions() = default;
  virtual void for_each_field(ConfigFields& visit) = 0;
  // Throws Error(kInput) for options that do not fit together.
  virtual std::unique_ptr<EnvironmentKind> make() const = 0;
  virtual std::unique_ptr<EnvironmentOptions> clone() const = 0;
};

// The `environment` section of a run file: which kind, and the options of each kind under its own name, as
// `kind` and `[environment.arithmetic]`. A value: copies share nothing.
class EnvironmentConfig {
 public:
  EnvironmentConfig();
  EnvironmentConfig(const EnvironmentConfig& other);
  EnvironmentConfig(EnvironmentConfig&& other) noexcept = default;
  EnvironmentConfig& operator=(EnvironmentConfig other) noexcept;

  std::string kind = "arithmetic";

  void for_each_field(ConfigFields& visit);
  std::unique_ptr<EnvironmentKind> make() const;

 private:
  struct Section {
    std::string name;
    std::string documentation;
    std::unique_ptr<EnvironmentOptions> options;
  };
  std::vector<Section> sections_;  // one a known kind, in the registry's order
};

// The kind that a run file names, from its own section.
std::unique_ptr<EnvironmentKind> make_environment_kind(const EnvironmentConfig& config);

}  // namespace stoker
