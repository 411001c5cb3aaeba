// OpNode<Op>: the node of one recorded operator. It stores the operator's attributes and exactly the tensors that its
// gradient rules need (autograd/rule.h).
#pragma once

#include <array>
#include <vector>

#include "autograd/node.h"
#include "autograd/rule.h"
#include "core/context.h"

namespace mantissa::autograd {

// Inputs: a fixed number, or -1 for a list whose length is only known at recording.
template <class T, int n> struct FixedOrList { using type = std::array<T, static_cast<std::size_t>(n)>; };
template <class T> struct FixedOrList<T, -1> { using type = std::vector<T>; };

template <class Op, int inputs, int outputs>
class OpNode final : public Node, public Pooled<OpNode<Op, inputs, outputs>> {
  template <class T> using PerInput = typename FixedOrList<T, inputs>::type;

 public:
  // `x`: the inputs after autocast; `y`: the results.
  OpNode(const Op& op, std::span<const Tensor* const> x, std::span<const Tensor> y) : Node(Op::name), op_(op) {
    if constexpr (inputs < 0) {
      edges_.resize(x.size());
      meta_.resize(x.size());
      saved_inputs_.resize(x.size());
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!x[i]->defined()) continue;
      meta_[i] = {x[i]->sizes(), x[i]->dtype(), x[i]->device()};
      if (!x[i]->requires_grad()) continue;
      wanted_ |= std::uint64_t{1} << (i < 63 ? i : 63);
      edges_[i] = x[i]->impl()->node;
    }
    set_edges(edges_);
    std::uint64_t bits = saved_bits(Op::vjp(), wanted_);
    if (bits >> unchanged_bit) {
      const bool activated = edges_[0] && edges_[0]->is_activation(nullptr);
      bits |= activated ? bits >> unchanged_bit << 32 : 0;
    }
    for (std::size_t i = 0; i < x.size() && i < 32; ++i) {
      if (bits >> i & 1) saved_inputs_[i].save(*x[i]);
    }
    for (int k = 0; k < outputs; ++k) {
      if (bits >> (32 + k) & 1) saved_outputs_[k].save(y[k].detach());  // without its node, which would be a cycle
    }
  }

  const InputMeta* adds_to() const override { return takes_arrived(Op::vjp()) ? &meta_[0] : nullptr; }
  void backward(Tensor g, std::span<Tensor> grads, Pass pass) override {
    if (released_) fail_second_backward(Op::name);
    if (pass.last) released_ = true;  // from here on, rules take over the saved tensors
    run_rules(Op::vjp(), g, grads, pass);
  }

  bool is_part([[maybe_unused]] Part& part) const override {
    if constexpr (requires { part = op_.part(meta_[0].sizes); }) {
      part = op_.part(meta_[0].sizes);
      return true;
    }
    return false;
  }

  bool is_activation([[maybe_unused]] SavedActivation* to) const override {
    if constexpr (requires { requires Op::fusible != Activation::none; }) {
      const bool result = saved_outputs_[0].tensor.defined();
      const SavedTensor& saved = result ? saved_outputs_[0] : saved_inputs_[0];
      if (to && !released_) *to = {Op::fusible, saved.unpack(Op::name, result ? "result" : Op::args[0])};
      return !released_;
    }
    return false;
  }
  int differentiates_activation_of() const override { return activation_of_rules(Op::vjp()); }

  void list_saved(std::vector<SavedTensor*>& all) override {
    for (auto& s : saved_inputs_) if (s.tensor.defined()) all.push_back(&s);
    for (auto& s : saved_outputs_) if (s.tensor.defined()) all.push_back(&s);
  }
  void release_saved() override {
    released_ = true;
    for (auto& s : saved_inputs_) s.tensor = {};
    for (auto& s : saved_outputs_) s.tensor = {};
  }

 private:
  // What rules may take. The last rule to run gets the node's own handles, which it may reuse.
  struct Given {
    Tensor& gradient;
    bool own_gradient, own_saved;
    Pass pass;
    Tensor* arrived = nullptr;
  };
  static Tensor give(Tensor& t, bool own) { return own ? std::move(t) : t; }

  template <class... F> void run_rules(const Rules<F...>& r, Tensor& g, std::span<Tensor> grads, Pass pass) {
    constexpr bool exists[] = {!std::is_same_v<F, NoGradient>...};
    std::size_t last_rule = 0;
    for (std::size_t i = 0; i < sizeof...(F) && i < edges_.size(); ++i) if (exists[i] && edges_[i]) last_rule = i;
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      (run_rule<i>(std::get<i>(r.rules), Given{g, i == last_rule, pass.last && i == last_rule, pass}, grads), ...);
    }(std::index_sequence_for<F...>{});
  }
  template <std::size_t i, class F> void run_rule(const F& rule, const Given& given, std::span<Tensor> grads) {
    if constexpr (!std::is_same_v<F, NoGradient>) {
      if (i < edges_.size() && edges_[i]) grads[i] = fit_gradient(call(rule, given), meta_[i], edges_[i]);
    }
  }
  template <class F> void run_rules(const Joint<F>& r, Tensor& g, std::span<Tensor> grads, Pass pass) {
    // an array; for a list of inputs a vector
    auto all = call(r.rule, Given{g, true, pass.last, pass, grads.data()});
    for (std::size_t i = 0; i < grads.size(); ++i) {
      if (edges_[i]) grads[i] = fit_gradient(std::move(all[i]), meta_[i], edges_[i]);
    }
  }

  template <class F> auto call(const F& rule, const Given& given) {
    return [&]<class... A>(std::tuple<A...>*) { return rule(argument(static_cast<A*>(nullptr), given)...); }(
        static_cast<ParametersOf<F>*>(nullptr));
  }

  // One overload per kind of rule parameter.
  const Op& argument(Op*, const Given&) const { return op_; }
  Grad argument(Grad*, const Given& given) const { return Grad{give(given.gradient, given.own_gradient)}; }
  Arrived argument(Arrived*, const Given& given) const { return Arrived{std::move(*given.arrived)}; }
  Shapes argument(Shapes*, const Given&) const { return meta_; }
  Needs argument(Needs*, const Given&) const { return {wanted_}; }
  template <int i> Shape<i> argument(Shape<i>*, const Given&) const { return {meta_[i].sizes, meta_[i].dtype}; }
  template <int i> ActivationOf<i> argument(ActivationOf<i>*, const Given& given) const {
    if (!given.pass.activation) return {};
    return {*given.pass.activation};
  }
  template <int i> Into<i> argument(Into<i>*, const Given& given) const {
    return {destination_of(edges_[i], meta_[i], given.pass)};
  }
  template <int i> In<i> argument(In<i>*, const Given& given) {
    saved_inputs_[i].unpack(Op::name, Op::args[i < static_cast<int>(std::size(Op::args)) ? i : 0]);
    return In<i>{give(saved_inputs_[i].tensor, given.own_saved)};
  }
  template <int k> Unchanged<k> argument(Unchanged<k>*, const Given&) const {
    const auto& [y, version] = saved_outputs_[k];
    return y.defined() && y.storage()->version() == version ? Unchanged<k>{y} : Unchanged<k>{};
  }
  template <int k> Out<k> argument(Out<k>*, const Given& given) {
    const Tensor& y = saved_outputs_[k].unpack(Op::name, "result");
    if (k > 0 || !context().create_graph) return Out<k>{give(saved_outputs_[k].tensor, given.own_saved)};
    Tensor attached = y.detach();  // in a recorded backward pass the result is attached to this node again
    attached.impl()->node = NodeRef(this);
    return Out<k>{attached};
  }

  Op op_;
  std::uint64_t wanted_ = 0;
  bool released_ = false;
  PerInput<NodeRef> edges_;
  PerInput<InputMeta> meta_;
  PerInput<SavedTensor> saved_inputs_;
  std::array<SavedTensor, outputs> saved_outputs_;
};

}  // namespace mantissa::autograd
