// The golden cases of distributions (distributions.cpp), as several tests run them.
#pragma once

#include <span>

#include "tests/golden/case.h"

namespace mantissa::test {

std::span<const Case> distribution_cases();

}  // namespace mantissa::test
