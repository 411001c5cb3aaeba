// Correctness of every registered operator: against its reference, numeric derivatives, f64 in every dtype and on every
// instruction set, and its errors. Read next: tests/op_behaviour_test.cpp.
#include <cstdio>
#include <fstream>
#include <sstream>
#include <set>

#include "autograd/gradcheck.h"
#include "core/allocator.h"
#include "core/cpu/isa.h"
#include "tests/op_testing.h"

using namespace mantissa;
using namespace mantissa::test;

TEST_CASE("every operator of the catalogue is in the registry, once") {
  std::stringstream file;
  for (const char* name : {"/core/ops.h", "/core/ops_matrix.h", "/core/ops_numeric.h", "/core/ops_special.h"}) {
    std::ifstream part(std::string(MANTISSA_SOURCE_DIR) + name);
    REQUIRE(part);
    file << part.rdbuf();
  }
  std::set<std::string> registered;
  for (const OpInfo& op : registry()) {
    INFO(op.name);
    CHECK(registered.insert(op.name).second);
  }
  int names = 0;
  for (std::string line; std::getline(file, line);) {  // `Tensor name(...`, at the start of a line
    for (const char* type : {"Tensor ", "ValuesIndices ", "std::vector<Tensor> ", "MinMax ", "StdMean ", "VarMean "}) {
      if (line.rfind(type, 0) != 0) continue;
      const std::size_t begin = std::string(type).size(), end = line.find('(', begin);
      if (end == std::string::npos) continue;
      const std::string name = line.substr(begin, end - begin);
      ++names;
      INFO(name << " is declared in core/ops*.h and has no MANTISSA_OP or MANTISSA_COMPOSITE");
      CHECK(registered.contains(name));
    }
  }
  CHECK(names >= 60);  // or the lines above no longer find the declarations
}

TEST_CASE("operators have samples and error samples") {
  for (const OpInfo& op : registry()) {
    if (!selected(op)) continue;
    Samples s;
    op.samples(s);
    INFO(op.name);
    CHECK(!s.all.empty());
  }
}

TEST_CASE("kernels agree with their references") {
  for_each_sample([](const OpInfo& op, const Sample& s) {
    if (!s.reference) return;
    const Tensors x = prepared(s, f64), y = run(op, s, x);
    const Tensors expected = s.reference(prepared(s, f64));
    REQUIRE(y.size() >= expected.size());
    const Tolerance t = tolerance_for(f64, sum_length(op, s), scale_of(x));
    for (std::size_t k = 0; k < expected.size(); ++k) CHECK(difference(y[k], expected[k], t) == "");
  });
}

TEST_CASE("gradients agree with differences") {
  std::set<std::string> checked, twice;
  for_each_sample([&](const OpInfo& op, const Sample& s) {
    if (!can_differentiate(op, s)) return;
    const auto f = [&](const Tensors& x) { return run(op, s, x); };
    gradcheck(f, wanting_gradients(op, prepared(s, f64)));
    checked.insert(op.name);
    if (!op.twice_differentiable) return;
    gradgradcheck(f, wanting_gradients(op, prepared(s, f64)), {.full_jacobian = 60, .directions = 4});
    twice.insert(op.name);
  });
  std::size_t differentiable = 0, promised = 0;
  for (const OpInfo& op : registry()) {
    if (!selected(op) || !op.differentiable) continue;
    ++differentiable;
    promised += op.twice_differentiable;
    INFO(op.name << " is differentiable but no sample could be gradchecked");
    CHECK(checked.contains(op.name));
  }
  std::printf("gradchecked %zu / %zu differentiable operators, second order %zu / %zu, of %zu registered\n",
              checked.size(), differentiable, twice.size(), promised, registry().size());
}

namespace {
// Results in `dtype` compared with f64 results of the same rounded inputs.
void check_results(const OpInfo& op, const Sample& s, Dtype dtype, double length) {
  const Tensors x = prepared(s, dtype), exact = in_f64(x);
  const Tensors y = run(op, s, x), expected = run(op, s, exact);
  REQUIRE(y.size() == expected.size());
  for (std::size_t k = 0; k < y.size(); ++k) {
    if (!y[k].defined() || !y[k].is_floating()) {
      if (!s.exact_only) CHECK(same_bits(y[k], expected[k]));
      continue;
    }
    INFO("result " << k << " in " << name_of(dtype));
    CHECK(difference(y[k], expected[k], tolerance_for(y[k].dtype(), length, scale_of(exact))) == "");
  }
}
bool runs_in(const OpInfo& op, Dtype dtype) { return op.halves || !is_half(dtype); }
}  // namespace

TEST_CASE("results in every floating dtype are those of f64, rounded once") {
  for_each_sample([](const OpInfo& op, const Sample& s) {
    const double length = sum_length(op, s);
    for (Dtype dtype : {f32, f16, bf16}) if (runs_in(op, dtype)) check_results(op, s, dtype, length);
  });
}

TEST_CASE("gradients in every floating dtype are close to those of f64") {
  for_each_sample([](const OpInfo& op, const Sample& s) {
    if (!can_differentiate(op, s)) return;
    for (Dtype dtype : {f32, f16, bf16}) {
      if (!runs_in(op, dtype)) continue;
      const double bound = dtype == f32 ? 2e-3 : dtype == f16 ? 1e-2 : 1e-1;
      const Tensors x = wanting_gradients(op, prepared(s, dtype)), exact = wanting_gradients(op, in_f64(x));
      const Tensors g = gradients(op, s, x), expected = gradients(op, s, exact);
      REQUIRE(g.size() == expected.size());
      for (std::size_t k = 0; k < g.size(); ++k) {
        INFO("gradient " << k << " in " << name_of(dtype));
        REQUIRE(g[k].defined() == expected[k].defined());
        if (!g[k].defined()) continue;
        CHECK(g[k].dtype() == dtype);
        CHECK(difference(g[k], expected[k], {bound, bound}) == "");
      }
    }
  });
}

TEST_CASE("every instruction set computes the same within f32 tolerance") {
  using cpu_backend::Isa;
  const Isa before = cpu_backend::isa();
  for (Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (isa > cpu_backend::best_isa()) continue;
    cpu_backend::set_isa(isa);
    INFO(cpu_backend::name_of(isa));
    for_each_sample([](const OpInfo& op, const Sample& s) {
      check_results(op, s, f32, sum_length(op, s));
      if (op.halves) check_results(op, s, f16, sum_length(op, s));
    });
  }
  cpu_backend::set_isa(before);
}

TEST_CASE("extreme inputs give finite results") {
  for_each_sample([](const OpInfo& op, const Sample& s) {
    if (!s.extreme) return;
    for (Dtype dtype : {f64, f32, f16, bf16}) {
      if (!runs_in(op, dtype)) continue;
      for (const Tensor& y : run(op, s, prepared(s, dtype))) {
        if (!y.defined() || !y.is_floating()) continue;
        for (double v : y.to_vector<double>()) {
          if (!std::isfinite(v)) FAIL_CHECK(name_of(dtype) << " result holds " << v);
        }
      }
    }
  });
}

TEST_CASE("bad inputs are refused with the operator's name, shapes and reason, and nothing leaks") {
  for (const OpInfo& op : registry()) {
    if (!selected(op)) continue;
    Samples samples(seed());
    op.samples(samples);
    for (const ErrorSample& s : samples.errors) {
      INFO(op.name << ": " << describe_all(s.inputs));
      CHECK_THROWS_AS(s.call(s.inputs), Error);
      const std::int64_t before = memory_stats().allocated;
      const std::string message = message_of([&] { s.call(s.inputs); });
      CHECK(memory_stats().allocated == before);
      CHECK_THAT(message, Catch::Matchers::Contains(s.fragment));
      CHECK(message.find('\n') == std::string::npos);
      if (op.composite) continue;  // the operator inside speaks
      CHECK_THAT(message, Catch::Matchers::Contains(std::string(op.name) + "("));
      for (const Tensor& x : s.inputs) if (x.defined()) CHECK_THAT(message, Catch::Matchers::Contains(describe(x)));
    }
  }
}
