#include "observe/trace_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "base/trace.h"
#include "observe/trace_reader.h"

namespace stoker {
namespace {

constexpr size_t kTailEpisodes = 5;

class Durations {
 public:
  void add(double seconds) { seconds_.push_back(static_cast<float>(seconds)); }
  SpanTimes times() {
    SpanTimes times{.count = static_cast<int64_t>(seconds_.size())};
    if (seconds_.empty()) return times;
    std::sort(seconds_.begin(), seconds_.end());
    for (float seconds : seconds_) times.total += seconds;
    times.mean = times.total / static_cast<double>(times.count);
    times.p95 = seconds_[(seconds_.size() * 95 + 99) / 100 - 1];
    times.longest = seconds_.back();
    return times;
  }

 private:
  std::vector<float> seconds_;
};

std::map<std::string, SpanTimes> times_of(std::map<std::string, Durations>& durations) {
  std::map<std::string, SpanTimes> times;
  for (auto& [name, all] : durations) times[name] = all.times();
  return times;
}

// How the engine's busy seconds lie against what the learner does, in one start of a run.
class Sharing {
 public:
  void learner_works(int64_t begin, int64_t end) { work_.emplace_back(begin, end); }
  void engine_counted(int64_t time, double busy_seconds) { counts_.emplace_back(time, busy_seconds); }

  struct Seconds {
    double covered = 0;  // between the first count and the last
    double engine = 0;   // busy in them
    double learner = 0;  // at work in them
    double both = 0;     // of `engine`, while the learner was at work: spread evenly from count to count

    void add(const Seconds& other) {
      covered += other.covered;
      engine += other.engine;
      learner += other.learner;
      both += other.both;
    }
  };
  Seconds seconds() const {
    Seconds sums;
    auto next = work_.begin();
    for (size_t i = 1; i < counts_.size(); ++i) {
      const auto [begin, before] = counts_[i - 1];
      const auto [end, after] = counts_[i];
      if (end <= begin) continue;
      while (next != work_.end() && next->second <= begin) ++next;
      int64_t work = 0;
      for (auto at = next; at != work_.end() && at->first < end; ++at) {
        work += std::min(at->second, end) - std::max(at->first, begin);
      }
      const auto length = static_cast<double>(end - begin);
      sums.add({.covered = length * 1e-9,
                .engine = after - before,
                .learner = static_cast<double>(work) * 1e-9,
                .both = (after - before) * static_cast<double>(work) / length});
    }
    return sums;
  }

 private:
  std::vector<std::pair<int64_t, int64_t>> work_;   // in order, none overlap
  std::vector<std::pair<int64_t, double>> counts_;  // in order
};

// Gathers what the summary is made of while the trace is read.
class Gathering {
 public:
  void add(const TraceSlice& slice) {
    if (slice.track_name == "learner") return add_learner(slice);
    if (slice.track_name == "weights served") {
      ++summary_.versions;
    } else if (slice.track_name.starts_with("episode ")) {
      add_episode(slice);
    } else if (slice.track_name.starts_with("evaluation ")) {
      if (slice.depth == 0 && !slice.open) summary_.evaluation_seconds += slice.seconds();
    } else if (slice.track_name.starts_with("group ")) {
      add_group(slice);
    }
  }

  void count(const std::string& counter, int64_t time, double value) {
    if (counter == to_string(TraceCounter::kRunningEpisodes)) {
      if (running_) {
        running_integral_ += running_->second * static_cast<double>(time - running_->first);
        running_time_ += static_cast<double>(time - running_->first);
      }
      running_ = {time, value};
    } else if (counter == to_string(TraceCounter::kEngineBusySeconds)) {
      sharing_.engine_counted(time, value);
    }
  }

  // The next start of the run has its own clock of work: no time passes between the two.
  void end_start() {
    if (learner_begin_) summary_.window += static_cast<double>(learner_end_ - *learner_begin_) * 1e-9;
    learner_begin_.reset();
    running_.reset();
    shared_.add(std::exchange(sharing_, {}).seconds());
    parts_.clear();
    waits_.clear();
  }

  TraceSummary finish() {
    summary_.episode_spans = times_of(episode_);
    summary_.group_spans = times_of(group_);
    summary_.learner_spans = times_of(learner_);
    summary_.steps = summary_.learner_spans["train"].count;
    summary_.group_ready_mean = ready_.times().mean;
    if (summary_.window > 0) {
      summary_.learner_busy =
          (summary_.learner_spans["train"].total + summary_.learner_spans["publish"].total) / summary_.window;
    }
    if (shared_.covered > 0) summary_.engine_busy = std::min(1.0, shared_.engine / shared_.covered);
    const double others = shared_.learner > 0 ? std::min(1.0, shared_.both / shared_.learner) : 0;
    summary_.learner_compute = std::min(summary_.learner_busy * (1 - others), 1 - summary_.engine_busy);
    if (running_time_ > 0) summary_.running_mean = running_integral_ / running_time_;
    return std::move(summary_);
  }

 private:
  void add_learner(const TraceSlice& slice) {
    if (slice.open) return;
    if (learner_begin_ && slice.begin > learner_end_) {
      learner_["other"].add(static_cast<double>(slice.begin - learner_end_) * 1e-9);
    }
    learner_[slice.name].add(slice.seconds());
    if (slice.name != to_string(TraceSpan::kNextBatch)) sharing_.learner_works(slice.begin, slice.end);
    if (!learner_begin_) learner_begin_ = slice.begin;
    learner_end_ = slice.end;
  }

  void add_episode(const TraceSlice& slice) {
    if (slice.depth > 0) {
      parts_[slice.track].emplace_back(slice.name, slice.seconds());
      return;
    }
    TailEpisode episode{.name = slice.track_name,
                        .seconds = slice.seconds(),
                        .outcome = slice.open ? "running" : "",
                        .parts = {}};
    const auto parts = parts_.extract(slice.track);
    if (parts) {
      for (const auto& [name, seconds] : parts.mapped()) {
        episode.parts[name] += seconds;
        if (!slice.open) episode_[name].add(seconds);
      }
    }
    for (const auto& [name, text] : slice.texts) {
      if (name == "outcome") episode.outcome = text;
    }
    ++summary_.outcomes[episode.outcome];
    if (!slice.open) add_whole(episode);
    keep_if_long(std::move(episode));
  }

  void add_whole(const TailEpisode& episode) {
    summary_.episode_seconds += episode.seconds;
    episode_["episode"].add(episode.seconds);
    double known = 0;
    for (const auto& [name, seconds] : episode.parts) known += seconds;
    episode_["other"].add(std::max(0.0, episode.seconds - known));
  }

  void keep_if_long(TailEpisode episode) {
    std::vector<TailEpisode>& tail = summary_.tail;
    if (tail.size() == kTailEpisodes && tail.back().seconds >= episode.seconds) return;
    const auto place = std::find_if(
        tail.begin(), tail.end(), [&](const TailEpisode& other) { return other.seconds < episode.seconds; });
    tail.insert(place, std::move(episode));
    if (tail.size() > kTailEpisodes) tail.pop_back();
  }

  void add_group(const TraceSlice& slice) {
    if (slice.open) return;
    if (slice.name == to_string(TraceSpan::kWait)) {
      waits_[slice.track] = slice.seconds();
      group_["wait"].add(slice.seconds());
      return;
    }
    group_["group"].add(slice.seconds());
    const auto wait = waits_.find(slice.track);
    if (wait == waits_.end()) return;  // not trained
    ready_.add(slice.seconds() - wait->second);
    waits_.erase(wait);
  }

  TraceSummary summary_;
  std::map<std::string, Durations> episode_, group_, learner_;
  Durations ready_;
  // Of the present start: parts of episodes that are not closed, and waits of groups, by track.
  std::map<uint64_t, std::vector<std::pair<std::string, double>>> parts_;
  std::map<uint64_t, double> waits_;
  std::optional<int64_t> learner_begin_;
  int64_t learner_end_ = 0;
  std::optional<std::pair<int64_t, double>> running_;
  Sharing sharing_;
  // Of all starts.
  double running_integral_ = 0, running_time_ = 0;
  Sharing::Seconds shared_;
};

double total_of(const std::map<std::string, SpanTimes>& spans, const char* name) {
  const auto found = spans.find(name);
  return found == spans.end() ? 0 : found->second.total;
}

int64_t count_of(const std::map<std::string, SpanTimes>& spans, const char* name) {
  const auto found = spans.find(name);
  return found == spans.end() ? 0 : found->second.count;
}

double mean_of(const std::map<std::string, SpanTimes>& spans, const char* name) {
  const auto found = spans.find(name);
  return found == spans.end() ? 0 : found->second.mean;
}

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

// What takes most of a run's episodes' time.
std::string longest_part(const TraceSummary& summary) {
  std::string longest = "other";
  for (const auto& [name, times] : summary.episode_spans) {
    if (name != "episode" && times.total > total_of(summary.episode_spans, longest.c_str())) longest = name;
  }
  return longest;
}

constexpr double kSaturated = 0.9;  // share at which something counts as used up

// One step of a run in figures; seconds.
struct StepModel {
  StepModel(const TraceSummary& summary, const TraceRunSettings& settings)
      : step(summary.window / static_cast<double>(summary.steps)),
        learner((settings.shared_cores ? summary.learner_compute : summary.learner_busy) * step),
        engine(summary.engine_busy * step),
        compute(std::max(1e-9, settings.shared_cores ? learner + engine : std::max(learner, engine))),
        ready(std::max(1e-9, summary.group_ready_mean)),
        episodes(static_cast<double>(settings.groups_per_batch) * settings.group_size),
        episode(mean_of(summary.episode_spans, "episode")),
        slots(episodes * episode / settings.max_concurrent_episodes),
        idle(percent(std::max(0.0, 1 - compute / step))),
        facts(fmt::format("A step takes {:.2f} s, of which the learner works {:.2f} s and the engine {:.2f} "
                          "s{}; {:.0f} of at "
                          "most {} episodes are in flight, and most of their time goes to {}.",
                          step, learner, engine, settings.shared_cores ? " on the same cores" : "",
                          summary.running_mean, settings.max_concurrent_episodes, longest_part(summary))) {}

  // Of steps that would take so long, were compute no bound.
  double gain(double seconds) const { return step / std::max(seconds, compute) - 1; }

  double step, learner, engine;
  double compute;   // the least that a step can take
  double ready;     // from the dispatch of a group until it is complete
  double episodes;  // of a step
  double episode;
  double slots;      // the least that a step can take when every slot is taken
  std::string idle;  // share of time in which nothing is computed
  std::string facts;
};

TraceAdvice advise_compute(const StepModel& model, const TraceRunSettings& settings) {
  const bool learning = model.learner >= model.engine;
  const double larger = std::max(model.learner, model.engine),
               smaller = std::min(model.learner, model.engine);
  const double halved = settings.shared_cores ? model.compute - larger / 2 : std::max(smaller, larger / 2);
  TraceAdvice advice{.short_of = settings.shared_cores ? "compute"
                                 : learning            ? "learner"
                                                       : "engine",
                     .knob = learning ? "train.micro_batch_tokens" : "rollout.limits.max_turn_tokens",
                     .gain = model.compute / halved - 1};
  advice.sentence = fmt::format(
      "{} The run is short of {}, which {} busy {} of the time; more episodes in flight would not help. {} "
      "Halving "
      "the work of {} would give about {} more steps in the same time.",
      model.facts, settings.shared_cores ? "compute: of its cores" : "the " + advice.short_of,
      settings.shared_cores ? "are" : "is", percent(std::min(1.0, model.compute / model.step)),
      learning
          ? "Larger micro-batches (train.micro_batch_tokens), fewer trained tokens or more cores make a "
            "training step shorter."
          : "Shorter turns (rollout.limits.max_turn_tokens), a smaller model or more cores make generation "
            "shorter.",
      learning ? "the learner" : "the engine", percent(advice.gain));
  return advice;
}

TraceAdvice advise_slots(const StepModel& model, const TraceRunSettings& settings) {
  constexpr double kMargin = 1.1;
  const double wanted = std::max(settings.max_concurrent_episodes + 1.0,
                                 std::ceil(kMargin * model.episodes * model.episode / model.compute));
  TraceAdvice advice{.short_of = "slots",
                     .knob = "rollout.max_concurrent_episodes",
                     .setting = static_cast<int64_t>(wanted),
                     .gain = std::max(0.0, model.gain(model.episodes * model.episode / wanted))};
  advice.sentence = fmt::format(
      "{} The run is short of slots: all are taken, and nothing is computed {} of the time. Set "
      "rollout.max_concurrent_episodes to {}: about {} more steps in the same time, if the episodes do not "
      "slow "
      "each other.",
      model.facts, model.idle, advice.setting, percent(advice.gain));
  return advice;
}

TraceAdvice advise_tasks(int64_t steps, int64_t updates) {
  return {.short_of = "something to learn",
          .sentence = fmt::format(
              "{} of {} steps had nothing to train and made no update: the rewards of each group were all "
              "equal, or no episode of theirs was scored. More steps in the same time would not help. Use "
              "easier tasks where rewards are low and harder ones where they are high, or raise "
              "rollout.sampling.temperature or rollout.group_size; 'stoker episodes RUN' shows what the "
              "episodes did.",
              steps - updates, steps)};
}

TraceAdvice advise_depth(const StepModel& model, const TraceRunSettings& settings) {
  const int64_t wanted =
      std::max<int64_t>(settings.max_ahead + 1, static_cast<int64_t>(std::ceil(model.ready / model.compute)));
  const double bound = std::max(model.slots, model.ready / static_cast<double>(wanted + 1));
  TraceAdvice advice{.short_of = "episodes in flight",
                     .knob = "rollout.max_ahead",
                     .setting = wanted,
                     .gain = model.gain(bound)};
  if (wanted <= settings.adaptive_most) {
    advice.knob = "";
    advice.setting = 0;
    advice.sentence = fmt::format(
        "{} The run is short of episodes in flight: at depth {} dispatch may not run further ahead, while "
        "nothing "
        "is computed {} of the time and a group takes {:.2f} s. It finds its depth itself, up to "
        "rollout.max_ahead {}, and tries more where that trains more; depth {} would give about {} more "
        "steps in "
        "the same time.",
        model.facts, settings.max_ahead, model.idle, model.ready, settings.adaptive_most, wanted,
        percent(advice.gain));
    return advice;
  }
  advice.sentence = fmt::format(
      "{} The run is short of episodes in flight: dispatch may not run further ahead, while nothing is "
      "computed {} "
      "of the time and a group takes {:.2f} s. Set rollout.max_ahead to {} (with rollout.mode async): about "
      "{} more "
      "steps in the same time, at a mean lag of about {} versions{}.",
      model.facts, model.idle, model.ready, wanted, percent(advice.gain), wanted,
      model.slots > model.compute ? "; then the slots are the limit (rollout.max_concurrent_episodes)" : "");
  return advice;
}

void add_row(std::string& text, const std::string& name, const SpanTimes& times, double whole) {
  text += fmt::format("  {:<12} {:>9} {:>11.2f} {:>7} {:>10.4f} {:>10.4f} {:>10.4f}\n", name, times.count,
                      times.total, whole > 0 ? percent(times.total / whole) : "", times.mean, times.p95,
                      times.longest);
}

void add_table(std::string& text, const char* title, const std::map<std::string, SpanTimes>& spans,
               std::span<const char* const> order, double whole) {
  text += fmt::format("{:<14} {:>9} {:>11} {:>7} {:>10} {:>10} {:>10}\n", title, "count", "total s", "share",
                      "mean s", "p95 s", "longest s");
  for (const char* name : order) {
    const auto found = spans.find(name);
    if (found != spans.end()) add_row(text, name, found->second, whole);
  }
}

}  // namespace

TraceSummary summarize_trace(std::span<const std::filesystem::path> files, const TraceRunSettings& settings) {
  Gathering gathering;
  read_trace(files, {.slice = [&](const TraceSlice& slice) { gathering.add(slice); },
                     .count = [&](const std::string& counter, int64_t time,
                                  double value) { gathering.count(counter, time, value); },
                     .start_ended = [&] { gathering.end_start(); }});
  TraceSummary summary = gathering.finish();
  summary.advice = advise(summary, settings);
  return summary;
}

TraceAdvice advise(const TraceSummary& summary, const TraceRunSettings& settings) {
  if (summary.steps < 2) {
    return {.short_of = "steps",
            .sentence = "The trace holds fewer than two steps: too little to tell what the run is short of."};
  }
  const int64_t updates = count_of(summary.learner_spans, to_string(TraceSpan::kPublish));
  if (2 * updates < summary.steps) return advise_tasks(summary.steps, updates);
  const StepModel model(summary, settings);
  if (model.compute >= kSaturated * model.step) return advise_compute(model, settings);
  const double all_taken = settings.max_concurrent_episodes - settings.group_size + 1;
  if (summary.running_mean >= kSaturated * all_taken) return advise_slots(model, settings);
  return advise_depth(model, settings);
}

std::string to_text(const TraceSummary& summary) {
  constexpr std::array kEpisode = {"construct", "reset", "queue",  "prefill", "decode", "tool",
                                   "step",      "close", "reward", "other",   "episode"};
  constexpr std::array kGroup = {"group", "wait"};
  constexpr std::array kLearner = {"await", "train", "publish", "other"};
  std::string text = fmt::format("steps {}   seconds {:.2f}   versions served {}\n\n", summary.steps,
                                 summary.window, summary.versions);
  add_table(text, "episodes", summary.episode_spans, kEpisode, summary.episode_seconds);
  text += "\n";
  add_table(text, "groups", summary.group_spans, kGroup, total_of(summary.group_spans, "group"));
  text += "\n";
  add_table(text, "learner", summary.learner_spans, kLearner, summary.window);
  const SpanTimes await =
      summary.learner_spans.contains("await") ? summary.learner_spans.at("await") : SpanTimes{};
  const SpanTimes publish =
      summary.learner_spans.contains("publish") ? summary.learner_spans.at("publish") : SpanTimes{};
  text +=
      fmt::format("\nutilisation of the learner       {}, {} without what the engine computed meanwhile\n",
                  percent(summary.learner_busy), percent(summary.learner_compute));
  text += fmt::format("utilisation of the engine        {}\n", percent(summary.engine_busy));
  text += fmt::format("episodes in flight, mean         {:.1f}\n", summary.running_mean);
  text += fmt::format("bubbles (learner waits)          {}, {:.2f} s in all, the longest {:.2f} s\n",
                      await.count, await.total, await.longest);
  text += fmt::format("weight updates                   {}, {:.2f} s in all, the longest {:.4f} s\n",
                      publish.count, publish.total, publish.longest);
  if (summary.evaluation_seconds > 0) {
    text += fmt::format("evaluation episodes              {:.2f} s in all\n", summary.evaluation_seconds);
  }
  text += "\noutcomes of attempts\n";
  for (const auto& [outcome, count] : summary.outcomes)
    text += fmt::format("  {:<36} {:>9}\n", outcome, count);
  text += "\nlongest episodes\n";
  for (const TailEpisode& episode : summary.tail) {
    text += fmt::format("  {:<20} {:>9.3f} s  {:<24}", episode.name, episode.seconds, episode.outcome);
    for (const auto& [name, seconds] : episode.parts) {
      if (seconds >= 0.05 * episode.seconds)
        text += fmt::format(" {} {}", name, percent(seconds / episode.seconds));
    }
    text += "\n";
  }
  return text + "\n" + summary.advice.sentence + "\n";
}

}  // namespace stoker
