#include "text/tokenizer_part.h"

#include <fmt/format.h>

namespace stoker {

std::string TokenizerPart::type() const {
  const Json* type = json_->find("type");
  return type != nullptr && type->is_string() ? type->as_string() : "";
}

bool TokenizerPart::has(std::string_view key) const {
  const Json* value = json_->find(key);
  return value != nullptr && !value->is_null();
}

bool TokenizerPart::flag(std::string_view key, bool absent) const {
  if (!has(key)) return absent;
  TokenizerPart value = member(key);
  if (!value.json().is_bool()) throw value.bad("is no boolean");
  return value.json().as_bool();
}

std::string TokenizerPart::text(std::string_view key, std::string_view absent) const {
  return has(key) ? text(key) : std::string(absent);
}

std::string TokenizerPart::text(std::string_view key) const {
  TokenizerPart value = member(key);
  if (!value.json().is_string()) throw value.bad("is no string");
  return value.json().as_string();
}

int64_t TokenizerPart::integer(std::string_view key, int64_t absent) const {
  if (!has(key)) return absent;
  TokenizerPart value = member(key);
  if (!value.json().is_integer()) throw value.bad("is no integer");
  return value.json().as_int();
}

TokenizerPart TokenizerPart::member(std::string_view key) const {
  const Json* value = json_->find(key);
  if (value == nullptr) throw bad(fmt::format("has no '{}'", key));
  return {*value, fmt::format("{}.{}", place_, key), file_};
}

std::vector<TokenizerPart> TokenizerPart::elements(std::string_view key) const {
  const Json* list = json_->find(key);
  if (list == nullptr || !list->is_array()) throw bad(fmt::format("has no list '{}'", key));
  std::vector<TokenizerPart> parts;
  for (const Json& element : list->as_array()) {
    parts.emplace_back(element, fmt::format("{}.{}[{}]", place_, key, parts.size()), file_);
  }
  return parts;
}

std::vector<TokenizerPart> TokenizerPart::flattened(std::string_view key) const {
  if (type() != "Sequence") return {*this};
  std::vector<TokenizerPart> parts;
  for (const TokenizerPart& element : elements(key)) {
    for (TokenizerPart& part : element.flattened(key)) parts.push_back(std::move(part));
  }
  return parts;
}

Error TokenizerPart::bad(std::string_view sentence) const {
  return input_error(
      fmt::format("{}: {} {}; use the file of the model's makers, or make one with 'stoker init'.", file_,
                  place_, sentence));
}

Error TokenizerPart::unsupported(std::string_view supported) const {
  std::string name = type().empty() ? json_->dump().substr(0, 80) : type();
  return bad(fmt::format("is '{}'; Stoker supports {} there", name, supported));
}

}  // namespace stoker
