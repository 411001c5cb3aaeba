#include "jit/trace.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "amp/observe.h"
#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "core/formula_recorder.h"
#include "core/ops.h"
#include "core/pointwise.h"

namespace mantissa::jit {
namespace {

// Not an Error, to avoid that the shapes of the trial inputs are appended to it.
struct CannotFuse {
  std::string why;
};

double element(const View& x, std::int64_t i) {
  double v = 0;
  visit(x.dtype, [&]<class T> {
    v = static_cast<double>(static_cast<Compute<T>>(x.as<const T>()[x.strides.empty() ? 0 : i * x.strides[0]]));
  });
  return v;
}
bool is_uniform(const View& x) {
  for (std::int64_t i = 1; i < x.numel(); ++i)
    if (element(x, i) != element(x, 0)) return false;
  return x.numel() > 0;
}

// Maps bitwise formulas, which compute in integers, to equivalent logical ones in floating point.
int for_bools(int opcode) {
  using namespace pointwise;
  if (opcode == pointwise::opcode<BitwiseAnd>) return pointwise::opcode<LogicalAnd>;
  if (opcode == pointwise::opcode<BitwiseOr>) return pointwise::opcode<LogicalOr>;
  if (opcode == pointwise::opcode<BitwiseXor>) return pointwise::opcode<LogicalXor>;
  if (opcode == pointwise::opcode<BitwiseNot>) return pointwise::opcode<LogicalNot>;
  return opcode;
}

// Records the formulas of operators. Until constants are placed among the values, constant number k has the value index
// -2 - k.
class Recorder final : public pointwise::FormulaRecorder, public amp::Observer {
 public:
  explicit Recorder(int inputs) : Observer(true) {
    program.inputs = inputs;
    pointwise::formula_recorder = this;
  }
  ~Recorder() { pointwise::formula_recorder = nullptr; }

  void add_input(const Tensor& x, int number) { values_[x.view().data] = number; }
  // The value held by a tensor; -1 if none.
  int value_of(const View& x) const {
    const auto at = values_.find(x.data);
    return at == values_.end() ? -1 : at->second;
  }

  void formula(int opcode, const void* formula, std::size_t bytes, Dtype compute, const View& y,
               std::span<const View* const> x) override {
    if (!is_floating(compute)) {
      for (const View* v : x)
        if (v->dtype != boolean && !v->weak_scalar) throw CannotFuse{"it computes with integers"};
      opcode = for_bools(opcode);
    }
    FusedProgram::Instruction now;
    now.opcode = opcode;
    now.operands = static_cast<int>(x.size());
    bool all_constant = true;
    for (std::size_t k = 0; k < x.size(); ++k) {
      now.from[k] = operand(*x[k]);
      all_constant = all_constant && now.from[k] < 0;
    }
    if (all_constant) {  // e.g. in pow's gradient, which computes with the exponent
      ++noted_;
      values_[y.data] = constant(element(y, 0));
      return;
    }
    if (compute == f64) program.compute = f64;
    check(bytes <= FusedProgram::most_formula_bytes, "internal error: a formula of ", bytes, " bytes");
    std::memcpy(now.formula.data(), formula, bytes);
    values_[y.data] = add(now);
  }
  void copy(const View& y, const View& x) override {
    if (!is_floating(y.dtype) && y.dtype != boolean)
      throw CannotFuse{concat("it casts to ", y.dtype, "; results are floating or bool")};
    ++noted_;
    narrows = narrows || (is_floating(y.dtype) && is_floating(x.dtype) && size_of(y.dtype) < size_of(x.dtype));
    const bool truth = y.dtype == boolean && x.dtype != boolean;
    values_[y.data] =
        truth ? add(instruction<pointwise::Ne>(operand(x), constant(0))) : operand(x);  // not rounded in between
  }

  void fill(const View& y, double value) override { values_[y.data] = constant(value); }
  void add_in_place(const View& y, const View& x, double factor) override {
    int term = operand(x);
    if (factor != 1) term = add(instruction<pointwise::Mul>(term, constant(factor)));
    values_[y.data] = add(instruction<pointwise::Add>(operand(y), term));
  }
  void mul_in_place(const View& y, const View& x) override {
    values_[y.data] = add(instruction<pointwise::Mul>(operand(y), operand(x)));
  }

  // All following operations are linear in the gradient, so the sum may be deferred to the end, where the engine does
  // it.
  void sum_to(const View& y, const View& x) override { values_[y.data] = operand(x); }

  // Called for the function's own operators only: the engine's backward is not observed. There, the memory of an
  // unrecorded tensor may be reused by another; verify() would detect it.
  void begin(const amp::OperatorCall& call) override {
    op_ = call.op;
    noted_before_ = noted_;
  }
  void end(const Tensor& result) override {
    kept_.push_back(result);  // keeps its memory from being reused
    if (noted_ == noted_before_)
      throw CannotFuse{concat("it calls ", op_, ", which is not elementwise; call that outside and pass its result")};
  }

  FusedProgram program;
  std::vector<double> constants;
  bool in_backward = false;  // unknown tensors are then constants of a gradient rule
  bool narrows = false;      // the function casts to a narrower dtype somewhere

 private:
  int constant(double value) {
    constants.push_back(value);
    return -1 - static_cast<int>(constants.size());
  }
  int operand(const View& x) {
    if (x.weak_scalar) return constant(element(x, 0));
    const int known = value_of(x);
    if (known != -1) return known;
    if (in_backward && is_uniform(x)) return constant(element(x, 0));
    throw CannotFuse{concat("it calls ", op_,
                            " with a tensor that is neither an argument nor a C++ number; pass that as an argument")};
  }
  template <class F> static FusedProgram::Instruction instruction(int a, int b) {
    return {.opcode = pointwise::opcode<F>, .operands = 2, .from = {a, b, 0}};
  }
  // Returns the index of its value; constants are inserted later.
  int add(const FusedProgram::Instruction& now) {
    ++noted_;
    program.instructions.push_back(now);
    return program.inputs + static_cast<int>(program.instructions.size()) - 1;
  }

  std::unordered_map<const void*, int> values_;
  std::vector<Tensor> kept_;
  const char* op_ = "";
  std::int64_t noted_ = 0, noted_before_ = 0;
};

// The part of a program needed for the outputs in `wanted`.
TracedPart part_of(const FusedProgram& all, std::span<const int> wanted) {
  const int first = all.first_result();
  std::vector<char> needed(static_cast<std::size_t>(all.values()), 0);
  for (int v : wanted) needed[static_cast<std::size_t>(v)] = 1;
  for (int i = static_cast<int>(all.instructions.size()) - 1; i >= 0; --i) {
    const FusedProgram::Instruction& now = all.instructions[static_cast<std::size_t>(i)];
    for (int k = 0; k < now.operands && needed[static_cast<std::size_t>(first + i)]; ++k)
      needed[static_cast<std::size_t>(now.from[k])] = 1;
  }
  static std::atomic<std::uint64_t> programs{0};
  TracedPart part;
  part.program.id = ++programs;
  part.program.compute = all.compute;
  std::vector<int> number(needed.size(), -1);
  int next = 0;
  for (int v = 0; v < all.values(); ++v) {
    if (!needed[static_cast<std::size_t>(v)]) continue;
    number[static_cast<std::size_t>(v)] = next++;
    if (v < all.inputs) {
      part.arguments.push_back(v);
    } else if (v < first) {
      part.program.constants.push_back(all.constants[static_cast<std::size_t>(v - all.inputs)]);
    } else {
      FusedProgram::Instruction now = all.instructions[static_cast<std::size_t>(v - first)];
      for (int k = 0; k < now.operands; ++k) now.from[k] = number[static_cast<std::size_t>(now.from[k])];
      part.program.instructions.push_back(now);
    }
  }
  part.program.inputs = static_cast<int>(part.arguments.size());
  for (int v : wanted) part.program.outputs.push_back(number[static_cast<std::size_t>(v)]);
  return part;
}

// Distinct nonzero numbers from -3 to 3; for bool every third is true.
Tensor example(Dtype dtype, int which, std::int64_t n) {
  std::vector<float> numbers;
  for (std::int64_t i = 0; i < n; ++i) {
    const double fraction = 0.6180339887 * static_cast<double>(i + 1) + 0.377 * which;
    numbers.push_back(static_cast<float>(6 * (fraction - std::floor(fraction)) - 2.9999));
  }
  const Tensor x = from_data(numbers, {n});
  return dtype == boolean ? x > 1.0 : x.to(dtype);
}
std::vector<Tensor> examples(std::span<const Kind> kinds, std::int64_t n) {
  const NoGrad off;
  std::vector<Tensor> x;
  for (const Kind& k : kinds) {
    const Tensor all = example(k.dtype, static_cast<int>(x.size()), n);
    x.push_back(k.scalar ? all[0].clone() : all);
  }
  return x;
}

// Sets the thread's modes for tracing, and restores them.
class Modes {
 public:
  explicit Modes(Device device) : before_(context()) {
    Context& now = context();
    now.grad_enabled = true;
    now.create_graph = now.anomaly = now.inference = false;
    now.autocast.enabled[static_cast<int>(cpu.type)] = before_.autocast.enabled_on(device);  // traced on the CPU
    now.autocast.dtype[static_cast<int>(cpu.type)] = before_.autocast.dtype_on(device);
    now.autocast.cache = amp::CastCache::off;
  }
  ~Modes() { context() = before_; }
  Modes(const Modes&) = delete;
  Modes& operator=(const Modes&) = delete;

 private:
  Context before_;
};

void check_same(const char* name, const char* what, const Tensor& found, const Tensor& expected, bool narrows) {
  const NoGrad off;
  const Tensor f = found.to(f64), e = expected.to(f64);
  for (std::int64_t i = 0; i < f.numel(); ++i) {
    const double a = element(f.view(), i), b = element(e.view(), i);
    const bool same = a == b || (a != a && b != b) || std::abs(a - b) <= 1e-5 * (std::abs(a) + std::abs(b)) + 1e-12;
    check(same, name, ": jit::fuse found formulas that give ", a, " for ", what, " where the function gives ", b,
          narrows ? "; it casts to a narrower dtype, and nothing is rounded inside a fused function: cast before it or "
                    "after it"
                  : "; the function must compute every element alike, whatever the values and sizes");
  }
}
Tensor run_part(const TracedPart& part, std::span<const Tensor> arguments, Dtype result) {
  Dims sizes;
  for (const Tensor& x : arguments) sizes = broadcast(sizes, x.sizes());
  const Tensor y = empty(sizes, {.dtype = result});
  std::vector<View> views;
  for (int i : part.arguments) views.push_back(arguments[static_cast<std::size_t>(i)].view());
  std::vector<const View*> inputs;
  for (const View& v : views) inputs.push_back(&v);
  const View out = y.view();
  kernels::fused(cpu, part.program, std::span(&out, 1), inputs);
  return y;
}

// Compares the trace with the function on more and different inputs: it may depend on values or sizes.
void verify(const char* name, const ElementwiseFunction& function, const Trace& t, std::span<const Kind> kinds,
            bool narrows) {
  std::vector<Kind> wide;
  for (const Kind& k : kinds) wide.push_back({k.dtype == boolean ? boolean : t.forward.program.compute, k.scalar});
  std::vector<Tensor> x = examples(wide, 67);
  context().autocast = AutocastState{};
  for (Tensor& v : x)
    if (v.is_floating()) v.requires_grad_();
  const Tensor y = function(x);
  check_same(name, "the result", run_part(t.forward, x, y.dtype()), y, narrows);
  if (!y.requires_grad()) return;
  const Tensor g = example(y.dtype(), t.arguments, 67);
  for (int i = 0; i < t.arguments; ++i) {
    const Tensor& argument = x[static_cast<std::size_t>(i)];
    if (!argument.requires_grad()) continue;
    const Tensor expected =
        grad(std::vector{y}, std::vector{argument}, std::vector{g}, {.retain_graph = true, .allow_unused = true})[0];
    if (t.backward.outputs[static_cast<std::size_t>(i)] == -1) {
      check(!expected.defined(), "internal error: jit::fuse lost a gradient");
      continue;
    }
    std::vector<Tensor> arguments = x;
    arguments.push_back(g);
    const Tensor found = run_part(t.gradients(std::span(&i, 1)), arguments, argument.dtype());
    check_same(name, "a gradient", argument.dim() == 0 ? sum(found) : found, expected, narrows);
  }
}

}  // namespace

TracedPart Trace::gradients(std::span<const int> wanted) const {
  std::vector<int> values;
  for (int i : wanted) values.push_back(backward.outputs[static_cast<std::size_t>(i)]);
  return part_of(backward, values);
}

Trace trace(const char* name, const ElementwiseFunction& function, std::span<const Kind> kinds, Device device) {
  const Modes modes(device);
  const int n = static_cast<int>(kinds.size());
  const std::vector<Tensor> leaves = examples(kinds, 5);
  const Tensor weights = example(f32, n, 5);
  Trace t;
  t.arguments = n;
  FusedProgram all;
  std::vector<int> wanted;
  bool narrows = false;
  try {
    Recorder recorder(n + 1);
    std::vector<Tensor> x;
    for (int i = 0; i < n; ++i) {
      x.push_back(leaves[static_cast<std::size_t>(i)]);
      if (x.back().is_floating()) x.back().requires_grad_();
      recorder.add_input(x.back(), i);
      if (x.back().dtype() == f64) recorder.program.compute = f64;
    }
    const Tensor y = function(x);
    check(y.defined(), "the function gave an undefined tensor");
    check(y.sizes() == weights.sizes(), "the result has the shape ", y.sizes());
    t.result = y.dtype();
    wanted.push_back(recorder.value_of(y.view()));
    check(wanted[0] != -1, "the function gives a tensor that does not depend on its arguments");
    std::vector<Tensor> gradients(static_cast<std::size_t>(n));
    if (y.requires_grad()) {
      recorder.in_backward = true;
      context().autocast.enabled[0] = context().autocast.enabled[1] = false;
      const NoGrad off;
      recorder.add_input(weights, n);
      const Tensor g = weights.to(y.dtype());
      std::vector<Tensor> differentiable;
      for (const Tensor& v : x)
        if (v.requires_grad()) differentiable.push_back(v);
      const std::vector<Tensor> found = grad(std::vector{y}, differentiable, std::vector{g}, {.allow_unused = true});
      for (std::size_t i = 0, k = 0; i < x.size(); ++i)
        if (x[i].requires_grad()) gradients[i] = found[k++];
    }
    for (const Tensor& d : gradients) {
      const View v = d.defined() ? d.view() : View{};
      int value = d.defined() ? recorder.value_of(v) : -1;
      if (d.defined() && value == -1) {  // a constant, such as 0 for a step function
        check(is_uniform(v), "internal error: a gradient that jit::fuse did not see");
        recorder.constants.push_back(element(v, 0));
        value = -1 - static_cast<int>(recorder.constants.size());
      }
      wanted.push_back(value);
    }
    narrows = recorder.narrows;
    all = std::move(recorder.program);
    all.constants = std::move(recorder.constants);
  } catch (const CannotFuse& e) {
    fail(name, ": jit::fuse takes functions that compute every element by itself, and ", e.why);
  } catch (Error& e) {
    e.add_outer_context(concat(name, ": tried by jit::fuse on tensors of 5 elements"));
    throw;
  }
  // The number of constants is known now: shift the results behind them.
  const int constants = static_cast<int>(all.constants.size());
  const auto renumber = [&](int v) { return v <= -2 ? all.inputs + (-2 - v) : v < all.inputs ? v : v + constants; };
  for (FusedProgram::Instruction& i : all.instructions)
    for (int k = 0; k < i.operands; ++k) i.from[k] = renumber(i.from[k]);
  for (int& v : wanted) v = renumber(v);
  t.forward = part_of(all, std::span(wanted).first(1));
  t.backward = std::move(all);
  t.backward.outputs.assign(wanted.begin() + 1, wanted.end());
  verify(name, function, t, kinds, narrows);
  return t;
}

}  // namespace mantissa::jit
