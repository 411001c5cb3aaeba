// NVRTC compiles what jit::fuse writes, for every GPU that the project builds for; no GPU is needed. Whether it
// computes right is shown under the CPU shim (tests/cuda_fuse_test.cpp), where the C++ compiler compiles the same text.
#include "core/pointwise.h"
#include "cuda/fused_text.h"
#include "cuda/library/nvrtc.h"
#include "jit/trace.h"
#include "tests/fused_functions.h"

using namespace mantissa;
using namespace mantissa::test;

TEST_CASE("NVRTC compiles fused functions and their gradients") {
  for (const FusedCase& c : fused_cases()) {
    for (const Dtype dtype : {f32, f64}) {
      INFO(c.name << " " << name_of(dtype));
      std::vector<jit::Kind> kinds(c.shapes.size(), {dtype});
      if (!c.all_floating) kinds.back() = {boolean};
      const jit::Trace t = jit::trace(c.name.c_str(), c.function, kinds, cuda);
      CHECK(cuda_backend::compile_text(cuda_backend::text_of(t.forward.program), 90).size() > 1000);
      std::vector<int> wanted;
      for (int i = 0; i < t.arguments; ++i)
        if (t.backward.outputs[static_cast<std::size_t>(i)] != -1) wanted.push_back(i);
      if (!wanted.empty())
        CHECK(cuda_backend::compile_text(cuda_backend::text_of(t.gradients(wanted).program), 90).size() > 1000);
    }
  }
}

TEST_CASE("NVRTC compiles gradients that are constants, and each gradient alone") {
  const jit::ElementwiseFunction rounded = [](std::span<const Tensor> x) { return round(x[0]); };
  const jit::ElementwiseFunction signed_by = [](std::span<const Tensor> x) { return x[0] * sign(x[1]); };
  const std::vector<jit::Kind> kinds{{f32}, {f32}};
  for (const int k : {0, 1, 2}) {
    const jit::Trace t = k == 0 ? jit::trace("rounded", rounded, std::span(kinds).first(1), cuda)
                                : jit::trace("signed_by", signed_by, kinds, cuda);
    const std::vector<int> wanted{k == 2 ? 1 : 0};
    if (t.backward.outputs[static_cast<std::size_t>(wanted[0])] == -1) continue;
    INFO(k);
    CHECK(cuda_backend::compile_text(cuda_backend::text_of(t.gradients(wanted).program), 90).size() > 1000);
  }
}

TEST_CASE("NVRTC compiles every formula, for every kind of GPU") {
  FusedProgram all;
  all.inputs = 3;
  for (int opcode = 0; opcode < pointwise::PointwiseFormulas::size; ++opcode) {
    FusedProgram::Instruction now;
    now.opcode = opcode;
    now.operands = cuda_backend::operands_of(opcode);
    if (now.operands == 0) continue;  // integers alone
    now.from = {0, 1, 2};
    all.instructions.push_back(now);
  }
  all.outputs = {all.values() - 1};
  for (const int architecture : {80, 90, 100, 120}) {
    INFO("sm_" << architecture);
    CHECK(cuda_backend::compile_text(cuda_backend::text_of(all), architecture).size() > 1000);
  }
  all.compute = f64;
  CHECK(cuda_backend::compile_text(cuda_backend::text_of(all), 90).size() > 1000);
}

TEST_CASE("what NVRTC refuses is an error with its message") {
  const std::string message = message_of([] { cuda_backend::compile_text("this is no C++", 90); });
  CHECK(message.find("NVRTC does not compile") != std::string::npos);
}
