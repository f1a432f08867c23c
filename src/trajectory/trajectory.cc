#include "trajectory/trajectory.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "trajectory/record_reader.h"

namespace stoker {
namespace {

constexpr int64_t kMaxTokens = std::numeric_limits<int32_t>::max();
constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();

constexpr SpanKind kSpanKinds[] = {SpanKind::kPrompt, SpanKind::kSampled, SpanKind::kObservation,
                                   SpanKind::kInjected};
constexpr StopReason kStopReasons[] = {StopReason::kNone, StopReason::kStopToken, StopReason::kStopString,
                                       StopReason::kLength, StopReason::kAborted};

// The value of the enumeration that `name` of the record spells.
template <typename Enum, size_t N>
Enum read_name(const RecordReader& record, std::string_view name, const Enum (&values)[N]) {
  const std::string& text = record.text(name);
  for (Enum value : values) {
    if (text == to_string(value)) return value;
  }
  record.fail(name, fmt::format("unknown name \"{}\"", text));
}

// A double whose shortest decimal form is that of the float, so that -0.6931472 is not written as
// -0.6931471824645996. Falls back to the float's exact value where reading that form back through a double
// would round to a neighbour.
Json short_number(float value) {
  char text[32];
  auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  double number = 0;
  std::from_chars(text, end, number);
  bool exact = std::bit_cast<uint32_t>(static_cast<float>(number)) == std::bit_cast<uint32_t>(value);
  return Json(exact ? number : static_cast<double>(value));
}

// Pairs of version and count, for the tokens of a sampled span.
Json run_lengths(std::span<const VersionRun> runs, const Span& span) {
  Json::Array pairs;
  for (const VersionRun& run : runs) {
    const int32_t count = std::min(run.end, span.end) - std::max(run.begin, span.begin);
    if (count > 0) pairs.push_back(Json::array({Json(run.version), Json(count)}));
  }
  return Json(std::move(pairs));
}

std::vector<int64_t> read_run_lengths(const RecordReader& record, std::string_view name, size_t count) {
  std::vector<int64_t> values;
  const Json::Array& runs = record.array(name);
  for (size_t i = 0; i < runs.size(); ++i) {
    std::string place = fmt::format("{}[{}]", record.place_of(name), i);
    if (!runs[i].is_array() || runs[i].as_array().size() != 2) {
      throw input_error(fmt::format("{}: expected a pair of version and count.", place));
    }
    int64_t version = read_integer(runs[i].as_array()[0], place, 0, INT64_MAX);
    int64_t length =
        read_integer(runs[i].as_array()[1], place, 1, static_cast<int64_t>(count - values.size()));
    values.insert(values.end(), static_cast<size_t>(length), version);
  }
  if (values.size() != count) {
    record.fail(name, fmt::format("{} versions for {} tokens", values.size(), count));
  }
  return values;
}

std::vector<int32_t> read_tokens(const RecordReader& record) {
  std::vector<int32_t> tokens;
  const Json::Array& array = record.array("tokens");
  tokens.reserve(array.size());
  for (const Json& token : array) {
    tokens.push_back(static_cast<int32_t>(read_integer(token, record.place_of("tokens"), 0, INT32_MAX)));
  }
  return tokens;
}

std::vector<float> read_log_probabilities(const RecordReader& record, size_t count) {
  constexpr std::string_view kName = "log_probabilities";
  const Json::Array& array = record.array(kName);
  if (array.size() != count) record.fail(kName, fmt::format("{} values for {} tokens", array.size(), count));
  std::vector<float> values;
  values.reserve(count);
  for (const Json& element : array) {
    float value = element.is_number() ? static_cast<float>(element.as_double()) : kNoNumber;
    if (!std::isfinite(value)) record.fail(kName, fmt::format("{} is no finite number", element.dump()));
    values.push_back(value);
  }
  return values;
}

std::vector<uint8_t> read_mixed(const RecordReader& record, size_t count) {
  std::vector<uint8_t> values(count, 0);
  if (record.optional("mixed") == nullptr) return values;
  const Json::Array& array = record.array("mixed");
  if (array.size() != count)
    record.fail("mixed", fmt::format("{} values for {} tokens", array.size(), count));
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<uint8_t>(read_integer(array[i], record.place_of("mixed"), 0, 1));
  }
  return values;
}

}  // namespace

const char* to_string(SpanKind kind) {
  switch (kind) {
    case SpanKind::kPrompt:
      return "prompt";
    case SpanKind::kSampled:
      return "sampled";
    case SpanKind::kObservation:
      return "observation";
    case SpanKind::kInjected:
      return "injected";
  }
  throw internal_error("A SpanKind holds a value outside its enumeration.");
}

const char* to_string(StopReason reason) {
  switch (reason) {
    case StopReason::kNone:
      return "none";
    case StopReason::kStopToken:
      return "stop_token";
    case StopReason::kStopString:
      return "stop_string";
    case StopReason::kLength:
      return "length";
    case StopReason::kAborted:
      return "aborted";
  }
  throw internal_error("A StopReason holds a value outside its enumeration.");
}

void Trajectory::check_new_span(SpanKind kind, int32_t turn) const {
  if (sampling_) {
    throw internal_error("A Trajectory was given a new span while a sampled one is open; close it first.");
  }
  int32_t last_turn = spans_.empty() ? 0 : spans_.back().turn;
  if (turn < last_turn) {
    throw internal_error(
        fmt::format("A Trajectory at turn {} was given a span of turn {}.", last_turn, turn));
  }
  if (kind == SpanKind::kPrompt && turn_count() > 0) {
    throw internal_error("A Trajectory was given a prompt span behind sampled tokens.");
  }
}

void Trajectory::append(SpanKind kind, int32_t turn, std::span<const int32_t> tokens, int64_t start_time,
                        int64_t end_time) {
  if (kind == SpanKind::kSampled) {
    throw internal_error("Trajectory::append was given a sampled span; use begin_sampled.");
  }
  check_new_span(kind, turn);
  if (static_cast<int64_t>(tokens.size()) > kMaxTokens - size()) {
    throw internal_error(fmt::format("A Trajectory holds at most {} tokens.", kMaxTokens));
  }
  for (int32_t token : tokens) {
    if (token < 0) throw internal_error(fmt::format("A Trajectory was given the token id {}.", token));
  }
  if (tokens.empty()) return;
  int32_t begin = size();
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  log_probability_.resize(tokens_.size(), kNoNumber);
  extend_version(-1);
  spans_.push_back({kind, turn, begin, size(), start_time, end_time, StopReason::kNone});
}

// To the last token.
void Trajectory::extend_version(int64_t version) {
  if (versions_.empty() || versions_.back().version != version) {
    const int32_t begin = versions_.empty() ? 0 : versions_.back().end;
    versions_.push_back({begin, begin, version});
  }
  versions_.back().end = size();
}

int64_t Trajectory::version(int32_t index) const {
  return std::upper_bound(versions_.begin(), versions_.end(), index,
                          [](int32_t token, const VersionRun& run) { return token < run.end; })
      ->version;
}

void Trajectory::begin_sampled(int32_t turn, int64_t start_time) {
  check_new_span(SpanKind::kSampled, turn);
  if (turn_count_ == 0 || turn != last_sampled_turn_) ++turn_count_;
  last_sampled_turn_ = turn;
  spans_.push_back({SpanKind::kSampled, turn, size(), size(), start_time, start_time, StopReason::kNone});
  sampling_ = true;
}

void Trajectory::append_sampled(int32_t token, float log_probability, int64_t version, bool mixed) {
  if (!sampling_) throw internal_error("Trajectory::append_sampled was called with no sampled span open.");
  if (token < 0 || version < 0 || !std::isfinite(log_probability)) {
    throw internal_error(
        fmt::format("A Trajectory was given the sampled token {} of version {} with log-probability {}.",
                    token, version, log_probability));
  }
  if (size() == kMaxTokens) {
    throw internal_error(fmt::format("A Trajectory holds at most {} tokens.", kMaxTokens));
  }
  tokens_.push_back(token);
  log_probability_.push_back(log_probability);
  extend_version(version);
  if (mixed) {
    mixed_.resize(tokens_.size(), 0);
    mixed_.back() = 1;
  }
  ++spans_.back().end;
  ++sampled_count_;
}

void Trajectory::close_sampled(StopReason reason, int64_t end_time) {
  if (!sampling_) throw internal_error("Trajectory::close_sampled was called with no sampled span open.");
  spans_.back().stop_reason = reason;
  spans_.back().end_time = end_time;
  sampling_ = false;
}

std::vector<uint8_t> Trajectory::loss_mask(int64_t oldest_trained_version) const {
  std::vector<uint8_t> mask(tokens_.size(), 0);
  for (const VersionRun& run : versions_) {
    if (run.version < std::max<int64_t>(oldest_trained_version, 0)) continue;
    std::fill(mask.begin() + run.begin, mask.begin() + run.end, uint8_t{1});
  }
  return mask;
}

std::optional<int64_t> Trajectory::oldest_version() const {
  std::optional<int64_t> oldest;
  for (const VersionRun& run : versions_) {
    if (run.version >= 0 && (!oldest || run.version < *oldest)) oldest = run.version;
  }
  return oldest;
}

std::optional<int64_t> Trajectory::newest_version() const {
  std::optional<int64_t> newest;
  for (const VersionRun& run : versions_) {
    if (run.version >= 0 && (!newest || run.version > *newest)) newest = run.version;
  }
  return newest;
}

Trajectory Trajectory::cut_after_turn(int32_t turns) const {
  if (turns < 0 || turns > turn_count() || (sampling_ && turns == turn_count())) {
    throw internal_error(fmt::format("A Trajectory of {} {} turns cannot be cut after turn {}.", turn_count(),
                                     sampling_ ? "begun" : "whole", turns));
  }
  Trajectory result;
  for (const Span& span : spans_) {
    bool sampled = span.kind == SpanKind::kSampled;
    bool later = turns == 0 ? sampled : result.turn_count_ == turns && span.turn > result.last_sampled_turn_;
    if (later) break;
    if (!sampled) {
      result.append(span.kind, span.turn, tokens().subspan(span.begin, span.end - span.begin),
                    span.start_time, span.end_time);
      continue;
    }
    result.begin_sampled(span.turn, span.start_time);
    for (int32_t i = span.begin; i < span.end; ++i) {
      result.append_sampled(tokens_[i], log_probability_[i], version(i), mixed(i));
    }
    result.close_sampled(span.stop_reason, span.end_time);
  }
  return result;
}

Json Trajectory::to_json() const {
  Json::Array spans;
  for (const Span& span : spans_) {
    Json::Object members = {{"kind", to_string(span.kind)}, {"turn", span.turn}};
    if (span.start_time != 0) members.emplace_back("start_time", span.start_time);
    if (span.end_time != 0) members.emplace_back("end_time", span.end_time);
    Json::Array ids(tokens_.begin() + span.begin, tokens_.begin() + span.end);
    members.emplace_back("tokens", std::move(ids));
    if (span.kind == SpanKind::kSampled) {
      Json::Array log_probabilities;
      Json::Array mixed_flags;
      bool any_mixed = false;
      for (int32_t i = span.begin; i < span.end; ++i) {
        log_probabilities.push_back(short_number(log_probability_[i]));
        mixed_flags.push_back(Json(mixed(i) ? 1 : 0));
        any_mixed = any_mixed || mixed(i);
      }
      members.emplace_back("log_probabilities", std::move(log_probabilities));
      members.emplace_back("versions", run_lengths(versions_, span));
      if (any_mixed) members.emplace_back("mixed", std::move(mixed_flags));
      members.emplace_back("stop_reason", to_string(span.stop_reason));
    }
    spans.push_back(Json::object(std::move(members)));
  }
  Json json = Json::object({{"spans", Json(std::move(spans))}});
  if (sampling_) json.set("open", true);
  return json;
}

void Trajectory::append_span_json(const Json& json, const std::string& place, bool open) {
  RecordReader record(json, place,
                      {"kind", "turn", "start_time", "end_time", "tokens", "log_probabilities", "versions",
                       "mixed", "stop_reason"});
  SpanKind kind = read_name(record, "kind", kSpanKinds);
  auto turn = static_cast<int32_t>(
      record.integer("turn", spans_.empty() ? 0 : spans_.back().turn, std::numeric_limits<int32_t>::max()));
  std::vector<int32_t> tokens = read_tokens(record);
  int64_t start_time = record.integer_or("start_time", 0);
  int64_t end_time = record.integer_or("end_time", 0);
  if (static_cast<int64_t>(tokens.size()) > kMaxTokens - size()) record.fail("tokens", "too many tokens");
  if (kind != SpanKind::kSampled) {
    for (const char* name : {"log_probabilities", "versions", "mixed", "stop_reason"}) {
      if (record.optional(name) != nullptr) record.fail(name, "only a sampled span has this member");
    }
    if (kind == SpanKind::kPrompt && turn_count() > 0) record.fail("kind", "a prompt follows sampled tokens");
    if (tokens.empty()) record.fail("tokens", "the span is empty");
    append(kind, turn, tokens, start_time, end_time);
    return;
  }
  std::vector<float> log_probabilities = read_log_probabilities(record, tokens.size());
  std::vector<int64_t> versions = read_run_lengths(record, "versions", tokens.size());
  std::vector<uint8_t> mixed = read_mixed(record, tokens.size());
  StopReason reason = read_name(record, "stop_reason", kStopReasons);
  begin_sampled(turn, start_time);
  for (size_t i = 0; i < tokens.size(); ++i) {
    append_sampled(tokens[i], log_probabilities[i], versions[i], mixed[i] != 0);
  }
  close_sampled(reason, end_time);
  sampling_ = open;
}

Trajectory Trajectory::from_json(const Json& json) {
  RecordReader record(json, "trajectory", {"spans", "open"});
  Trajectory result;
  bool open = record.boolean_or("open", false);
  const Json::Array& spans = record.array("spans");
  for (size_t i = 0; i < spans.size(); ++i) {
    result.append_span_json(spans[i], fmt::format("trajectory.spans[{}]", i), open && i + 1 == spans.size());
  }
  if (open != result.sampling_) record.fail("open", "the last span is not a sampled one");
  return result;
}

bool Trajectory::operator==(const Trajectory& other) const {
  if (tokens_ != other.tokens_ || versions_ != other.versions_ || mixed_ != other.mixed_ ||
      spans_ != other.spans_ || sampling_ != other.sampling_) {
    return false;
  }
  for (int32_t i = 0; i < size(); ++i) {
    // Bits, not values: 0 and -0 differ. Tokens that were not sampled have none to compare.
    if (trained(i) &&
        std::bit_cast<uint32_t>(log_probability_[i]) != std::bit_cast<uint32_t>(other.log_probability_[i])) {
      return false;
    }
  }
  return true;
}

}  // namespace stoker
