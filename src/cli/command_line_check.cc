#include "cli/command_line_check.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/config.h"
#include "base/error.h"
#include "cli/output_file.h"

namespace stoker {
namespace {

// "stoker text parse": the verb, and the verb within it, that `app` has read so far.
std::string verb_path(const CLI::App& app) {
  std::string path = "stoker";
  for (const CLI::App* verb = &app; !verb->get_subcommands().empty();) {
    verb = verb->get_subcommands().front();
    path += " " + verb->get_name();
  }
  return path;
}

std::vector<std::string> verbs_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands({})) names.push_back(verb->get_name());
  return names;
}

// The long names of the options that the chosen verb takes, with those of every verb.
std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb = &app; verb != nullptr;) {
    for (const CLI::Option* option : verb->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    verb = verb->get_subcommands().empty() ? nullptr : verb->get_subcommands().front();
  }
  return names;
}

std::string suggestion(std::string_view name, const std::vector<std::string>& known) {
  const std::string near = nearest_name(name, known);
  return near.empty() ? "" : fmt::format(" (did you mean {}?)", near);
}

std::string unexpected(const CLI::App& app, const std::string& verb) {
  const std::vector<std::string> words = app.remaining(true);
  if (words.empty()) return fmt::format("'{}' was given more than it takes", verb);
  const std::string word = words.front().substr(0, words.front().find('='));
  if (!word.starts_with('-'))
    return fmt::format("'{}' takes no further argument \"{}\"", verb, words.front());
  return fmt::format("There is no option {} of '{}'{}", word, verb, suggestion(word, option_names(app)));
}

// What CLI11 says before and after `mark`; the second is empty without it.
std::pair<std::string, std::string> split(const std::string& text, std::string_view mark) {
  const size_t at = text.find(mark);
  if (at == std::string::npos) return {text, ""};
  return {text.substr(0, at), text.substr(at + mark.size())};
}

void refuse_unknown(const CLI::App& app, const std::string& path, const std::string& word) {
  const std::vector<std::string> verbs = verbs_of(app);
  if (std::find(verbs.begin(), verbs.end(), word) != verbs.end()) return;
  throw input_error(fmt::format("There is no verb \"{}\" of '{}'{}; the verbs are {}.", word, path,
                                suggestion(word, verbs), fmt::join(verbs, ", ")));
}

}  // namespace

std::function<std::string(const std::string&)> whole_number(int64_t least, int64_t most) {
  return [least, most](const std::string& text) -> std::string {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && value >= least && value <= most)
      return "";
    return most == std::numeric_limits<int64_t>::max()
               ? fmt::format("must be a whole number of at least {}, but is \"{}\"", least, text)
               : fmt::format("must be a whole number from {} to {}, but is \"{}\"", least, most, text);
  };
}

void add_output_file(CLI::App& verb, const std::string& name, std::filesystem::path& path,
                     const std::string& description) {
  verb.add_option(name, path, description)->check([name](const std::string& text) -> std::string {
    try {
      if (!text.empty()) check_output_file(text);
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("{}: {}", name, error.what()));
    }
    return "";
  });
}

void refuse_empty_values(CLI::App& app, const std::vector<std::string>& except) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() == 0) continue;  // a flag
    if (std::find(except.begin(), except.end(), option->get_name()) != except.end()) continue;
    option->check([](const std::string& text) { return text.empty() ? "must not be empty" : ""; });
  }
  for (CLI::App* verb : app.get_subcommands({})) refuse_empty_values(*verb, except);
}

void refuse_unknown_verb(const CLI::App& app, int argument_count, char** argument_values) {
  const CLI::App* verb = &app;
  std::string path = "stoker";
  for (int i = 1; i < argument_count; ++i) {
    const std::string word = argument_values[i];
    if (word.starts_with('-')) continue;  // the flags here take no value
    if (verbs_of(*verb).empty()) return;
    refuse_unknown(*verb, path, word);
    verb = verb->get_subcommand(word);
    path += " " + word;
  }
}

std::string parse_error_sentence(const CLI::App& app, const CLI::ParseError& error) {
  const std::string verb = verb_path(app);
  std::string what = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    what = unexpected(app, verb);
  } else if (const std::string converted = split(what, "Could not convert: ").second; !converted.empty()) {
    const auto [name, value] = split(converted, " = ");
    const bool whole = value.find_first_not_of("+-0123456789") == std::string::npos;
    what = fmt::format("{} must be a {}, but is \"{}\"", name, whole ? "smaller number" : "number", value);
  } else if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && what.ends_with(" missing")) {
    what = fmt::format("{} needs a value", split(what, ": ").first);
  } else if (dynamic_cast<const CLI::ValidationError*>(&error) != nullptr) {
    const auto [name, reason] = split(what, ": ");
    what = reason.starts_with("must ") ? name + " " + reason : what;
  } else if (const CLI::App* last = app.get_subcommands().empty() ? &app : app.get_subcommands().front();
             last->get_subcommands().empty() && !verbs_of(*last).empty()) {
    what = fmt::format("'{}' needs a verb: {}", verb, fmt::join(verbs_of(*last), ", "));
  }
  return fmt::format("{}; '{} --help' tells what it takes.", what, verb);
}

}  // namespace stoker
