// Calls of the CUDA runtime that eager work makes once it is under way. Each costs the host time, so an operator makes
// its launches and nothing else: no query, no event, no allocation.
#include "tests/cuda_shim/host_work.h"
#include "tests/cuda_shim/shim.h"
#include "tests/op_testing.h"

using namespace mantissa;

TEST_CASE("recorded operators and their gradients call the runtime for their launches alone") {
  cuda_shim::set_null_device(true);
  for (const host_work::Work& w : host_work::all()) {
    const auto body = w.make();
    for (int i = 0; i < 3; ++i) body();
    cuda_shim::CallCounter counter;
    body();
    int launches = 0, others = 0;
    std::string list;
    for (const auto& [name, count] : counter.calls) {
      list += concat(name, " ", count, "  ");
      (name == "cudaLaunchKernel" || name == "cublasLtMatmul" ? launches : others) += count;
    }
    INFO(w.name << ": " << list);
    CHECK(launches <= w.launches);
    CHECK(others <= w.others);
  }
  cuda_shim::set_null_device(false);
}

TEST_CASE("the gradient of a tensor that was divided takes a copy of each part, and nothing is filled or added") {
  cuda_shim::set_null_device(true);
  Tensor x = host_work::wants_gradient({64, 96});
  const std::vector<Tensor> gradients(3, host_work::on_device({64, 32}));
  const auto body = [&] {
    backward(chunk(x, 3, 1), gradients);
    x.set_grad({});
  };
  for (int i = 0; i < 3; ++i) body();
  cuda_shim::CallCounter counter;
  body();
  CHECK(counter.calls == std::map<std::string, int>{{"cudaLaunchKernel", 3}});
  cuda_shim::set_null_device(false);
}

namespace {
// Operators that wait for the device or copy from the host, and why.
const std::map<std::string, std::string> excused{
    {"quantile", "reads the shares, if they are a tensor"},
    {"nanquantile", "reads the shares, if they are a tensor"},
    {"matrix_exp", "the norm says how often to square"},
    {"eig", "is computed on the host"},
    {"eigvals", "is computed on the host"},
    {"bincount", "the largest value says how long the result is"},
    {"histogram", "the range is that of the values, and edges must not descend"},
    {"histogramdd", "the range is that of the values, and edges must not descend"},
    {"index", "a mask says how long the result is"},
    {"index_put", "a mask says how many values there are"},
    {"masked_select", "the mask says how long the result is"},
    {"masked_scatter", "a mask says how many values there are"},
    {"nonzero", "the values say how long the result is"},
    {"one_hot", "the largest class says how wide the result is"},
    {"unique", "the values say how long the result is"},
    {"unique_consecutive", "the values say how long the result is"},
    {"ctc_loss_backward", "its own derivative is made of labels that are read"},
    {"to", "is such a copy"},
    {"index_copy", "its sample brings an index from the host"},
    {"max_pool2d_taps_backward", "its sample brings taps from the host"},
    {"batch_norm_backward", "its sample brings statistics from the host"},
    {"batch_norm_relu_backward", "its sample brings an addend from the host"},
    {"cross_entropy_backward", "its samples, and its own derivative, bring numbers from the host"},
    {"nll_loss_backward", "its samples bring numbers from the host"},
};

// Calls that put work on the stream and do not wait.
bool is_work(const std::string& call) {
  return call == "cudaLaunchKernel" || call == "cublasLtMatmul" || call == "cudaMemcpyAsync" ||
         call == "cudaMemsetAsync";
}

// The other calls that one run with its gradients makes, after two to warm up; or what it threw, because on a null
// device it read zeros.
std::string other_calls(const OpInfo& op, const Sample& s, const Tensors& x) {
  const auto once = [&] {
    Tensors roots, ones;
    for (const Tensor& y : test::run(op, s, x)) {
      if (y.defined() && y.requires_grad()) roots.push_back(y), ones.push_back(ones_like(y));
    }
    if (!roots.empty()) backward(roots, ones);
  };
  cuda_shim::CallCounter counter;
  std::string others;
  try {
    once();
    once();
    counter.calls.clear();
    once();
  } catch (const Error& e) {
    return e.what();
  }
  for (const auto& [name, count] : counter.calls) if (!is_work(name)) others += concat(" ", name, " ", count);
  return others;
}

}  // namespace

TEST_CASE("registered operators leave the host free, but for those with a reason to read from the device") {
  cuda_shim::set_null_device(true);
  std::map<std::string, std::string> found;
  for (const OpInfo& op : registry()) {
    if (!test::selected(op) || op.mutates) continue;
    Samples samples(test::seed());
    op.samples(samples);
    for (const Sample& s : samples.all) {
      const bool recorded = test::can_differentiate(op, s);
      for (const Dtype dtype : {f32, bf16}) {
        if (dtype == bf16 && !op.halves) continue;
        Tensors x = test::prepared(s, dtype);
        if (recorded) x = test::wanting_gradients(op, x);
        for (Tensor& t : x) {
          if (!t.defined() || t.is_weak_scalar()) continue;
          const bool wanted = t.requires_grad();
          t = t.detach().to(cuda).requires_grad_(wanted);
        }
        if (const std::string others = other_calls(op, s, x); !others.empty()) found[op.name] = others;
      }
    }
  }
  cuda_shim::set_null_device(false);
  for (const auto& [op, calls] : found) {
    INFO(op << ":" << calls);
    CHECK(excused.contains(op));
  }
  for (const auto& [op, why] : excused) {
    INFO(op << " is excused (" << why << ") and needs no excuse");
    CHECK((found.contains(op) || !test::selected(OpInfo{.name = op.c_str()})));
  }
}
