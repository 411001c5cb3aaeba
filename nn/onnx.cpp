#include "nn/onnx.h"

#include <algorithm>
#include <set>

#include "autograd/grad_mode.h"
#include "core/ops.h"
#include "io/onnx.h"
#include "ops/onnx_merge.h"
#include "ops/onnx_trace.h"

namespace mantissa::nn {
namespace {

struct InTraining : Fields {
  bool found = false;
  void mode(Mode& m) override { found = found || m.training; }
};

std::vector<std::string> names_for(const char* stem, const std::vector<std::string>& given, std::size_t count) {
  if (!given.empty()) {
    check(given.size() == count, "save_onnx: ", given.size(), " names for ", count, " ", stem, "s");
    return given;
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back(count == 1 ? stem : concat(stem, "_", i));
  return names;
}

// The dynamic sizes, and their dimensions: sizes[at[input][axis]], -1 for fixed ones.
struct Dynamic {
  std::vector<OnnxDynamicSize> sizes;
  std::vector<std::vector<int>> at;
};
Dynamic dynamic_sizes(const std::vector<Tensor>& inputs, const std::vector<std::string>& names,
                      const OnnxOptions& options) {
  Dynamic d;
  for (const Tensor& x : inputs) d.at.emplace_back(static_cast<std::size_t>(x.dim()), -1);
  for (const OnnxDynamicAxis& a : options.dynamic) {
    check(!a.name.empty(), "save_onnx: a dynamic axis needs a name");
    bool found = false;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!a.input.empty() && a.input != names[i]) continue;
      found = true;
      check(a.axis >= -inputs[i].dim() && a.axis < inputs[i].dim(), "save_onnx: the dynamic axis \"", a.name, "\" is ",
            a.axis, ", input ", names[i], " is ", inputs[i]);
      const int axis = wrap_dim(a.axis, inputs[i].dim());
      const std::int64_t size = inputs[i].size(axis);
      auto known = std::ranges::find(d.sizes, a.name, &OnnxDynamicSize::name);
      if (known == d.sizes.end()) {
        check(size > 0, "save_onnx: the example's size of the dynamic axis \"", a.name, "\" is 0");
        d.sizes.push_back({a.name, static_cast<int>(i), axis, {size}});
        known = d.sizes.end() - 1;
      }
      check(known->each[0] == size, "save_onnx: the dynamic axis \"", a.name, "\" has size ", known->each[0],
            " in input ", names[static_cast<std::size_t>(known->input)], " and ", size, " in ", names[i]);
      int& at = d.at[i][static_cast<std::size_t>(axis)];
      check(at < 0, "save_onnx: axis ", a.axis, " of input ", names[i], " is dynamic twice, as \"", a.name, "\" too");
      at = static_cast<int>(known - d.sizes.begin());
    }
    check(found, "save_onnx: there is no input \"", a.input, "\" for the dynamic axis \"", a.name, "\"");
  }
  check(d.sizes.size() <= 8, "save_onnx: more than 8 dynamic sizes");
  // The first trace uses the example's sizes, then each size changes alone, and finally all do: downwards where
  // possible, as the net may have a maximum sequence length. A size of 1 is replaced, because it broadcasts.
  const std::size_t traces = d.sizes.size() + 2;
  for (std::size_t s = 0; s < d.sizes.size(); ++s) {
    const std::int64_t n = d.sizes[s].each[0] == 1 ? 3 : d.sizes[s].each[0];
    d.sizes[s].each.assign(traces, n);
    d.sizes[s].each[s + 1] = n > 2 ? n - 1 : n + 1;
    d.sizes[s].each.back() = n > 3 ? n - 2 : n + 2;
  }
  return d;
}

// Different values of the same kind: elements of x with changed frequencies, so that sums and means change. If all are
// equal, floating values get up to 1 added; integers, which may be indices, are left unchanged.
Tensor with_other_values(const Tensor& x, std::size_t trace) {
  const std::int64_t n = x.numel();
  if (n == 0) return clone(x);
  const Tensor flat = reshape(x, {n});
  if (x.is_floating() && all(eq(flat, slice(flat, 0, 0, 1))).item<bool>()) {
    const double part = 1.0 / static_cast<double>(trace + 1);
    return x + reshape(linspace(part / 2, part, n, {.dtype = x.dtype(), .device = x.device()}), x.sizes());
  }
  std::vector<std::int64_t> from;  // from end to beginning, with increasing strides
  for (std::int64_t i = 0; i < n; ++i) {
    const double passed = static_cast<double>(i) / static_cast<double>(n) * static_cast<double>(i);
    from.push_back((n - 1 - static_cast<std::int64_t>(passed) + static_cast<std::int64_t>(trace) - 1) % n);
  }
  return reshape(index_select(flat, 0, from_data(from, {n}).to(x.device())), x.sizes());
}

// The example repeated to the sizes of a trace; the first trace has its values.
Tensor resized(const Tensor& example, const std::vector<int>& at, const Dynamic& d, std::size_t trace) {
  Tensor x = example;
  for (int axis = 0; axis < x.dim(); ++axis) {
    const int s = at[static_cast<std::size_t>(axis)];
    if (s < 0) continue;
    const std::int64_t size = d.sizes[static_cast<std::size_t>(s)].each[trace], had = x.size(axis);
    std::vector<std::int64_t> from;
    for (std::int64_t i = 0; i < size; ++i) from.push_back(i % had);
    if (size != had) x = index_select(x, axis, from_data(from, {size}).to(x.device()));
  }
  return trace == 0 ? clone(x) : with_other_values(x, trace);
}

// Names inputs and results; these names must be unique.
void name_ports(OnnxGraph& graph, const NamedTensors& state) {
  std::set<std::string> taken;
  for (const auto& [name, tensor] : state) taken.insert(name);
  const auto name_port = [&](const OnnxPort& p) {
    check(!p.name.empty() && taken.insert(p.name).second, "save_onnx: the name \"", p.name, "\" is used twice");
  };
  for (const OnnxPort& p : graph.inputs) {
    name_port(p);
    graph.values[static_cast<std::size_t>(p.value)].name = p.name;
  }
  for (OnnxPort& p : graph.outputs) {
    name_port(p);
    OnnxValue v = graph.values[static_cast<std::size_t>(p.value)];
    if (!v.name.empty() || v.constant.defined()) {  // an input, a constant, or a result returned twice
      v.constant = Tensor();
      graph.values.push_back(v);
      const auto fresh = static_cast<OnnxId>(graph.values.size()) - 1;
      graph.nodes.push_back({"Identity", {p.value}, {fresh}, {}, "a result", "result"});
      p.value = fresh;
    }
    graph.values[static_cast<std::size_t>(p.value)].name = p.name;
  }
}

}  // namespace

namespace detail {

void save_onnx(ModuleRef net, const std::string& path, const std::vector<Tensor>& inputs, const OnnxOptions& options,
               const Forward& forward) {
  const InferenceMode inference;
  check(options.opset >= io::oldest_onnx_opset && options.opset <= io::newest_onnx_opset, "save_onnx: opset ",
        options.opset, " is not between ", io::oldest_onnx_opset, " and ", io::newest_onnx_opset);
  InTraining training;
  net.visit(training);
  check(!training.found,
        "save_onnx: the net is in training mode, where dropout drops and norms look at the batch; "
        "call nn::eval(net) first");
  for (const Tensor& x : inputs) check(x.defined(), "save_onnx: an input is an undefined tensor");
  const std::vector<std::string> input_names = names_for("input", options.input_names, inputs.size());
  const Dynamic dynamic = dynamic_sizes(inputs, input_names, options);
  const NamedTensors state = state_dict(net);

  std::vector<OnnxGraph> traces;
  for (std::size_t t = 0; t < dynamic.sizes.size() + 2; ++t) {
    std::vector<Tensor> x;
    for (std::size_t i = 0; i < inputs.size(); ++i) x.push_back(resized(inputs[i], dynamic.at[i], dynamic, t));
    OnnxTrace trace(options.opset);
    std::vector<OnnxPort> in, out;
    for (std::size_t i = 0; i < x.size(); ++i) in.push_back({trace.add_input(x[i]), input_names[i], {}});
    for (const auto& [name, tensor] : state) trace.add_parameter(tensor, name);
    std::vector<Tensor> results = forward(x);
    std::erase_if(results, [](const Tensor& r) { return !r.defined(); });
    check(!results.empty(), "save_onnx: the net returns no tensor");
    const std::vector<std::string> names = names_for("output", options.output_names, results.size());
    for (std::size_t i = 0; i < results.size(); ++i) out.push_back({trace.value_of(results[i]), names[i], {}});
    traces.push_back(trace.graph());
    traces.back().inputs = std::move(in);
    traces.back().outputs = std::move(out);
  }

  OnnxGraph graph = merge_traces(traces, dynamic.sizes);
  name_ports(graph, state);
  tidy(graph);
  io::write_onnx(path, graph);
}

}  // namespace detail
}  // namespace mantissa::nn
