// Comparison with PyTorch's autocast: with the policies torch_cuda() and torch_cpu() every operator gives the dtypes
// that PyTorch gave (tests/golden_autocast.h), and the operators' own policies follow its list for CUDA except where
// this framework computes in f32 inside. Next: tests/autocast_policy_test.cpp.
#include <algorithm>
#include <set>

#include "amp/autocast.h"
#include "core/ops.h"
#include "tests/golden_autocast.h"
#include "tests/op_testing.h"

using namespace mantissa;
using namespace mantissa::test;
using amp::Policies;

namespace {

enum Kind { all_f32, all_low, first_low, first_f32 };
constexpr const char* kind_names[] = {"all f32", "all low", "the first low", "the first f32"};

const OpInfo* find_op(std::string_view name) {
  for (const OpInfo& op : registry()) if (name == op.name) return &op;
  return nullptr;
}
bool is_input(const Tensor& t) { return t.defined() && t.is_floating(); }

Sample sample_of(const GoldenAutocast& row) {
  const std::string_view name = row.op;
  if (name == "reflection_pad" || name == "replication_pad") {
    const std::string mode = name == "reflection_pad" ? "reflect" : "replicate";
    Sample s;
    s.inputs = {Samples().randn({1, 2, 4, 4})};
    s.call = [mode](const Tensors& x) { return Tensors{pad(x[0], {1, 1, 1, 1}, mode)}; };
    return s;
  }
  const OpInfo* op = find_op(name);
  REQUIRE(op);
  Samples samples;
  op->samples(samples);
  const auto wanted = *row.cuda[first_low] ? 2 : 1;
  for (const Sample& s : samples.all) {
    const bool plain =
        std::ranges::none_of(s.inputs, [](const Tensor& t) { return t.defined() && t.is_weak_scalar(); });
    if (plain && !s.extreme && std::ranges::count_if(s.inputs, is_input) >= wanted) return s;
  }
  FAIL("no sample of " << name << " has " << wanted << " floating inputs");
  return {};
}

std::string result_of(const Sample& s, Kind kind, Dtype low, const Policies& policies) {
  Tensors x;
  bool first = true;
  for (const Tensor& t : s.inputs) {
    if (!is_input(t)) {
      x.push_back(t);
      continue;
    }
    const bool is_low = kind == all_low || (kind == first_low && first) || (kind == first_f32 && !first);
    x.push_back(cast(t, is_low ? low : f32));
    first = false;
  }
  try {
    const amp::Autocast region(amp::AutocastOptions{.dtype = low, .policies = policies});
    const Dtype dtype = s.call(x)[0].dtype();
    return dtype == low ? "low" : name_of(dtype);
  } catch (const Error& e) {
    return std::string("raises: ") + e.what();
  }
}

void compare(const GoldenAutocast& row, const char* list, const char* const (&expected)[4], Dtype low,
             const Policies& policies) {
  const Sample s = sample_of(row);
  for (const Kind kind : {all_f32, all_low, first_low, first_f32}) {
    const std::string_view want = expected[kind];
    if (want.empty() || want == "-") continue;  // what PyTorch refuses may work here
    INFO(row.op << " with PyTorch's list for " << list << ", floating inputs " << kind_names[kind]);
    CHECK(result_of(s, kind, low, policies) == want);
  }
}

}  // namespace

TEST_CASE("A13 A14 A16 A17 A19 A27: with PyTorch's lists every operator gives the dtypes that PyTorch gave", "[amp]") {
  for (const GoldenAutocast& row : golden_autocast) {
    compare(row, "CUDA", row.cuda, f16, Policies::torch_cuda());
    compare(row, "the CPU", row.cpu, bf16, Policies::torch_cpu());
  }
}

TEST_CASE("the operators' own policies are PyTorch's for CUDA, but for norms and softmax in f32 inside", "[amp][A27]") {
  const std::vector<Policies::Entry> list = amp::torch_cuda_list();
  const std::set<std::string> own_choice{"softmax",  "log_softmax",         "layer_norm", "group_norm", "instance_norm",
                                         "rms_norm", "local_response_norm", "index_copy", "scatter"};
  for (const OpInfo& op : registry()) {
    if (op.composite && !op.has_policy) continue;  // does what its parts do
    const CastPolicy* listed = amp::find_policy(list, op.name);
    INFO(op.name << ": " << amp::name_of(op.autocast) << " here, " << (listed ? amp::name_of(*listed) : "no entry")
                 << " in PyTorch");
    CHECK((op.autocast == CastPolicy::banned) == (std::string_view(op.name) == "binary_cross_entropy"));
    // Operators without an entry in PyTorch may run in f32 here (losses and the like), but never in lower precision.
    if (own_choice.contains(op.name))
      CHECK((op.autocast == CastPolicy::f32_inside || op.autocast == CastPolicy::promote));
    else if (listed) CHECK(op.autocast == *listed);
    else CHECK((op.autocast != CastPolicy::lower || std::string_view(op.name).starts_with("conv") ||  // their gradients
                std::string_view(op.name) == "linear_act" ||
                std::string_view(op.name) == "linear_cross_entropy" ||  // as linear, its larger part
                // PyTorch lists the cells: lstm_cell, gru_cell, rnn_tanh_cell
                std::string_view(op.name) == "recurrent_layer"));
  }
}

TEST_CASE("A20: PyTorch's ban of binary_cross_entropy, in its list for CUDA and here, and how to lift it", "[amp]") {
  const Tensor p = full({3}, 0.5), target = ones({3});
  const auto loss = [&](const Policies& policies, Dtype dtype) {
    const amp::Autocast region(amp::AutocastOptions{.dtype = dtype, .policies = policies});
    return binary_cross_entropy(p.to(dtype), target);
  };
  CHECK(binary_cross_entropy(p, target).dtype() == f32);
  for (const Policies& banned : {Policies::torch_cuda(), Policies()}) {
    const std::string message = message_of([&] { loss(banned, f16); });
    CHECK_THAT(message, Catch::Matchers::Contains("binary_cross_entropy(") &&
                            Catch::Matchers::Contains("binary_cross_entropy_with_logits"));
    const amp::Autocast region(amp::AutocastOptions{.dtype = f16, .policies = banned});
    const amp::Autocast off(amp::disabled);
    CHECK(binary_cross_entropy(p, target).dtype() == f32);
  }
  CHECK(same_bits(loss(Policies::torch_cpu(), bf16), binary_cross_entropy(p, target)));
  CHECK(same_bits(loss(Policies().set("binary_cross_entropy", CastPolicy::f32), f16), binary_cross_entropy(p, target)));
}
