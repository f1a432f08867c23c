#include "compute/cpu/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/error.h"
#include "compute/cpu/log_softmax.h"
#include "compute/cpu/reference.h"
#include "compute/cpu/test_support.h"
#include "model/float_types.h"

namespace stoker::cpu {

namespace {

// A vector of rows, each padded with zeros to a multiple of 16.
std::vector<float> padded_rows(const std::vector<float>& values, int width) {
  std::vector<float> result(values.size() / width * padded(width), 0.0f);
  for (size_t i = 0; i < values.size(); ++i) result[i / width * padded(width) + i % width] = values[i];
  return result;
}

std::vector<float> first_columns(const std::vector<float>& rows, int width) {
  std::vector<float> result;
  for (size_t row = 0; row < rows.size(); row += padded(width)) {
    result.insert(result.end(), rows.begin() + row, rows.begin() + row + width);
  }
  return result;
}

TEST(Kernels, NormsHaveTheBitsOfThePlainTwin) {
  for (const Kernels* k : kernel_tables()) {
    for (const int width : {1, 6, 16, 20, 33, 128}) {
      const std::vector<float> x = random_floats(3 * width, width), weight = random_floats(width, width + 1);
      const std::vector<float> in = padded_rows(x, width), factors = padded_rows(weight, width);
      std::vector<float> y(in.size(), 9.0f);
      k->rms_norm(3, width, in.data(), padded(width), factors.data(), 1e-6f, y.data(), padded(width));
      for (int row = 0; row < 3; ++row) {
        const std::vector<float> expected =
            reference::rms_norm<float>(std::span(x).subspan(row * width, width), weight, 1e-6f);
        EXPECT_EQ(first_difference(
                      first_columns({y.begin() + row * padded(width), y.begin() + (row + 1) * padded(width)},
                                    width),
                      expected),
                  -1);
      }
    }
  }
}

TEST(Kernels, RotationHasTheBitsOfThePlainTwin) {
  for (const Kernels* k : kernel_tables()) {
    for (const int size : {2, 6, 8, 32, 40, 64, 96, 128}) {
      const std::vector<float> x = random_floats(2 * size, size);
      std::vector<float> cosine(size / 2), sine(size / 2);
      std::vector<double> frequencies(size / 2);
      for (int i = 0; i < size / 2; ++i) {
        frequencies[i] = std::pow(10000.0, -2.0 * i / size);
        const double angle = 77 * frequencies[i];
        cosine[i] = static_cast<float>(std::cos(angle));
        sine[i] = static_cast<float>(std::sin(angle));
      }
      const std::vector<float> in = padded_rows(x, size);
      std::vector<float> y(in.size());
      k->rotate_heads(2, size, in.data(), nullptr, 0, cosine.data(), sine.data(), y.data());
      std::vector<float> expected = x;
      for (int h = 0; h < 2; ++h)
        reference::rotate<float>(std::span(expected).subspan(h * size, size), 77, frequencies);
      EXPECT_EQ(first_difference(first_columns(y, size), expected), -1) << k->name << " " << size;
    }
  }
}

TEST(Kernels, ExponentialAndSwigluHaveTheBitsOfThePlainTwinAndAreAccurate) {
  std::vector<float> gate = random_floats(2048, 3, 20.0f);
  gate[0] = 0, gate[1] = -0.0f, gate[2] = 87.9f, gate[3] = -87.9f, gate[4] = 1000, gate[5] = -1000,
  gate[6] = 1e-30f;
  const std::vector<float> up = random_floats(gate.size(), 4);
  std::vector<float> both = gate;
  both.insert(both.end(), up.begin(), up.end());
  for (const Kernels* k : kernel_tables()) {
    std::vector<float> y(gate.size());
    k->swiglu(1, static_cast<int>(gate.size()), both.data(), 0, y.data(), 0);
    for (size_t i = 0; i < gate.size(); ++i) {
      EXPECT_TRUE(same_bits(y[i], reference::swiglu(gate[i], up[i]))) << gate[i];
      const double exact = gate[i] / (1 + std::exp(-static_cast<double>(gate[i]))) * up[i];
      EXPECT_NEAR(y[i], exact, 3e-7 * std::abs(exact) + 1e-35) << gate[i];
    }
  }
  for (float x = -87.3f; x < 88.0f; x += 0.0317f) {
    EXPECT_NEAR(reference::exponential(x) / std::exp(static_cast<double>(x)), 1.0, 2.5e-7) << x;
  }
  EXPECT_EQ(reference::exponential(-88.0f), 0.0f);
}

TEST(Kernels, GegluHasTheBitsOfThePlainTwinAndIsAccurate) {
  std::vector<float> gate = random_floats(2048, 3, 4.0f);
  gate[0] = 0, gate[1] = -0.0f, gate[2] = 87.9f, gate[3] = -87.9f, gate[4] = 1e9f, gate[5] = -1e9f;
  gate[6] = 1e-30f;
  const std::vector<float> up = random_floats(gate.size(), 4);
  std::vector<float> both = gate;
  both.insert(both.end(), up.begin(), up.end());
  for (const Kernels* k : kernel_tables()) {
    std::vector<float> y(gate.size());
    k->geglu(1, static_cast<int>(gate.size()), both.data(), 0, y.data(), 0);
    for (size_t i = 0; i < gate.size(); ++i) {
      EXPECT_TRUE(same_bits(y[i], reference::geglu(gate[i], up[i]))) << gate[i];
      const double x = gate[i], inner = 0.79788456080286536 * (x + 0.044715 * x * x * x);
      // The tail where the exponential ends is the only place with a larger relative error.
      EXPECT_NEAR(y[i], x / (1 + std::exp(-2 * inner)) * up[i], 3e-6 * std::abs(x * up[i]) + 1e-30) << x;
    }
  }
}

TEST(Kernels, SoftCapHasTheBitsOfThePlainTwinAndIsAccurate) {
  std::vector<float> x = random_floats(1001, 5, 40.0f);
  x[0] = 0, x[1] = 1e-20f, x[2] = 1e30f, x[3] = -1e30f, x[4] = 31.2499f, x[5] = -31.2501f;
  for (const Kernels* k : kernel_tables()) {
    std::vector<float> y = x;
    y.push_back(-7.0f);
    k->soft_cap(static_cast<int>(x.size()), 0.02f, 50.0f, y.data());
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_TRUE(same_bits(y[i], reference::soft_cap(x[i], 0.02f, 50.0f))) << x[i];
      const double exact = 50.0 * std::tanh(static_cast<double>(x[i]) * 0.02f);
      EXPECT_NEAR(y[i], exact, 4e-7 * std::abs(exact)) << x[i];
    }
    EXPECT_EQ(y.back(), -7.0f);
    float broken = NAN;
    k->soft_cap(1, 0.02f, 50.0f, &broken);
    EXPECT_TRUE(std::isnan(broken));
  }
}

TEST(Kernels, SoftmaxRowHasTheBitsOfThePlainTwinAndZerosBehind) {
  for (const Kernels* k : kernel_tables()) {
    for (const int count : {1, 2, 15, 16, 17, 31, 32, 100}) {
      std::vector<float> s = random_floats(128, count, 4.0f);
      std::vector<float> expected(s.begin(), s.begin() + count);
      s[count] = NAN;  // what a panel holds beyond the keys is not looked at
      const float largest = *std::ranges::max_element(expected);
      for (float& x : expected) x = reference::exponential((x - largest) * 0.25f);
      const auto [maximum, sum] = k->softmax_row(s.data(), count, 112, 0.25f);
      EXPECT_EQ(maximum, largest);
      EXPECT_EQ(sum, reference::lane_sum<float>({}, expected));
      expected.resize(112, 0.0f);
      s.resize(112);
      EXPECT_EQ(first_difference(s, expected), -1) << k->name << " " << count;
    }
  }
}

TEST(Kernels, LogSoftmaxHasTheBitsOfThePlainTwin) {
  const InstructionSet chosen = instruction_set();
  for (const InstructionSet set : kInstructionSets) {
    if (!is_supported(set)) continue;
    set_instruction_set(set);
    for (const int count : {1, 2, 15, 16, 17, 292, 1000}) {
      for (const float temperature : {1.0f, 0.6f, 1.7f}) {
        std::vector<float> logits = random_floats(count, count, 5.0f);
        const LogSoftmax row(logits, temperature);
        const int32_t id = count / 2;
        EXPECT_EQ(row.log_probability(id), reference::log_probability<float>(logits, temperature, id));
        EXPECT_EQ(row.entropy(), reference::entropy<float>(logits, temperature));
        EXPECT_EQ(log_probability(logits, temperature, id), row.log_probability(id));
        const std::vector<double> exact(logits.begin(), logits.end());
        EXPECT_NEAR(row.log_probability(id), reference::log_probability<double>(exact, temperature, id),
                    4e-6);
        EXPECT_NEAR(row.entropy(), reference::entropy<double>(exact, temperature), 4e-6);
      }
    }
  }
  set_instruction_set(chosen);
}

TEST(Kernels, LogProbabilitiesOfTheReferenceAreReproduced) {
  const std::vector<float> logits = {2, 1, 0};
  EXPECT_NEAR(log_probability(logits, 1.0f, 0), -0.407606, 1e-6);
  EXPECT_NEAR(log_probability(logits, 0.9f, 0), -0.362948, 1e-6);
}

TEST(Kernels, NaturalLogarithmIsAccurate) {
  for (double x = 1e-30; x < 1e30; x *= 1.037) {
    EXPECT_NEAR(natural_logarithm(x), std::log(x), 1e-15 * (1 + std::abs(std::log(x)))) << x;
  }
  EXPECT_EQ(natural_logarithm(1.0), 0.0);
}

// Central difference of `loss` in one element of `x`, the loss being a sum in double of float results: steps
// of 2^-7 are exact, and their error shrinks with the square.
double difference(std::vector<float>& x, size_t i, const std::function<double()>& loss) {
  const float kept = x[i], h = 0.0078125f;
  x[i] = kept + h;
  const double above = loss();
  x[i] = kept - h;
  const double below = loss();
  x[i] = kept;
  return (above - below) / (2.0 * h);
}

double weighted_sum(const std::vector<float>& y, const std::vector<float>& dy) {
  double sum = 0;
  for (size_t i = 0; i < y.size(); ++i) sum += static_cast<double>(y[i]) * dy[i];
  return sum;
}

TEST(Kernels, NormGradientMatchesFiniteDifferences) {
  constexpr int kWidth = 21;
  for (const Kernels* k : kernel_tables()) {
    std::vector<float> x = padded_rows(random_floats(2 * kWidth, 1), kWidth);
    std::vector<float> weight = padded_rows(random_floats(kWidth, 2), kWidth);
    const std::vector<float> dy = padded_rows(random_floats(2 * kWidth, 3), kWidth);
    std::vector<float> dx(x.size(), 0.0f), dweight(weight.size(), 0.0f);
    k->rms_norm_backward(2, kWidth, x.data(), 32, weight.data(), 1e-6f, dy.data(), 32, dx.data(), dx.data(),
                         32, dweight.data());
    const auto loss = [&] {
      std::vector<float> y(x.size());
      k->rms_norm(2, kWidth, x.data(), 32, weight.data(), 1e-6f, y.data(), 32);
      return weighted_sum(y, dy);
    };
    for (const size_t i : {0, 7, 20, 32, 52}) EXPECT_NEAR(dx[i], difference(x, i, loss), 2e-4);
    for (const size_t i : {0, 20}) EXPECT_NEAR(dweight[i], difference(weight, i, loss), 2e-4);
    EXPECT_EQ(dx[21], 0.0f);
    EXPECT_EQ(dweight[31], 0.0f);
  }
}

TEST(Kernels, RotatedHeadGradientMatchesFiniteDifferences) {
  constexpr int kSize = 10;
  const std::vector<float> cosine = {0.9f, 0.1f, -0.5f, 1.0f, 0.3f}, sine = {0.2f, -0.7f, 0.4f, 0.0f, 0.8f};
  for (const Kernels* k : kernel_tables()) {
    std::vector<float> x = padded_rows(random_floats(2 * kSize, 1), kSize);
    std::vector<float> weight = padded_rows(random_floats(kSize, 2), kSize);
    const std::vector<float> dy = padded_rows(random_floats(2 * kSize, 3), kSize);
    for (const bool normed : {false, true}) {
      const float* factors = normed ? weight.data() : nullptr;
      std::vector<float> dx(x.size(), 0.0f), dweight(weight.size(), 0.0f), consumed = dy;
      k->rotate_heads_backward(2, kSize, x.data(), factors, 1e-6f, cosine.data(), sine.data(),
                               consumed.data(), dx.data(), dweight.data());
      const auto loss = [&] {
        std::vector<float> y(x.size());
        k->rotate_heads(2, kSize, x.data(), factors, 1e-6f, cosine.data(), sine.data(), y.data());
        return weighted_sum(y, dy);
      };
      for (const size_t i : {0, 3, 9, 16, 25}) EXPECT_NEAR(dx[i], difference(x, i, loss), 3e-4) << normed;
      for (const size_t i : {0, 9}) EXPECT_NEAR(dweight[i], normed ? difference(weight, i, loss) : 0.0, 3e-4);
    }
  }
}

TEST(Kernels, GradientsOfGatesMatchFiniteDifferences) {
  constexpr int kWidth = 18;
  for (const Kernels* k : kernel_tables()) {
    for (const bool gelu : {false, true}) {
      std::vector<float> gate_up = padded_rows(random_floats(2 * kWidth, 1, 2.0f), kWidth);
      const std::vector<float> dy = padded_rows(random_floats(kWidth, 2), kWidth);
      std::vector<float> gradient = gate_up, out = dy, expected(32);
      (gelu ? k->geglu_backward : k->swiglu_backward)(1, kWidth, gradient.data(), 64, out.data(), 32);
      const auto loss = [&] {
        (gelu ? k->geglu : k->swiglu)(1, kWidth, gate_up.data(), 64, expected.data(), 32);
        return weighted_sum(expected, dy);
      };
      loss();
      EXPECT_EQ(first_difference(out, expected), -1);
      for (const size_t i : {0, 9, 17, 32, 45, 49})
        EXPECT_NEAR(gradient[i], difference(gate_up, i, loss), 2e-4) << gelu;
    }
  }
}

TEST(Kernels, SoftCapGradientMatchesFiniteDifferences) {
  constexpr int kCount = 21;
  for (const Kernels* k : kernel_tables()) {
    std::vector<float> x = random_floats(kCount, 1, 3.0f);
    std::vector<float> dy = random_floats(kCount, 2), y = x;
    dy[4] = 0;
    k->soft_cap(kCount, 0.4f, 2.0f, y.data());
    y[4] = NAN;
    std::vector<float> dx = dy;
    k->soft_cap_backward(kCount, 0.4f, 2.0f, y.data(), dx.data());
    const auto loss = [&] {
      std::vector<float> again = x;
      k->soft_cap(kCount, 0.4f, 2.0f, again.data());
      return weighted_sum(again, dy);
    };
    for (const size_t i : {0, 4, 15, 16, 20}) EXPECT_NEAR(dx[i], difference(x, i, loss), 2e-4);
  }
}

TEST(Kernels, SoftmaxRowGradientMatchesFiniteDifferences) {
  constexpr int kCount = 19;
  for (const Kernels* k : kernel_tables()) {
    std::vector<float> s = random_floats(32, 1, 3.0f);
    const std::vector<float> dy = random_floats(32, 2);
    const auto weights = [&] {
      std::vector<float> p = s;
      const auto [maximum, sum] = k->softmax_row(p.data(), kCount, 32, 0.5f);
      for (float& x : p) x /= sum;
      return p;
    };
    std::vector<float> p = s;
    const auto [maximum, sum] = k->softmax_row(p.data(), kCount, 32, 0.5f);
    const float delta = static_cast<float>(weighted_sum(weights(), dy));
    std::vector<float> own = s, ds = dy;
    k->softmax_row_backward(own.data(), ds.data(), kCount, 32, 0.5f, maximum, 1.0f / sum, delta);
    EXPECT_LT(relative_error(own, weights()), 1e-6);
    for (const size_t i : {0, 8, 18})
      EXPECT_NEAR(ds[i], difference(s, i, [&] { return weighted_sum(weights(), dy); }), 1e-4);
    for (size_t i = kCount; i < 32; ++i) EXPECT_EQ(ds[i], 0.0f);
  }
}

TEST(Kernels, LogitsGradientMatchesFiniteDifferences) {
  constexpr int kCount = 21, kTarget = 3;
  constexpr float kTemperature = 0.8f, kCoefficient = 1.3f, kEntropy = -0.6f;
  std::vector<float> logits = random_floats(32, 1, 2.0f);
  const auto loss = [&] {
    const std::vector<double> row(logits.begin(), logits.begin() + kCount);
    return kCoefficient * reference::log_probability<double>(row, kTemperature, kTarget) +
           kEntropy * reference::entropy<double>(row, kTemperature);
  };
  for (const Kernels* k : kernel_tables()) {
    const LogSoftmax row({logits.data(), kCount}, kTemperature);
    std::vector<float> gradient = logits;
    k->logits_backward(kCount, gradient.data(), row.statistics(), static_cast<float>(row.log_sum()),
                       {1 / kTemperature, -kCoefficient, -kEntropy, row.entropy()});
    gradient[kTarget] += kCoefficient / kTemperature;
    for (const size_t i : {0, 3, 15, 16, 20}) EXPECT_NEAR(gradient[i], difference(logits, i, loss), 1e-4);
    for (size_t i = kCount; i < 32; ++i) EXPECT_EQ(gradient[i], 0.0f);
  }
}

TEST(Kernels, AdamWFollowsItsDefinition) {
  constexpr int64_t kCount = 37;
  const Kernels::AdamW options{0.01f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.19f, 0.0975f, 0.5f};
  const std::vector<float> gradient = random_floats(kCount, 1), start = random_floats(kCount, 2);
  const std::vector<float> first = random_floats(kCount, 3, 0.1f), second = random_floats(kCount, 4);
  for (const Kernels* k : kernel_tables()) {
    std::vector<float> p = start, g = gradient, m = first, v;
    for (const float x : second) v.push_back(x * x);
    k->adamw(kCount, options, p.data(), g.data(), m.data(), v.data());
    for (int64_t i = 0; i < kCount; ++i) {
      const double scaled = 0.5 * gradient[i];
      const double m1 = 0.9 * first[i] + 0.1 * scaled;
      const double v1 = 0.95 * second[i] * second[i] + 0.05 * scaled * scaled;
      const double expected =
          start[i] * (1 - 0.01 * 0.1) - 0.01 * (m1 / 0.19) / (std::sqrt(v1 / 0.0975) + 1e-8);
      EXPECT_NEAR(m[i], m1, 1e-6);
      EXPECT_NEAR(v[i], v1, 1e-6);
      EXPECT_NEAR(p[i], expected, 1e-6);
      EXPECT_EQ(g[i], 0.0f);
    }
  }
}

TEST(InstructionSet, NamesAndRefusals) {
  EXPECT_EQ(to_string(InstructionSet::kAvx2), "avx2");
  EXPECT_EQ(to_string(InstructionSet::kAvx512), "avx512");
  EXPECT_EQ(to_string(InstructionSet::kAvx512Bf16), "avx512_bf16");
  EXPECT_TRUE(is_supported(instruction_set()));
  EXPECT_STREQ(kernels().name, std::string(to_string(instruction_set())).c_str());
  for (const InstructionSet set : kInstructionSets) {
    EXPECT_EQ(kernels(set).name, to_string(set));
    if (!is_supported(set)) EXPECT_THROW(set_instruction_set(set), Error);
  }
}

}  // namespace
}  // namespace stoker::cpu
