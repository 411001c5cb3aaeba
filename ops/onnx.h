// How an operator says what it is in ONNX: a member of its struct (ops/op.h), called while a net is traced for
// nn::save_onnx (nn/onnx.h), after the operator has run.
//
//   void onnx(OnnxCall& c) const { c.result(c.node("Softmax", {c.in(0)}, {{"axis", dim}})); }
//
// An operator without it is exported as its `reference`, what is made of operators as these. Elementwise formulas have
// one line each in ops/onnx_formulas.cpp. Sizes that a result depends on should be inputs of nodes (c.ints), as in
// Reshape and Expand: these can follow a batch whose size is not known before the file is used; attributes cannot.
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
  static bool is_heard();  // whether this thread has a trace
  OnnxCall(const OnnxCall&) = delete;
  OnnxCall& operator=(const OnnxCall&) = delete;

  // --- what the operator was called with, and what came out ---
  int inputs() const { return static_cast<int>(x_.size()); }
  int outputs() const { return static_cast<int>(y_.size()); }
  bool has(int i) const { return x_[static_cast<std::size_t>(i)]->defined(); }
  const Tensor& x(int i) const { return *x_[static_cast<std::size_t>(i)]; }
  const Tensor& y(int i = 0) const { return y_[static_cast<std::size_t>(i)]; }
  int opset() const;

  // --- values ---
  OnnxId in(int i);                                 // -1 when it is absent
  OnnxId in(int i, Dtype dtype);                    // cast where it is of another
  OnnxId number(double value, Dtype dtype);         // without dimensions
  OnnxId ints(const std::vector<std::int64_t>& v);  // i64 [n]: a shape, axes, ...
  OnnxId ints(const Dims& v) { return ints(std::vector<std::int64_t>(v.begin(), v.end())); }
  OnnxId ints(std::initializer_list<std::int64_t> v) { return ints(std::vector<std::int64_t>(v)); }
  OnnxId filled(double value, const Dims& sizes, Dtype dtype);
  OnnxId table(const std::vector<double>& values, const Dims& sizes, Dtype dtype);
  OnnxId constant(const Tensor& t);
  // A node with one result; absent inputs at the end are left out.
  OnnxId node(const char* type, const std::vector<OnnxId>& inputs, std::vector<OnnxAttribute> attributes = {});
  std::vector<OnnxId> nodes(const char* type, const std::vector<OnnxId>& inputs, std::vector<OnnxAttribute> attributes,
                            int results);
  OnnxId cast(OnnxId v, Dtype to) { return node("Cast", {v}, {{"to", onnx_type(to)}}); }
  // A reduction over dims (none: all); ONNX has moved its axes from an attribute to an input.
  OnnxId reduce(const char* type, OnnxId v, const Dims& dims, bool keepdim);
  // y(i) is this value.
  void result(OnnxId v, int i = 0);

  template <class... Parts> [[noreturn]] void refuse(const Parts&... why) const {
    fail("cannot be exported to ONNX: ", why...);
  }

  // {"axis", dim}; refuses scalars, which have none there.
  OnnxAttribute axis(int dim) const;

  // By apply(): of what has been given no value it is said `why`, should it be needed. (What is made of constants alone
  // is a constant then.)
  void done(const char* why);

 private:
  bool depends_on_inputs() const;

  OnnxTrace& trace_;
  const char* op_;
  std::span<const char* const> args_;
  std::span<const Tensor* const> x_;
  std::span<const Tensor> y_;
  unsigned given_ = 0;  // results that have a value
};

template <class Op>
concept HasOnnx = requires(const Op& op, OnnxCall& c) {
  op.onnx(c);
};

// Used by apply(), while a trace is on.
template <class Op>
[[gnu::cold, gnu::noinline]] void note_for_onnx(const Op& op, std::span<const Tensor* const> x,
                                                std::span<const Tensor> y) {
  if (!OnnxCall::is_heard()) return;  // another thread's trace, whose state was captured
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
