#include "text/schema/compiled_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace stoker {
namespace {

constexpr int kDeepestSchemaNesting = 64;
constexpr size_t kLongestQuotedSchema = 80;

// What a keyword's value must look like.
enum class KeywordKind {
  kAnnotation,
  kAny,
  kType,
  kList,
  kNames,
  kSchema,
  kSchemas,
  kSchemaOrSchemas,
  kSchemaMap,
  kPatternMap,
  kNamesMap,
  kDependencies,
  kCount,
  kNumber,
  kBound,
  kFlag,
  kPattern,
  kReference,
};

struct Keyword {
  const char* name;
  KeywordKind kind;
};
constexpr Keyword kKeywords[] = {
    {"title", KeywordKind::kAnnotation},
    {"description", KeywordKind::kAnnotation},
    {"default", KeywordKind::kAnnotation},
    {"examples", KeywordKind::kAnnotation},
    {"example", KeywordKind::kAnnotation},
    {"format", KeywordKind::kAnnotation},
    {"deprecated", KeywordKind::kAnnotation},
    {"readOnly", KeywordKind::kAnnotation},
    {"writeOnly", KeywordKind::kAnnotation},
    {"$comment", KeywordKind::kAnnotation},
    {"$schema", KeywordKind::kAnnotation},
    {"$id", KeywordKind::kAnnotation},
    {"id", KeywordKind::kAnnotation},
    {"strict", KeywordKind::kAnnotation},
    {"contentEncoding", KeywordKind::kAnnotation},
    {"contentMediaType", KeywordKind::kAnnotation},
    {"contentSchema", KeywordKind::kAnnotation},
    {"discriminator", KeywordKind::kAnnotation},
    {"externalDocs", KeywordKind::kAnnotation},
    {"xml", KeywordKind::kAnnotation},
    {"type", KeywordKind::kType},
    {"nullable", KeywordKind::kFlag},
    {"enum", KeywordKind::kList},
    {"const", KeywordKind::kAny},
    {"$ref", KeywordKind::kReference},
    {"$defs", KeywordKind::kSchemaMap},
    {"definitions", KeywordKind::kSchemaMap},
    {"properties", KeywordKind::kSchemaMap},
    {"required", KeywordKind::kNames},
    {"additionalProperties", KeywordKind::kSchema},
    {"patternProperties", KeywordKind::kPatternMap},
    {"propertyNames", KeywordKind::kSchema},
    {"minProperties", KeywordKind::kCount},
    {"maxProperties", KeywordKind::kCount},
    {"dependentRequired", KeywordKind::kNamesMap},
    {"dependentSchemas", KeywordKind::kSchemaMap},
    {"dependencies", KeywordKind::kDependencies},
    {"items", KeywordKind::kSchemaOrSchemas},
    {"prefixItems", KeywordKind::kSchemas},
    {"additionalItems", KeywordKind::kSchema},
    {"contains", KeywordKind::kSchema},
    {"minContains", KeywordKind::kCount},
    {"maxContains", KeywordKind::kCount},
    {"minItems", KeywordKind::kCount},
    {"maxItems", KeywordKind::kCount},
    {"uniqueItems", KeywordKind::kFlag},
    {"minimum", KeywordKind::kNumber},
    {"maximum", KeywordKind::kNumber},
    {"exclusiveMinimum", KeywordKind::kBound},
    {"exclusiveMaximum", KeywordKind::kBound},
    {"multipleOf", KeywordKind::kNumber},
    {"minLength", KeywordKind::kCount},
    {"maxLength", KeywordKind::kCount},
    {"pattern", KeywordKind::kPattern},
    {"allOf", KeywordKind::kSchemas},
    {"anyOf", KeywordKind::kSchemas},
    {"oneOf", KeywordKind::kSchemas},
    {"not", KeywordKind::kSchema},
    {"if", KeywordKind::kSchema},
    {"then", KeywordKind::kSchema},
    {"else", KeywordKind::kSchema},
};
constexpr const char* kTypeNames[] = {"null", "boolean", "integer", "number", "string", "array", "object"};

KeywordKind keyword_kind(const std::string& name, bool& known) {
  known = true;
  for (const Keyword& keyword : kKeywords) {
    if (name == keyword.name) return keyword.kind;
  }
  known = name.starts_with("x-");
  return KeywordKind::kAnnotation;
}

bool is_type_name(const Json& value) {
  return value.is_string() &&
         std::find(std::begin(kTypeNames), std::end(kTypeNames), value.as_string()) != std::end(kTypeNames);
}

bool all_of(const Json& list, bool (*holds)(const Json&)) {
  return list.is_array() && std::all_of(list.as_array().begin(), list.as_array().end(), holds);
}

bool is_names(const Json& value) {
  return all_of(value, [](const Json& name) { return name.is_string(); });
}

bool fits_keyword(const Json& value, KeywordKind kind) {
  switch (kind) {
    case KeywordKind::kAnnotation:
    case KeywordKind::kAny:
    case KeywordKind::kSchema:  // checked as a schema
      return true;
    case KeywordKind::kType:
      return is_type_name(value) || (all_of(value, is_type_name) && !value.as_array().empty());
    case KeywordKind::kList:
      return value.is_array();
    case KeywordKind::kNames:
      return is_names(value);
    case KeywordKind::kSchemas:
      return value.is_array() && !value.as_array().empty();
    case KeywordKind::kSchemaOrSchemas:
      return !value.is_array() || !value.as_array().empty();
    case KeywordKind::kSchemaMap:
    case KeywordKind::kPatternMap:
    case KeywordKind::kDependencies:
      return value.is_object();
    case KeywordKind::kNamesMap:
      return value.is_object() &&
             std::all_of(value.as_object().begin(), value.as_object().end(),
                         [](const Json::Member& member) { return is_names(member.second); });
    case KeywordKind::kCount:
      return value.is_number() && value.as_double() >= 0 && value.as_double() < 0x1p63 &&
             value.as_double() == static_cast<double>(static_cast<int64_t>(value.as_double()));
    case KeywordKind::kNumber:
      return value.is_number();
    case KeywordKind::kBound:  // draft 4 and OpenAPI 3.0: true makes minimum exclusive
      return value.is_number() || value.is_bool();
    case KeywordKind::kFlag:
      return value.is_bool();
    case KeywordKind::kPattern:
    case KeywordKind::kReference:
      return value.is_string();
  }
  return false;
}

// A part of a JSON Pointer in a URI fragment: %XX, ~1 for '/', ~0 for '~'.
std::string decode_pointer_part(std::string_view part) {
  std::string text;
  for (size_t i = 0; i < part.size(); ++i) {
    int byte = 0;
    if (part[i] == '%' && i + 2 < part.size() &&
        std::from_chars(part.data() + i + 1, part.data() + i + 3, byte, 16).ptr == part.data() + i + 3) {
      text.push_back(static_cast<char>(byte));
      i += 2;
    } else if (part[i] == '~' && i + 1 < part.size() && (part[i + 1] == '0' || part[i + 1] == '1')) {
      text.push_back(part[++i] == '0' ? '~' : '/');
    } else {
      text.push_back(part[i]);
    }
  }
  return text;
}

// The place in `root` that "#/..." names; nullptr when there is none.
const Json* resolve_reference(const Json& root, std::string_view reference) {
  if (reference == "#") return &root;
  if (!reference.starts_with("#/")) return nullptr;
  reference.remove_prefix(2);
  const Json* place = &root;
  for (;;) {
    size_t slash = std::min(reference.find('/'), reference.size());
    std::string part = decode_pointer_part(reference.substr(0, slash));
    if (place->is_array()) {
      size_t index = 0;
      auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
      bool is_index = error == std::errc() && end == part.data() + part.size();
      place = is_index && index < place->as_array().size() ? &place->as_array()[index] : nullptr;
    } else {
      place = place->find(part);
    }
    if (place == nullptr || slash == reference.size()) return place;
    reference.remove_prefix(slash + 1);
  }
}

// Checks a schema and collects its references and patterns.
class SchemaCompiler {
 public:
  SchemaCompiler(CompiledSchema& compiled, const std::string& what) : compiled_(compiled), what_(what) {}

  void compile() {
    if (compiled_.root.is_null()) return;
    check(compiled_.root, "schema", 0);
    // What a reference leads to may stand where no keyword made it be checked.
    while (!unchecked_.empty()) {
      auto [schema, place] = unchecked_.back();
      unchecked_.pop_back();
      check(*schema, place, 0);
    }
  }

 private:
  Error bad(const std::string& place, const std::string& sentence) const {
    return input_error(fmt::format("The JSON Schema of {}: {} {}.", what_, place, sentence));
  }

  void check(const Json& schema, const std::string& place, int depth) {
    if (!checked_.insert(&schema).second || schema.is_bool()) return;
    if (!schema.is_object()) {
      throw bad(place, fmt::format("must be an object or a boolean, found {}", schema.type_name()));
    }
    if (depth > kDeepestSchemaNesting) throw bad(place, "is nested too deeply");
    for (const auto& [name, value] : schema.as_object()) {
      std::string here = place + "." + name.substr(0, kLongestQuotedSchema);
      bool known = false;
      KeywordKind kind = keyword_kind(name, known);
      if (!known) throw bad(here, "is a keyword that Stoker does not check; leave it out");
      if (!fits_keyword(value, kind)) {
        throw bad(here, fmt::format("cannot be {}", value.dump().substr(0, kLongestQuotedSchema)));
      }
      if (name == "multipleOf" && !(value.as_double() > 0)) throw bad(here, "must be above 0");
      check_inner(value, kind, here, depth + 1);
    }
  }

  void check_inner(const Json& value, KeywordKind kind, const std::string& place, int depth) {
    switch (kind) {
      case KeywordKind::kSchema:
        return check(value, place, depth);
      case KeywordKind::kSchemas:
        return check_list(value, place, depth);
      case KeywordKind::kSchemaOrSchemas:
        return value.is_array() ? check_list(value, place, depth) : check(value, place, depth);
      case KeywordKind::kSchemaMap:
      case KeywordKind::kPatternMap:
      case KeywordKind::kDependencies:
        for (const auto& [name, schema] : value.as_object()) {
          std::string here = place + "." + name.substr(0, kLongestQuotedSchema);
          if (kind == KeywordKind::kPatternMap) add_pattern(name, here);
          if (kind != KeywordKind::kDependencies || !is_names(schema)) check(schema, here, depth);
        }
        return;
      case KeywordKind::kPattern:
        return add_pattern(value.as_string(), place);
      case KeywordKind::kReference:
        return add_reference(value.as_string(), place);
      default:
        return;
    }
  }

  void check_list(const Json& schemas, const std::string& place, int depth) {
    for (size_t i = 0; i < schemas.as_array().size(); ++i) {
      check(schemas.as_array()[i], fmt::format("{}[{}]", place, i), depth);
    }
  }

  void add_pattern(const std::string& pattern, const std::string& place) {
    if (compiled_.patterns.contains(pattern)) return;
    try {
      compiled_.patterns.emplace(pattern, SchemaPattern(pattern));
    } catch (const Error& error) {
      throw bad(place, error.what());
    }
  }

  void add_reference(const std::string& reference, const std::string& place) {
    const Json* target = resolve_reference(compiled_.root, reference);
    if (target == nullptr) {
      throw bad(place, fmt::format("leads nowhere; references within the schema are read, such as "
                                   "\"#/$defs/name\", found {}",
                                   Json(reference.substr(0, kLongestQuotedSchema)).dump()));
    }
    if (compiled_.references.emplace(reference, target).second) unchecked_.emplace_back(target, place);
  }

  CompiledSchema& compiled_;
  const std::string& what_;
  std::set<const Json*> checked_;
  std::vector<std::pair<const Json*, std::string>> unchecked_;
};

}  // namespace

std::shared_ptr<const CompiledSchema> compile_schema(Json schema, const std::string& what) {
  auto compiled = std::make_shared<CompiledSchema>();
  compiled->root = std::move(schema);
  SchemaCompiler(*compiled, what).compile();
  return compiled;
}

}  // namespace stoker
