#include "simulation/agreement.h"

#include <array>
#include <vector>

namespace stoker {
namespace {

constexpr std::array kLaws = {"constant", "logn 0.5",          "logn 1", "logn 2", "Pareto 1.5",
                              "bimodal",  "bimodal + time-out"};

using ByLaw = std::array<double, kLaws.size()>;

// What is trained is as long as what was asked for where no length is published.
struct Row {
  const char* arm;
  ByLaw speed;
  ByLaw length = {1, 1, 1, 1, 1, 1, 1};
};

const std::vector<Row> kR1Rows = {
    {"sync", {0.88, 0.95, 0.97, 0.98, 0.97, 0.98, 0.94}},
    {"sync + 25 % redundant",
     {0.83, 1.59, 2.53, 4.62, 3.38, 5.21, 2.14},
     {1, 0.81, 0.64, 0.44, 0.64, 0.52, 0.68}},
    {"eta 1", {1.59, 2.83, 4.85, 8.48, 5.57, 6.13, 2.66}},
    {"eta 2", {1.78, 4.58, 7.50, 12.94, 9.01, 10.17, 4.85}},
    {"eta 4", {1.77, 5.90, 9.67, 16.41, 11.36, 12.47, 5.05}},
    {"eta 4, strict order", {1.77, 3.77, 3.47, 2.88, 3.38, 4.40, 4.54}},
    {"eta 4, re-prefill 150k tok/s", {1.60, 5.23, 8.06, 11.27, 9.29, 9.56, 5.05}},
    {"eta 4, drain at update", {1.39, 1.12, 1.07, 1.04, 1.06, 1.05, 1.14}},
    {"eta 4, abort + restart", {1.01, 1.67, 1.66, 1.80, 1.55, 2.64, 2.13}, {1, 1, 0.95, 0.87, 0.92, 1, 1}},
    {"eta 4, cancel > 12", {1.77, 5.90, 9.66, 16.56, 11.38, 11.96, 5.05}, {1, 1, 0.94, 0.77, 0.88, 0.70, 1}},
    {"eta 4, cancel > 24", {1.77, 5.90, 9.67, 16.50, 11.35, 12.47, 5.05}, {1, 1, 1, 0.89, 0.97, 1, 1}},
    {"eta 4, wait at 12", {1.77, 5.74, 6.21, 5.00, 6.59, 9.63, 5.05}},
    {"discard > 1", {0.97, 2.80, 5.10, 9.90, 6.06, 7.43, 3.37}, {1, 0.67, 0.44, 0.27, 0.55, 0.52, 0.67}},
    {"discard > 2", {1.43, 3.89, 6.65, 12.20, 8.24, 10.57, 4.92}, {1, 0.73, 0.53, 0.35, 0.58, 0.52, 0.67}},
    {"discard > 4", {1.78, 5.21, 8.33, 14.37, 10.08, 11.41, 4.82}, {1, 0.86, 0.68, 0.47, 0.68, 0.52, 0.68}},
    {"discard > 8", {1.78, 5.85, 9.36, 15.67, 10.96, 11.42, 4.74}, {1, 0.98, 0.84, 0.64, 0.81, 0.52, 1}},
};

const std::vector<Row> kR2Rows = {
    {"sync", {0.62, 0.77, 0.85, 0.91, 0.86, 0.88, 0.77}},
    {"sync + 25 % redundant",
     {0.55, 0.93, 1.43, 2.51, 1.72, 2.20, 1.08},
     {1, 0.81, 0.64, 0.44, 0.64, 0.52, 0.68}},
    {"eta 1", {1.15, 1.50, 2.29, 3.89, 2.36, 2.47, 1.47}},
    {"eta 2", {1.19, 2.06, 3.00, 4.73, 3.45, 3.73, 1.86}},
    {"eta 4", {1.19, 2.09, 3.05, 4.80, 3.50, 3.80, 1.86}},
    {"eta 4, strict order", {1.19, 1.95, 2.32, 2.43, 2.39, 2.93, 1.86}},
    {"eta 4, re-prefill 150k tok/s", {1.05, 1.84, 2.53, 3.25, 2.84, 2.88, 1.86}},
    {"eta 4, drain at update", {1.14, 1.16, 1.14, 1.11, 1.11, 1.11, 1.25}},
    {"eta 4, abort + restart", {0.63, 0.74, 0.57, 0.56, 0.50, 1.26, 0.88}, {1, 1, 0.95, 0.87, 0.92, 0.98, 1}},
    {"eta 4, cancel > 24", {1.19, 2.09, 3.05, 4.81, 3.50, 3.80, 1.86}, {1, 1, 1, 0.95, 1, 1, 1}},
    {"eta 4, wait at 12", {1.19, 2.07, 2.85, 3.42, 3.21, 3.71, 1.86}},
    {"discard > 2", {1.08, 1.38, 2.10, 3.55, 2.54, 3.21, 1.71}, {1, 0.73, 0.53, 0.35, 0.58, 0.52, 0.68}},
    {"discard > 8", {1.19, 2.05, 2.94, 4.59, 3.36, 3.47, 1.73}, {1, 1, 0.85, 0.65, 0.81, 0.53, 1}},
};

const std::vector<Row> kR3Rows = {
    {"sync", {0.68, 0.86, 0.93, 0.98, 0.93, 0.95, 0.89}},
    {"sync + 25 % redundant",
     {0.58, 1.12, 1.87, 3.64, 2.34, 3.32, 1.47},
     {1, 0.81, 0.64, 0.44, 0.64, 0.52, 0.68}},
    {"eta 1", {0.88, 1.70, 2.71, 4.51, 3.11, 3.36, 1.67}},
    {"eta 4", {0.85, 1.75, 2.73, 4.54, 3.19, 3.48, 1.91}},
    {"eta 4, drain at update", {0.82, 0.97, 1.01, 1.03, 1.00, 1.01, 1.02}},
    {"eta 4, cancel > 24", {0.85, 1.75, 2.74, 4.65, 3.19, 3.48, 1.91}, {1, 1, 1, 0.87, 0.97, 1, 1}},
    {"discard > 2", {0.68, 1.27, 2.01, 3.49, 2.48, 3.12, 1.64}, {1, 0.76, 0.57, 0.38, 0.61, 0.52, 0.68}},
};

// Mean lag in R1: logn 1, logn 2, bimodal.
struct LagRow {
  const char* arm;
  double logn_1, logn_2, bimodal;
};
const std::vector<LagRow> kLagRows = {{"sync + 25 % redundant", 0, 0, 0},
                                      {"eta 1", 1.0, 1.0, 1.0},
                                      {"eta 2", 2.0, 2.0, 2.0},
                                      {"eta 4", 4.0, 4.0, 3.9},
                                      {"eta 4, strict order", 4.0, 4.0, 4.0},
                                      {"eta 4, re-prefill 150k tok/s", 3.7, 3.6, 3.7},
                                      {"eta 4, drain at update", 4.0, 4.0, 4.0},
                                      {"eta 4, abort + restart", 2.1, 1.7, 2.2},
                                      {"eta 4, cancel > 12", 3.8, 3.6, 2.9},
                                      {"eta 4, cancel > 24", 3.9, 3.8, 3.9},
                                      {"eta 4, wait at 12", 4.0, 4.0, 4.0},
                                      {"discard > 1", 0.9, 0.8, 1.0},
                                      {"discard > 2", 1.5, 1.3, 1.9},
                                      {"discard > 4", 2.3, 1.9, 2.2},
                                      {"discard > 8", 3.1, 2.6, 2.2}};

}  // namespace

Predictions published_predictions(const std::string& regime) {
  const std::vector<Row>& rows = regime == "R1" ? kR1Rows : regime == "R2" ? kR2Rows : kR3Rows;
  Predictions predictions;
  for (const Row& row : rows) {
    for (size_t law = 0; law < kLaws.size(); ++law) {
      predictions[row.arm][kLaws[law]] = {.speed = row.speed[law], .length = row.length[law]};
    }
  }
  if (regime != "R1") return predictions;
  for (const LagRow& row : kLagRows) {
    std::map<std::string, Prediction>& by_law = predictions.at(row.arm);
    by_law.at("logn 1").lag = row.logn_1;
    by_law.at("logn 2").lag = row.logn_2;
    by_law.at("bimodal").lag = row.bimodal;
  }
  return predictions;
}

}  // namespace stoker
