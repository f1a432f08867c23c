#pragma once

#include <string>

#include "base/figure_report.h"

namespace stoker {

struct BenchAsyncArguments;

// The checks of `stoker bench async`: each returns its tables and adds its figures.

// "R1/logn_2/eta_4_cancel_24": a figure's name of what the tables say.
std::string figure_slug(const std::string& name);

// Controls C1 to C6 of the protocol.
std::string check_controls(const BenchAsyncArguments& arguments, FigureReport& report);

// The controller against the model of the protocol, and the model against its published predictions.
std::string check_agreement(const BenchAsyncArguments& arguments, FigureReport& report);

}  // namespace stoker
