// Recurrent and attention modules compared with PyTorch, as in tests/golden_modules_test.cpp.
#include "tests/catch_compat.h"
#include "tests/golden/modules.h"

using namespace mantissa::test;

TEST_CASE("recurrent and attention modules compute what PyTorch does") {
  run_modules("modules_sequence", sequence_cases());
}

TEST_CASE("modules save files for PyTorch", "[.save]") { save_modules("modules_sequence", sequence_cases()); }
