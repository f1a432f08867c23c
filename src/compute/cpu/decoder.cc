#include "compute/cpu/decoder.h"

#include <algorithm>

#include <fmt/core.h>
#include "base/error.h"
#include "compute/cpu/column_pass.h"
#include "compute/cpu/forward_pass.h"
#include "compute/cpu/log_softmax.h"

namespace stoker::cpu {
namespace {

// Chunks that one thread takes through all layers without meeting the others, or all chunks with the threads
// meeting at each layer. The rows of the residual stream and the logits are the group's part of the pass.
struct Group {
  ForwardRows rows;
  std::vector<ContextRun> runs;     // of all sequences
  std::vector<int32_t> logit_rows;  // within the group
  int first_logit = 0;              // of the pass
  FloatBuffer activations;
  FloatBuffer last;  // of the rows of logits: the last layer, and the normed rows
};

void check(const ModelConfig& config, const SequenceChunk& chunk) {
  const int32_t length = chunk.position + static_cast<int32_t>(chunk.tokens.size());
  int32_t covered = 0;
  for (const KvRun& run : chunk.context) covered += run.count;
  if (chunk.tokens.empty() || chunk.position < 0 || covered != length) {
    throw internal_error(fmt::format(
        "A chunk of {} tokens at position {} has a context of {} positions; it must cover both exactly.",
        chunk.tokens.size(), chunk.position, covered));
  }
  if (length > config.max_position_embeddings) {
    throw internal_error(fmt::format("A sequence of {} tokens is longer than the model's {} positions.",
                                     length, config.max_position_embeddings));
  }
  for (const int32_t token : chunk.tokens) {
    if (token < 0 || token >= config.vocab_size) {
      throw internal_error(
          fmt::format("Token id {} lies outside the vocabulary of {}.", token, config.vocab_size));
    }
  }
}

void add_chunk(const SequenceChunk& chunk, Group& group) {
  ForwardRows& rows = group.rows;
  const int first_row = rows.count();
  const int count = static_cast<int>(chunk.tokens.size());
  rows.token.insert(rows.token.end(), chunk.tokens.begin(), chunk.tokens.end());
  rows.sequences.push_back({first_row, count, chunk.position, {}});
  for (int i = 0; i < count; ++i) rows.position.push_back(chunk.position + i);
  int32_t position = 0;
  for (const KvRun& run : chunk.context) {
    group.runs.push_back({run.block.data, padded(run.block.capacity), 0, run.count});
    for (int32_t p = std::max(position, chunk.position); p < position + run.count; ++p) {
      rows.slot.push_back({run.block.data, padded(run.block.capacity), p - position});
    }
    position += run.count;
  }
}

// Sequences see their runs through spans, which are taken once the vector of runs has stopped growing.
void link_runs(Group& group, std::span<const SequenceChunk> chunks) {
  const ContextRun* next = group.runs.data();
  for (size_t i = 0; i < chunks.size(); ++i) {
    group.rows.sequences[i].context = {next, chunks[i].context.size()};
    next += chunks[i].context.size();
  }
}

LayerActivations lay_out(const DecoderShape& shape, Group& group) {
  const int64_t m = group.rows.count();
  LayerActivations a;
  a.input = group.activations.reserve(m * (shape.hidden_padded + shape.qkv_width + 2 * shape.query_width));
  a.middle = a.output = a.input;
  a.qkv = a.input + m * shape.hidden_padded;
  a.query = a.qkv + m * shape.qkv_width;
  a.attention = a.query + m * shape.query_width;
  return a;
}

}  // namespace

struct DecoderForward::Workspace {
  std::vector<Group> groups;
  std::vector<ForwardScratch> scratch;
  ColumnPass columns;
};

DecoderForward::DecoderForward(std::shared_ptr<const PackedWeights> weights, int32_t vocabulary_size,
                               Split split)
    : weights_(std::move(weights)),
      vocabulary_size_(vocabulary_size),
      split_(split),
      workspace_(std::make_unique<Workspace>()) {
  if (vocabulary_size < 1 || vocabulary_size > weights_->config.vocab_size) {
    throw internal_error(fmt::format("A vocabulary of {} ids does not fit a model with {}.", vocabulary_size,
                                     weights_->config.vocab_size));
  }
}

DecoderForward::~DecoderForward() = default;

// Chunk boundaries that give each of `parts` threads a similar number of rows, when that is possible to
// within a quarter; else one group of everything.
static std::vector<int> split_chunks(std::span<const SequenceChunk> chunks, int parts) {
  const int count = static_cast<int>(chunks.size());
  int64_t total = 0;
  for (const SequenceChunk& chunk : chunks) total += static_cast<int64_t>(chunk.tokens.size());
  std::vector<int> bounds = {0};
  int64_t done = 0, largest = 0, group = 0;
  for (int c = 0; c < count; ++c) {
    const int64_t size = static_cast<int64_t>(chunks[c].tokens.size());
    const int64_t part = std::min<int64_t>(parts - 1, (2 * done + size) * parts / (2 * total));
    if (part >= static_cast<int64_t>(bounds.size())) {
      bounds.push_back(c);
      group = 0;
    }
    done += size;
    group += size;
    largest = std::max(largest, group);
  }
  bounds.push_back(count);
  if (4 * largest * parts > 5 * total + 4 * parts) return {0, count};
  return bounds;
}

// Rows, contexts and logits of one group's chunks. `first_row` and `next_logit` count over the pass and move
// on.
static void lay_out_rows(const DecoderShape& shape, std::span<const SequenceChunk> chunks,
                         std::span<const int32_t> logit_rows, int& first_row, size_t& next_logit,
                         Group& group) {
  ForwardRows& rows = group.rows;
  rows.token.clear(), rows.position.clear(), rows.slot.clear(), rows.sequences.clear();
  group.runs.clear(), group.logit_rows.clear();
  for (const SequenceChunk& chunk : chunks) add_chunk(chunk, group);
  link_runs(group, chunks);
  make_attention_tasks(shape, rows);
  group.first_logit = static_cast<int>(next_logit);
  const int end = first_row + rows.count();
  for (; next_logit < logit_rows.size() && logit_rows[next_logit] < end; ++next_logit) {
    if (logit_rows[next_logit] < first_row) break;
    group.logit_rows.push_back(logit_rows[next_logit] - first_row);
  }
  first_row = end;
  group.last.reserve(static_cast<int64_t>(group.logit_rows.size()) *
                     (2 * shape.hidden_padded + shape.query_width));
}

// Logits of the group's rows of logits `range`, from the last layer's attention on: nothing reads what that
// layer makes of other rows. `logits` are the pass's.
static void last_rows(const PackedWeights& weights, Group& group, const LayerActivations& all, Range range,
                      ForwardScratch& scratch, int vocabulary, float* logits) {
  const DecoderShape& s = weights.shape;
  const auto rows = static_cast<int64_t>(group.logit_rows.size());
  LayerActivations last;
  last.input = last.middle = last.output = group.last.data();
  last.attention = last.input + rows * s.hidden_padded;
  for (int64_t i = range.begin; i < range.end; ++i) {
    const int64_t row = group.logit_rows[static_cast<size_t>(i)];
    std::copy_n(all.input + row * s.hidden_padded, s.hidden_padded, last.input + i * s.hidden_padded);
    std::copy_n(all.attention + row * s.query_width, s.query_width, last.attention + i * s.query_width);
  }
  attention_outputs(weights, s.layers - 1, range.begin, range.end, last, scratch);
  const int64_t first = range.begin * s.hidden_padded;
  float* normed = last.attention + rows * s.query_width;
  language_model_head(weights, range.end - range.begin, last.input + first, s.hidden_padded, vocabulary,
                      normed + first, logits + (int64_t{group.first_logit} + range.begin) * vocabulary,
                      vocabulary);
}

// All layers on one thread.
static void run_alone(const PackedWeights& weights, Group& group, ForwardScratch& scratch, int vocabulary,
                      float* logits) {
  const LayerActivations a = lay_out(weights.shape, group);
  const int m = group.rows.count();
  embed(weights, group.rows, 0, m, a.input);
  for (int l = 0; l < weights.shape.layers; ++l) {
    attention_inputs(weights, l, group.rows, 0, m, a, scratch);
    attention(weights, l, group.rows, 0, static_cast<int>(group.rows.tasks.size()), a, scratch);
    if (l + 1 < weights.shape.layers) attention_outputs(weights, l, 0, m, a, scratch);
  }
  last_rows(weights, group, a, {0, static_cast<int>(group.logit_rows.size())}, scratch, vocabulary, logits);
}

// Threads split the rows of one group, and meet before and after attention.
static void run_together(const PackedWeights& weights, Group& group, std::vector<ForwardScratch>& scratch,
                         int vocabulary, float* logits, Parallel& parallel) {
  constexpr int kGrain = 6;
  const int layers = weights.shape.layers, threads = parallel.threads(), m = group.rows.count();
  const LayerActivations a = lay_out(weights.shape, group);
  for (int l = 0; l < layers; ++l) {
    parallel.for_each(threads, [&](int t) {
      const Range range = part_of(m, threads, t, kGrain);
      if (l == 0) embed(weights, group.rows, range.begin, range.end, a.input);
      if (l > 0) attention_outputs(weights, l - 1, range.begin, range.end, a, scratch[t]);
      attention_inputs(weights, l, group.rows, range.begin, range.end, a, scratch[t]);
    });
    parallel.for_each(threads, [&](int t) {
      const Range range = part_of_tasks(group.rows, threads, t);
      attention(weights, l, group.rows, range.begin, range.end, a, scratch[t]);
    });
  }
  parallel.for_each(threads, [&](int t) {
    const Range range = part_of(static_cast<int>(group.logit_rows.size()), threads, t, kGrain);
    last_rows(weights, group, a, range, scratch[t], vocabulary, logits);
  });
}

void DecoderForward::run(std::span<const SequenceChunk> chunks, std::span<const int32_t> logit_rows,
                         float* logits, Parallel& parallel) {
  if (chunks.empty()) return;
  Workspace& work = *workspace_;
  const int threads = parallel.threads();
  for (const SequenceChunk& chunk : chunks) check(weights_->config, chunk);
  int total = 0;
  for (const SequenceChunk& chunk : chunks) total += static_cast<int>(chunk.tokens.size());
  const bool by_columns = (split_ == Split::kColumns && total <= ColumnPass::kMostRows) ||
                          (split_ == Split::kAutomatic && ColumnPass::suits(*weights_, total, threads));
  const std::vector<int> bounds =
      by_columns ? std::vector<int>{0, static_cast<int>(chunks.size())} : split_chunks(chunks, threads);
  const int groups = static_cast<int>(bounds.size()) - 1;
  if (static_cast<int>(work.groups.size()) < groups) work.groups.resize(groups);
  if (static_cast<int>(work.scratch.size()) < threads) work.scratch.resize(threads);
  int first_row = 0;
  size_t next_logit = 0;
  for (int g = 0; g < groups; ++g) {
    lay_out_rows(weights_->shape, chunks.subspan(bounds[g], bounds[g + 1] - bounds[g]), logit_rows, first_row,
                 next_logit, work.groups[g]);
  }
  if (next_logit != logit_rows.size()) {
    throw internal_error("A row of logits was asked for that no chunk has, or rows were not ascending.");
  }
  if (by_columns) {
    work.columns.run(*weights_, work.groups[0].rows, work.groups[0].logit_rows, vocabulary_size_, logits,
                     parallel);
    return;
  }
  if (groups == 1 && threads > 1) {
    run_together(*weights_, work.groups[0], work.scratch, vocabulary_size_, logits, parallel);
    return;
  }
  parallel.for_each(groups, [&](int g) {
    run_alone(*weights_, work.groups[g], work.scratch[g], vocabulary_size_, logits);
  });
}

float log_probability(std::span<const float> logits, float temperature, int32_t id) {
  return LogSoftmax(logits, temperature).log_probability(id);
}

}  // namespace stoker::cpu
