#include "nn/onnx_model.h"

#include <algorithm>

#include "io/file.h"
#include "nn/onnx_program.h"

namespace mantissa::nn {
namespace {

OnnxModel::Port port_of(const io::OnnxFilePort& p, const std::string& path) {
  if (!p.is_tensor) io::fail_format(path, io::quote(p.name), " is no tensor but a sequence or the like");
  OnnxModel::Port port{p.name, p.has_dtype ? name_of(p.dtype) : "?", p.sizes, p.has_sizes, p.has_dtype, p.dtype};
  if (!p.has_sizes) return port;
  port.type += '[';
  for (std::size_t i = 0; i < p.sizes.size(); ++i) {
    const OnnxSize& s = p.sizes[i];
    port.type += concat(i ? ", " : "", s.number >= 0 ? concat(s.number) : s.name.empty() ? "?" : s.name);
  }
  port.type += ']';
  return port;
}

}  // namespace

OnnxModel::OnnxModel(const std::string& path) : path_(path) {
  const io::OnnxFile file = io::read_onnx(path);
  std::vector<onnx::State> state;
  program_ = onnx::build(file, state);
  opset_ = file.opset;
  for (const onnx::State& s : state) {
    Value v{s.name, {}, {}, {}};
    if (s.kind == onnx::State::parameter) v.param = Param(s.value);
    else if (s.kind == onnx::State::buffer) v.buffer = s.value;
    else v.constant = s.value;
    values_.push_back(std::move(v));
  }
  const auto is_initialiser = [&](const io::OnnxFilePort& p) {
    return std::ranges::any_of(file.graph.initialisers, [&](const auto& i) { return i.first == p.name; });
  };
  for (const io::OnnxFilePort& p : file.graph.inputs)
    if (!is_initialiser(p)) inputs_.push_back(port_of(p, path));
  for (const io::OnnxFilePort& p : file.graph.outputs) outputs_.push_back(port_of(p, path));
}

std::vector<Tensor> OnnxModel::run(std::span<const Tensor> x) const {
  std::string wanted;
  for (const Port& p : inputs_) wanted += concat(wanted.empty() ? "" : ", ", p.name, ": ", p.type);
  check(x.size() == inputs_.size(), path_, ": takes ", inputs_.size(), " tensors (", wanted, "), got ", x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Port& p = inputs_[i];
    check(x[i].defined(), path_, ": the input ", p.name, " is undefined");
    bool fits = !p.has_dtype || is_floating(p.dtype) == x[i].is_floating();
    fits = fits && (!p.has_sizes || static_cast<int>(p.sizes.size()) == x[i].dim());
    for (std::size_t d = 0; fits && d < p.sizes.size(); ++d)
      fits = p.sizes[d].number < 0 || p.sizes[d].number == x[i].size(static_cast<std::int64_t>(d));
    check(fits, path_, ": the input ", p.name, " must be ", p.type, ", got ", x[i]);
  }
  std::vector<Tensor> state;
  state.reserve(values_.size());
  for (const Value& v : values_)
    state.push_back(v.param.defined()    ? static_cast<const Tensor&>(v.param)
                    : v.buffer.defined() ? static_cast<const Tensor&>(v.buffer)
                                         : v.constant);
  try {
    return program_->run(x, state, mode.training);
  } catch (Error& e) {
    e.add_outer_context(path_);
    throw;
  }
}

Tensor OnnxModel::one_result(const std::vector<Tensor>& results) const {
  check(results.size() == 1, path_, ": has ", results.size(), " results; net({x}) gives them as a vector");
  return results[0];
}

void OnnxModel::fields(Fields& visitor) {
  for (Value& v : values_) {
    if (v.param.defined()) visitor.visit(v.name, v.param);
    if (v.buffer.defined()) visitor.visit(v.name, v.buffer);
  }
  visitor.visit("mode", mode);
}

OnnxModel OnnxModel::clone() const {
  OnnxModel c;
  c.path_ = path_;
  c.opset_ = opset_;
  c.program_ = program_;
  c.inputs_ = inputs_;
  c.outputs_ = outputs_;
  c.mode = mode;
  for (const Value& v : values_) {
    Value copy{v.name, {}, {}, v.constant};
    if (v.param.defined()) copy.param = nn::clone(v.param);
    if (v.buffer.defined()) copy.buffer = nn::clone(v.buffer);
    c.values_.push_back(std::move(copy));
  }
  return c;
}

void save_onnx(const OnnxModel& net, const std::string& path, const std::vector<Tensor>& inputs,
               const OnnxOptions& options) {
  OnnxOptions o = options;
  const auto names = [](const std::vector<OnnxModel::Port>& ports) {
    std::vector<std::string> n;
    for (const OnnxModel::Port& p : ports) n.push_back(p.name);
    return n;
  };
  if (o.input_names.empty()) o.input_names = names(net.inputs());
  if (o.output_names.empty()) o.output_names = names(net.outputs());
  detail::save_onnx(net, path, inputs, o, [&](std::span<const Tensor> x) { return net(x); });
}

}  // namespace mantissa::nn
