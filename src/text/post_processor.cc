#include "text/post_processor.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "text/tokenizer_part.h"

namespace stoker {
namespace {

// Reads one post-processor after the other; each puts its tokens around those of the ones before.
class PostProcessorReader {
 public:
  explicit PostProcessorReader(const StringToId& ids) {
    for (const auto& [name, id] : ids) known_.insert(id);
  }

  void read(const TokenizerPart& part) {
    std::string type = part.type();
    if (type == "TemplateProcessing") {
      read_template(part);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      result_.before.insert(result_.before.begin(), read_pair(part.member("cls")));
      result_.after.push_back(read_pair(part.member("sep")));
    } else if (type != "ByteLevel") {  // which moves offsets only
      throw part.unsupported("ByteLevel, TemplateProcessing, BertProcessing, RobertaProcessing and Sequence");
    }
  }

  PostProcessor take() { return std::move(result_); }

 private:
  // The form for one text: special tokens and the sequence "A".
  void read_template(const TokenizerPart& part) {
    std::vector<int32_t> before;
    std::vector<int32_t> after;
    bool seen = false;
    for (const TokenizerPart& item : part.elements("single")) {
      if (item.has("Sequence")) {
        if (seen) throw item.bad("is a second Sequence in the form for one text");
        seen = true;
        continue;
      }
      std::string name = item.member("SpecialToken").text("id");
      for (int32_t id : template_ids(part.member("special_tokens"), name)) {
        (seen ? after : before).push_back(id);
      }
    }
    if (!seen) throw part.bad("has no Sequence in its form for one text");
    result_.before.insert(result_.before.begin(), before.begin(), before.end());
    result_.after.insert(result_.after.end(), after.begin(), after.end());
  }

  std::vector<int32_t> template_ids(const TokenizerPart& table, const std::string& name) const {
    std::vector<int32_t> ids;
    for (const TokenizerPart& entry : table.member(name).elements("ids")) ids.push_back(read_id(entry));
    return ids;
  }

  // A pair ["[CLS]", 101].
  int32_t read_pair(const TokenizerPart& part) const {
    if (!part.json().is_array() || part.json().as_array().size() != 2)
      throw part.bad("is no name with its id");
    return read_id({part.json().as_array()[1], part.place() + "[1]", part.file()});
  }

  int32_t read_id(const TokenizerPart& part) const {
    const Json& json = part.json();
    bool fits = json.is_integer() && json.as_double() >= 0 && json.as_double() <= INT32_MAX;
    if (!fits || !known_.contains(static_cast<int32_t>(json.as_int()))) {
      throw part.bad(fmt::format("is {}, the id of no token", json.dump().substr(0, 80)));
    }
    return static_cast<int32_t>(json.as_int());
  }

  std::set<int32_t> known_;
  PostProcessor result_;
};

}  // namespace

std::vector<int32_t> PostProcessor::surround(const std::vector<int32_t>& ids) const {
  std::vector<int32_t> result;
  bool starts = ids.size() >= before.size() && std::equal(before.begin(), before.end(), ids.begin());
  if (!starts) result = before;
  result.insert(result.end(), ids.begin(), ids.end());
  bool ends = ids.size() >= after.size() && std::equal(after.rbegin(), after.rend(), ids.rbegin());
  if (!ends) result.insert(result.end(), after.begin(), after.end());
  return result;
}

PostProcessor read_post_processor(const TokenizerPart& part, const StringToId& ids) {
  if (part.json().is_null()) return {};
  PostProcessorReader reader(ids);
  for (const TokenizerPart& step : part.flattened("processors")) reader.read(step);
  return reader.take();
}

}  // namespace stoker
