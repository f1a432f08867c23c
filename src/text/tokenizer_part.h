#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace stoker {

// One object of a tokenizer.json while it is read; every complaint names the file and the place in it. A
// view: the JSON must outlive it.
//
//   TokenizerPart part(json.at("normalizer"), "normalizer", file);
//   if (part.type() == "Prepend") prefix = part.text("prepend");
class TokenizerPart {
 public:
  TokenizerPart(const Json& json, std::string place, std::string file)
      : json_(&json), place_(std::move(place)), file_(std::move(file)) {}

  const Json& json() const { return *json_; }
  const std::string& place() const { return place_; }
  const std::string& file() const { return file_; }

  // The member "type"; empty when there is none.
  std::string type() const;
  // A member that is absent or null counts as absent.
  bool has(std::string_view key) const;
  bool flag(std::string_view key, bool absent) const;
  std::string text(std::string_view key, std::string_view absent) const;
  std::string text(std::string_view key) const;  // must be there
  int64_t integer(std::string_view key, int64_t absent) const;
  TokenizerPart member(std::string_view key) const;                 // must be there
  std::vector<TokenizerPart> elements(std::string_view key) const;  // of a list, which must be there
  // The elements of a Sequence under `key`, those of Sequences inside it in their place; else the part
  // itself. Nesting is bounded by the parser's depth.
  std::vector<TokenizerPart> flattened(std::string_view key) const;

  // "FILE: PLACE SENTENCE; remedy".
  Error bad(std::string_view sentence) const;
  // The part's type would change tokens or text and is not implemented; `supported` lists what is.
  Error unsupported(std::string_view supported) const;

 private:
  const Json* json_;
  std::string place_;
  std::string file_;
};

}  // namespace stoker
