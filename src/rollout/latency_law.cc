#include "rollout/latency_law.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace stoker {
namespace {

double draw_pareto(double alpha, double range, double uniform) {
  const double tail = std::pow(range, -alpha);
  const double smallest_one = std::pow(1 - uniform * (1 - tail), -1 / alpha);
  const double mean = alpha / (alpha - 1) * (1 - std::pow(range, 1 - alpha)) / (1 - tail);
  return smallest_one / mean;
}

}  // namespace

double cut_scale(const LatencyLaw& law, double scale) {
  return law.time_out > 0 ? std::min(scale, law.time_out) : scale;
}

double draw_lognormal(double cv, const UniformSource& uniform) {
  const double first = uniform(), second = uniform();
  const double normal = std::sqrt(-2 * std::log1p(-first)) * std::cos(2 * std::numbers::pi * second);
  const double variance = std::log1p(cv * cv);
  return std::exp(std::sqrt(variance) * normal - variance / 2);
}

double draw_scale(const LatencyLaw& law, const UniformSource& uniform) {
  if (law.kind == "constant") return 1;
  if (law.kind == "lognormal") return draw_lognormal(law.cv, uniform);
  if (law.kind == "pareto") return draw_pareto(law.alpha, law.range, uniform());
  if (law.kind == "bimodal") {
    const double fast = 1 / (1 + law.slow_share * (law.slow_factor - 1));
    return uniform() < law.slow_share ? fast * law.slow_factor : fast;
  }
  throw input_error("There is no latency law '" + law.kind +
                    "'; the laws are constant, lognormal, pareto and bimodal.");
}

}  // namespace stoker
