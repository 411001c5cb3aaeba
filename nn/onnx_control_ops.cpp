// ONNX's branches and loops (nn/onnx_program.h): nodes with subgraphs as attributes, which capture outer values.
// Conditions are read on the host, which synchronises with a GPU.
#include "nn/onnx_program.h"

namespace mantissa::nn::onnx {
namespace {

bool truth(const Tensor& t) {
  check(t.numel() == 1, "a condition is ", t);
  return t.item<double>() != 0;
}

Run branch(Node& n) {
  const Node::Body yes = n.body("then_branch", 0, n.outputs()), no = n.body("else_branch", 0, n.outputs());
  return [=](const Inputs& x) { return truth(x.all[0]) ? yes({}, x) : no({}, x); };
}

// Inputs: maximum trip count, initial condition, loop-carried values. Results: the final loop-carried values, then the
// per-iteration outputs, stacked.
Run loop(Node& n) {
  const int state = n.inputs() - 2, rows = n.outputs() - state;
  if (state < 0 || rows < 0) n.refuse("has fewer results than values that it hands on");
  if (!n.has_input(0) && !n.has_input(1)) n.refuse("without a count and a condition never ends");
  const Node::Body body = n.body("body", 2 + state, 1 + n.outputs());
  return [=](const Inputs& x) -> Tensors {
    const std::int64_t most = x.has(0) ? x.all[0].item<std::int64_t>() : INT64_MAX;
    bool on = !x.has(1) || truth(x.all[1]);
    Tensors in{Tensor(), Tensor()};
    for (int i = 0; i < state; ++i) in.push_back(x.all[static_cast<std::size_t>(2 + i)]);
    std::vector<Tensors> made(static_cast<std::size_t>(rows));
    for (std::int64_t round = 0; round < most && on; ++round) {
      in[0] = reshape(from_data(Integers{round}, {1}), {});
      in[1] = full({}, 1, {.dtype = boolean});
      const Tensors out = body(in, x);
      on = truth(out[0]);
      for (int i = 0; i < state; ++i) in[static_cast<std::size_t>(2 + i)] = out[static_cast<std::size_t>(1 + i)];
      for (int i = 0; i < rows; ++i)
        made[static_cast<std::size_t>(i)].push_back(out[static_cast<std::size_t>(1 + state + i)]);
    }
    Tensors results(in.begin() + 2, in.end());
    for (const Tensors& m : made) {
      check(!m.empty(), "no round was made: the sizes of its rows are not known");
      results.push_back(stack(m));
    }
    return results;
  };
}

// Inputs: loop-carried values, then sequences of which each iteration gets one element. Results likewise.
Run scan(Node& n) {
  const std::int64_t given = n.i("num_scan_inputs");
  if (given < 1 || given > n.inputs()) n.refuse("num_scan_inputs is ", given);
  const int count = static_cast<int>(given), state = n.inputs() - count, rows = n.outputs() - state;
  if (rows < 0) n.refuse("has fewer results than values that it hands on");
  const auto setting = [&](const char* name, int size) {
    Integers v = n.integers(name).value_or(Integers(static_cast<std::size_t>(size), 0));
    check(static_cast<int>(v.size()) == size, name, " has ", v.size(), " numbers instead of ", size);
    return v;
  };
  if (n.opset < 9) n.refuse("of opset 8");
  const Integers axes = setting("scan_input_axes", count), backwards = setting("scan_input_directions", count),
                 out_axes = setting("scan_output_axes", rows), out_backwards = setting("scan_output_directions", rows);
  const Node::Body body = n.body("body", state + count, n.outputs());
  return [=](const Inputs& x) -> Tensors {
    Tensors values;
    for (int i = 0; i < state; ++i) values.push_back(x.all[static_cast<std::size_t>(i)]);
    const std::int64_t rounds = x.all[static_cast<std::size_t>(state)].size(axes[0]);
    std::vector<Tensors> made(static_cast<std::size_t>(rows));
    for (std::int64_t round = 0; round < rounds; ++round) {
      Tensors in = values;
      for (int i = 0; i < count; ++i) {
        const auto k = static_cast<std::size_t>(i);
        const Tensor& all = x.all[static_cast<std::size_t>(state + i)];
        const int axis = wrap_dim(axes[k], all.dim());
        check(all.size(axis) == rounds, "the sequences have ", rounds, " and ", all.size(axis), " elements");
        in.push_back(select(all, axis, backwards[k] ? rounds - 1 - round : round));
      }
      const Tensors out = body(in, x);
      values.assign(out.begin(), out.begin() + state);
      for (int i = 0; i < rows; ++i)
        made[static_cast<std::size_t>(i)].push_back(out[static_cast<std::size_t>(state + i)]);
    }
    for (std::size_t i = 0; i < made.size(); ++i) {
      check(!made[i].empty(), "no round was made: the sizes of its rows are not known");
      const int axis = wrap_dim(out_axes[i], made[i][0].dim() + 1);
      const Tensor y = stack(made[i], axis);
      values.push_back(out_backwards[i] ? flip(y, {axis}) : y);
    }
    return values;
  };
}

constexpr Operator operators[] = {
    {"If", 1, 1, branch, any_number},
    {"Loop", 0, any_number, loop, any_number},
    {"Scan", 1, any_number, scan, any_number},
};

}  // namespace

std::span<const Operator> control_operators() { return operators; }

}  // namespace mantissa::nn::onnx
