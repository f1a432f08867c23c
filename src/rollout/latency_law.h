#pragma once

#include <functional>
#include <string>

#include "base/config.h"

namespace stoker {

// A law of how long something takes: a positive scale of mean 1 that multiplies an episode's tokens and tool
// time in simulation, or the wait before a tool call. What the laws stand for is in docs/simulation.md.
struct LatencyLaw {
  std::string kind = "lognormal";
  double cv = 1.0;
  double alpha = 1.5;
  double range = 30;
  double slow_share = 0.1;
  double slow_factor = 10;
  double time_out = 0;

  template <typename V>
  void for_each_field(V& visit) {
    visit("kind", kind, "Law of the scale, mean 1.", one_of({"constant", "lognormal", "pareto", "bimodal"}));
    visit("cv", cv, "Coefficient of variation of the lognormal law.", above(0));
    visit("alpha", alpha, "Exponent of the bounded Pareto law.", above(1));
    visit("range", range, "Largest over smallest value of the bounded Pareto law.", above(1));
    visit("slow_share", slow_share, "Share of slow ones under the bimodal law.", between(0, 1));
    visit("slow_factor", slow_factor, "How many times a fast one a slow one takes under the bimodal law.",
          at_least(1));
    visit("time_out", time_out, "Longest scale: what is longer is cut to it; 0: none.", at_least(0));
  }
};

// Uniform draws in [0, 1), one after the other.
using UniformSource = std::function<double()>;

// One draw of the law, mean 1, not cut at time_out. Lognormal: exp(s n - s^2 / 2), s^2 = ln(1 + cv^2).
// Pareto: bounded to [l, range * l], by its inverse distribution function.
double draw_scale(const LatencyLaw& law, const UniformSource& uniform);

// The scale, at most time_out where there is one.
double cut_scale(const LatencyLaw& law, double scale);

// exp(s n - s^2 / 2): mean 1 and the given coefficient of variation. The normal n is Box and Muller's, of two
// uniforms.
double draw_lognormal(double cv, const UniformSource& uniform);

}  // namespace stoker
