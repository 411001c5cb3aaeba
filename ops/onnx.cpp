#include "ops/onnx.h"

#include <algorithm>
#include <utility>

#include "core/ops.h"
#include "ops/apply.h"
#include "ops/onnx_trace.h"

namespace mantissa {
namespace {

thread_local OnnxTrace* the_trace = nullptr;

// A constant of the graph: a contiguous copy on the host.
Tensor frozen(const Tensor& t, Dtype dtype) {
  const Untraced own;
  const amp::OutsideAutocast off;
  const Tensor there = t.detach().to(cpu);
  return cast(there.is_weak_scalar() ? there : clone(contiguous(there)), dtype);
}

}  // namespace

// --- known values ---

OnnxTrace::OnnxTrace(int opset) : Observer(true), before_(context().autocast) {
  check(!the_trace, "save_onnx: another export is under way in this thread");
  graph_.opset = opset;
  the_trace = this;
  context().autocast.traced = true;
  context().autocast.cache = amp::CastCache::off;  // weights are cast at each use
}
OnnxTrace::~OnnxTrace() {
  context().autocast = before_;
  the_trace = nullptr;
}

const OnnxTrace::Known* OnnxTrace::find(const Tensor& t) const {
  const auto [begin, end] = known_.equal_range(t.raw_data());
  for (auto k = begin; k != end; ++k) {
    if (k->second.dtype == t.dtype() && k->second.sizes == t.sizes() && k->second.strides == t.strides())
      return &k->second;
  }
  return nullptr;
}
void OnnxTrace::know(const Tensor& t, OnnxId id, std::string call) {
  kept_.push_back(t);
  if (!graph_.values[static_cast<std::size_t>(id)].is_fixed) computed_.insert(t.storage().get());
  Known fresh{t.sizes(), t.strides(), t.dtype(), t.storage()->version(), id, std::move(call)};
  if (const Known* old = find(t)) *const_cast<Known*>(old) = std::move(fresh);
  else known_.emplace(t.raw_data(), std::move(fresh));
}
OnnxId OnnxTrace::add_input(const Tensor& t) {
  OnnxValue v;
  v.dtype = t.dtype();
  v.sizes = t.sizes();
  v.has_sizes = true;
  graph_.values.push_back(std::move(v));
  const OnnxId id = static_cast<OnnxId>(graph_.values.size()) - 1;
  know(t, id, "an input");
  return id;
}
OnnxId OnnxTrace::add_parameter(const Tensor& t, const std::string& name) {
  if (const Known* k = find(t)) return k->id;  // shared by two layers
  OnnxValue v;
  v.dtype = t.dtype();
  v.sizes = t.sizes();
  v.has_sizes = v.is_fixed = true;
  v.constant = t.device().is_cpu() && t.is_contiguous() ? t.detach() : frozen(t, t.dtype());
  graph_.values.push_back(std::move(v));
  const OnnxId id = static_cast<OnnxId>(graph_.values.size()) - 1;
  graph_.values.back().name = name;
  graph_.values.back().is_parameter = true;
  know(t, id, name);
  return id;
}
OnnxId OnnxTrace::add_constant(const Tensor& t) {
  OnnxValue v;
  v.dtype = t.dtype();
  v.sizes = t.sizes();
  v.has_sizes = v.is_fixed = true;
  v.constant = frozen(t, t.dtype());
  graph_.values.push_back(std::move(v));
  return static_cast<OnnxId>(graph_.values.size()) - 1;
}
// The position in the model of a call with these inputs, for messages: the layer that owns one of them as a parameter,
// otherwise after the last such layer.
std::string OnnxTrace::place(std::span<const Tensor* const> x) {
  for (const Tensor* t : x) {
    const Known* k = t->defined() ? find(*t) : nullptr;
    if (!k || !graph_.values[static_cast<std::size_t>(k->id)].is_parameter) continue;
    layer_ = k->call.substr(0, k->call.rfind('.'));
    return concat(" in ", layer_);
  }
  return layer_.empty() ? "" : concat(" after ", layer_);
}
OnnxId OnnxTrace::value_of(const Tensor& t) {
  if (t.is_weak_scalar()) return add_constant(t);
  if (const Known* k = find(t)) {
    check(k->version == t.storage()->version(), "cannot be exported to ONNX: uses the result of ", k->call,
          ", which was written to in place since; write it without in-place operators (linalg's det, inv, solve, "
          "cholesky and qr have some inside, and are not in ONNX)");
    return k->id;
  }
  check(!computed_.contains(t.storage().get()), "cannot be exported to ONNX: uses a view ", t,
        " that was not made by an operator, of a tensor that was");
  const OnnxId id = add_constant(t);
  know(t, id, "a constant");
  return id;
}

// --- a call ---

OnnxCall::OnnxCall(const char* op, std::span<const char* const> args, std::span<const Tensor* const> x,
                   std::span<const Tensor> y)
    : trace_(*the_trace), op_(op), args_(args), x_(x), y_(y) {
  trace_.place_ = trace_.place(x);
}

bool OnnxCall::is_heard() { return the_trace; }
int OnnxCall::opset() const { return trace_.graph_.opset; }
OnnxId OnnxCall::in(int i) { return has(i) ? trace_.value_of(x(i)) : -1; }
OnnxId OnnxCall::in(int i, Dtype dtype) {
  if (!has(i)) return -1;
  if (x(i).is_weak_scalar()) return constant(frozen(x(i), dtype));
  const OnnxId id = in(i);
  return x(i).dtype() == dtype ? id : cast(id, dtype);
}
OnnxId OnnxCall::number(double value, Dtype dtype) {
  const Untraced own;
  return constant(scalar(value, {.dtype = dtype}));
}
OnnxId OnnxCall::filled(double value, const Dims& sizes, Dtype dtype) {
  const Untraced own;
  return constant(full(sizes, value, {.dtype = dtype}));
}
OnnxId OnnxCall::table(const std::vector<double>& values, const Dims& sizes, Dtype dtype) {
  return constant(frozen(from_data(values, sizes), dtype));
}
OnnxId OnnxCall::ints(const std::vector<std::int64_t>& v) {
  return constant(from_data<std::int64_t>(v, {static_cast<std::int64_t>(v.size())}));
}
OnnxId OnnxCall::constant(const Tensor& t) { return trace_.add_constant(t); }

std::vector<OnnxId> OnnxCall::nodes(const char* type, const std::vector<OnnxId>& inputs,
                                    std::vector<OnnxAttribute> attributes, int results) {
  OnnxNode n{type, inputs, {}, std::move(attributes), concat(detail::describe_call(op_, args_, x_), trace_.place_),
             op_};
  while (!n.inputs.empty() && n.inputs.back() < 0) n.inputs.pop_back();
  OnnxGraph& g = trace_.graph_;
  bool fixed = true;
  for (const OnnxId id : n.inputs) fixed = fixed && (id < 0 || g.values[static_cast<std::size_t>(id)].is_fixed);
  for (int i = 0; i < results; ++i) {
    n.outputs.push_back(static_cast<OnnxId>(g.values.size()));
    g.values.emplace_back().is_fixed = fixed;
  }
  g.nodes.push_back(n);
  return n.outputs;
}
OnnxId OnnxCall::node(const char* type, const std::vector<OnnxId>& inputs, std::vector<OnnxAttribute> attributes) {
  return nodes(type, inputs, std::move(attributes), 1)[0];
}
OnnxId OnnxCall::reduce(const char* type, OnnxId v, const Dims& dims, bool keepdim) {
  const std::vector<std::int64_t> axes(dims.begin(), dims.end());
  std::vector<OnnxAttribute> attributes{{"keepdims", keepdim}};
  const bool as_input = opset() >= 18 || std::string_view(type) == "ReduceSum";
  if (!as_input && !axes.empty()) attributes.emplace_back("axes", axes);
  return node(type, {v, as_input && !axes.empty() ? ints(axes) : -1}, std::move(attributes));
}
void OnnxCall::result(OnnxId v, int i) {
  OnnxValue& value = trace_.graph_.values[static_cast<std::size_t>(v)];
  if (!value.has_sizes) {
    value.sizes = y(i).sizes();
    value.dtype = y(i).dtype();
    value.has_sizes = true;
  }
  trace_.know(y(i), v, op_);
  given_ |= 1u << i;
}

bool OnnxTrace::depends_on_inputs(const Tensor& t) const {
  if (!t.defined() || t.is_weak_scalar()) return false;
  if (const Known* k = find(t)) return !graph_.values[static_cast<std::size_t>(k->id)].is_fixed;
  return computed_.contains(t.storage().get());
}
bool OnnxCall::depends_on_inputs() const {
  return std::ranges::any_of(x_, [&](const Tensor* t) { return trace_.depends_on_inputs(*t); });
}
bool is_traced(const Tensor& x) { return the_trace && context().autocast.traced && the_trace->depends_on_inputs(x); }
void check_may_look(const char* function, const Tensor& x) {
  check(!is_traced(x), "save_onnx: ", function, "(", x,
        ") cannot be exported to ONNX: how often it repeats its steps depends on values");
}
void OnnxCall::done(const char* why) {
  if (!depends_on_inputs()) return;
  const bool unknown = std::string_view(why).ends_with("it has no translation");
  const char* advice = unknown ? "; its member `onnx` (ops/onnx.h) would be one" : "";
  for (std::size_t i = 0; i < y_.size(); ++i) {
    if ((given_ >> i & 1) || !y_[i].defined()) continue;
    OnnxValue v;
    v.dtype = y_[i].dtype();
    v.sizes = y_[i].sizes();
    v.has_sizes = true;
    v.missing = concat(detail::describe_call(op_, args_, x_), trace_.place_, ": ", why, advice);
    trace_.graph_.values.push_back(std::move(v));
    trace_.know(y_[i], static_cast<OnnxId>(trace_.graph_.values.size()) - 1, op_);
  }
}
OnnxAttribute OnnxCall::axis(int dim) const {
  if (x(0).dim() == 0) refuse("of a scalar");
  return {"axis", dim};
}

}  // namespace mantissa
