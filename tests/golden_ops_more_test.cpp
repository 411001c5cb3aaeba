// The second half of golden_ops_test.cpp.
#include "tests/golden/ops_fft.h"
#include "tests/golden/ops_loss.h"
#include "tests/golden/ops_more.h"
#include "tests/golden/ops_nn.h"
#include "tests/golden/run_cases.h"

using namespace mantissa::test;

TEST_CASE("convolution, pooling, norms and attention compute what PyTorch does") { run_cases("ops_nn", nn_cases); }
TEST_CASE("losses compute what PyTorch does") { run_cases("ops_loss", loss_cases); }
TEST_CASE("operators of few programs compute what PyTorch does") { run_cases("ops_more", more_cases); }
TEST_CASE("Fourier transforms compute what PyTorch does") { run_cases("ops_fft", fft_cases); }
