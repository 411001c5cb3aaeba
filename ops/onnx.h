// How an operator describes itself in ONNX: a member of its struct (ops/op.h), called after the operator has run while
// a model is traced for nn::save_onnx (nn/onnx.h).
//
//   void onnx(OnnxCall& c) const { c.result(c.node("Softmax", {c.in(0)}, {{"axis", dim}})); }
//
// An operator without it is exported as its `reference`; composed operators are exported as their inner operators.
// Elementwise formulas have one line each in ops/onnx_formulas.cpp. Sizes that a result depends on should be node
// inputs (c.ints), as in Reshape and Expand, not attributes: only inputs can follow a batch size that is unknown at
// export.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "core/onnx_graph.h"
#include "core/tensor.h"

namespace mantissa {

class OnnxTrace;  // ops/onnx_trace.h

class OnnxCall {
 public:
  OnnxCall(const char* op, std::span<const char* const> args, std::span<const Tensor* const> x,
           std::span<const Tensor> y);
  static bool is_heard();  // whether this thread is tracing
  OnnxCall(const OnnxCall&) = delete;
  OnnxCall& operator=(const OnnxCall&) = delete;

  // --- the call's inputs and results ---
  int inputs() const { return static_cast<int>(x_.size()); }
  int outputs() const { return static_cast<int>(y_.size()); }
  bool has(int i) const { return x_[static_cast<std::size_t>(i)]->defined(); }
  const Tensor& x(int i) const { return *x_[static_cast<std::size_t>(i)]; }
  const Tensor& y(int i = 0) const { return y_[static_cast<std::size_t>(i)]; }
  int opset() const;

  // --- values ---
  OnnxId in(int i);                                 // -1 when it is undefined
  OnnxId in(int i, Dtype dtype);                    // with a Cast if its dtype differs
  OnnxId number(double value, Dtype dtype);         // 0-d
  OnnxId ints(const std::vector<std::int64_t>& v);  // i64 [n]: a shape, axes, ...
  OnnxId ints(const Dims& v) { return ints(std::vector<std::int64_t>(v.begin(), v.end())); }
  OnnxId ints(std::initializer_list<std::int64_t> v) { return ints(std::vector<std::int64_t>(v)); }
  OnnxId filled(double value, const Dims& sizes, Dtype dtype);
  OnnxId table(const std::vector<double>& values, const Dims& sizes, Dtype dtype);
  OnnxId constant(const Tensor& t);
  // A node with one result; trailing undefined inputs are left out.
  OnnxId node(const char* type, const std::vector<OnnxId>& inputs, std::vector<OnnxAttribute> attributes = {});
  std::vector<OnnxId> nodes(const char* type, const std::vector<OnnxId>& inputs, std::vector<OnnxAttribute> attributes,
                            int results);
  OnnxId cast(OnnxId v, Dtype to) { return node("Cast", {v}, {{"to", onnx_type(to)}}); }
  // A reduction over dims (empty: all); newer opsets take the axes as an input instead of an attribute.
  OnnxId reduce(const char* type, OnnxId v, const Dims& dims, bool keepdim);
  // Declares v as the value of y(i).
  void result(OnnxId v, int i = 0);

  template <class... Parts> [[noreturn]] void refuse(const Parts&... why) const {
    fail("cannot be exported to ONNX: ", why...);
  }

  // {"axis", dim}; throws for 0-d tensors, which have no axis in ONNX.
  OnnxAttribute axis(int dim) const;

  // Called by apply(): results that were given no value raise the error `why` if the graph needs them. (If all inputs
  // are constants, the results become constants instead.)
  void done(const char* why);

 private:
  bool depends_on_inputs() const;

  OnnxTrace& trace_;
  const char* op_;
  std::span<const char* const> args_;
  std::span<const Tensor* const> x_;
  std::span<const Tensor> y_;
  unsigned given_ = 0;  // bit mask of the results that have a value
};

template <class Op>
concept HasOnnx = requires(const Op& op, OnnxCall& c) {
  op.onnx(c);
};

// Called by apply() while a trace is active.
template <class Op>
[[gnu::cold, gnu::noinline]] void note_for_onnx(const Op& op, std::span<const Tensor* const> x,
                                                std::span<const Tensor> y) {
  if (!OnnxCall::is_heard()) return;  // another thread's trace: the autocast state was copied from there
  OnnxCall call(Op::name, Op::args, x, y);
  if constexpr (HasOnnx<Op>) {
    try {
      op.onnx(call);
      call.done("cannot be exported to ONNX: there is no such result");
    } catch (const Error& e) {
      call.done(e.what());
    }
  } else {
    call.done("cannot be exported to ONNX: it has no translation");
  }
}

}  // namespace mantissa
