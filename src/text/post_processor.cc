#include "text/post_processor.h"

#include <fmt/format.h>

#include "text/tokenizer_part.h"

namespace stoker {
namespace {

// The form for one text: special tokens and the sequence "A".
void read_template(const TokenizerPart& part, const StringToId& ids, PostProcessor& result) {
  bool seen = false;
  for (const TokenizerPart& item : part.elements("single")) {
    if (item.has("Sequence")) {
      if (seen) throw item.bad("is a second Sequence in the form for one text");
      seen = true;
      continue;
    }
    std::string name = item.member("SpecialToken").text("id");
    auto found = ids.find(name);
    if (found == ids.end()) throw item.bad(fmt::format("names '{}', which is no token", name));
    (seen ? result.after : result.before).push_back(found->second);
  }
  if (!seen) throw part.bad("has no Sequence in its form for one text");
}

}  // namespace

PostProcessor read_post_processor(const TokenizerPart& part, const StringToId& ids) {
  PostProcessor result;
  if (part.json().is_null()) return result;
  for (const TokenizerPart& step : part.flattened("processors")) {
    if (step.type() == "TemplateProcessing") {
      read_template(step, ids, result);
    } else if (step.type() != "ByteLevel") {  // which moves offsets only
      throw step.unsupported("ByteLevel, TemplateProcessing and Sequence");
    }
  }
  return result;
}

}  // namespace stoker
