// Densities, entropies, moments and divergences of distributions, and their gradients, match torch.distributions.
// Samples and errors: distributions_test.cpp.
#include "tests/golden/distributions.h"
#include "tests/golden/run_cases.h"

using namespace mantissa::test;

TEST_CASE("distributions compute what PyTorch does", "[distributions]") {
  run_cases("distributions", distribution_cases());
}
