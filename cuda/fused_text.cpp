#include "cuda/fused_text.h"

#include <array>
#include <bit>
#include <string_view>

#include "core/pointwise.h"

namespace mantissa::cuda_backend {
namespace {

// A formula's type name in C++, and the number of parameters at its end.
struct FormulaText {
  std::string_view type;
  std::size_t bytes = 0, parameters = 0;
  int operands = 0;
};
template <class T> constexpr std::string_view type_text() {
  constexpr std::string_view all = __PRETTY_FUNCTION__, before = "T = ";
  constexpr std::size_t begin = all.find(before) + before.size();
  return all.substr(begin, all.find_first_of(";]", begin) - begin);
}
template <class F> constexpr std::size_t parameters_of = sizeof(F) < sizeof(double) ? 0 : sizeof(F) / sizeof(double);
template <class F> constexpr std::size_t parameters_of<pointwise::GradOf<F>> = parameters_of<F>;
template <class F>
constexpr int operands_of_formula = [] {
  if constexpr (!F::floats) return 0;
  else if constexpr (requires(const F f, float t) { f.template f<float>(t); }) return 1;
  else if constexpr (requires(const F f, float t) { f.template f<float>(t, t); }) return 2;
  else return 3;
}();
template <class F> constexpr FormulaText text_of_formula() {
  static_assert(sizeof(F) <= FusedProgram::most_formula_bytes);
  return {type_text<F>(), sizeof(F), parameters_of<F>, operands_of_formula<F>};
}
template <class... F> constexpr auto make_table(List<F...>) { return std::array{text_of_formula<F>()...}; }
constexpr auto table = make_table(pointwise::PointwiseFormulas{});

std::string number(double x) { return concat("number(", std::bit_cast<std::uint64_t>(x), "ull)"); }

}  // namespace

int operands_of(int opcode) { return table[static_cast<std::size_t>(opcode)].operands; }

std::string text_of(const FusedProgram& p) {
  const int first = p.first_result();
  const auto value = [&](int v) {
    return v < p.inputs ? concat("x[", v, "]")
           : v < first  ? concat("static_cast<C>(", number(p.constants[static_cast<std::size_t>(v - p.inputs)]), ")")
                        : concat("v", v);
  };
  std::string text = concat(
      "#include \"cuda/fused.cuh\"\n"
      "using namespace mantissa;\nusing namespace mantissa::cuda_backend;\n"
      "struct Program {\n"
      "  static constexpr int inputs = ",
      p.inputs, ", outputs = ", static_cast<int>(p.outputs.size()),
      ";\n"
      "  template <class C> static __device__ void run(const C* x, C* y) {\n");
  for (std::size_t i = 0; i < p.instructions.size(); ++i) {
    const FusedProgram::Instruction& now = p.instructions[i];
    const FormulaText& f = table[static_cast<std::size_t>(now.opcode)];
    text += concat("    const C v", first + static_cast<int>(i), " = formula<", std::string(f.type), ">(");
    for (std::size_t k = 0; k < f.parameters; ++k) {
      text += concat(k > 0 ? ", " : "", number(now.formula[f.bytes / sizeof(double) - f.parameters + k]));
    }
    text += ").template f<C>(";
    for (int k = 0; k < now.operands; ++k) text += concat(k > 0 ? ", " : "", value(now.from[k]));
    text += ");\n";
  }
  for (std::size_t k = 0; k < p.outputs.size(); ++k)
    text += concat("    y[", static_cast<int>(k), "] = ", value(p.outputs[k]), ";\n");
  const std::string type = p.compute == f64 ? "double" : "float";
  const std::string walk = concat("(const Walk<", static_cast<int>(p.outputs.size()) + p.inputs - 1, "> walk)");
  text += "  }\n};\n";
  text += concat("extern \"C\" __global__ void fused_packs", walk, " { mantissa::cuda_backend::fused_packs<Program, ",
                 type, ">(walk); }\n");
  text += concat("extern \"C\" __global__ void fused_elements", walk,
                 " { mantissa::cuda_backend::fused_elements<Program, ", type, ">(walk); }\n");
  return text;
}

}  // namespace mantissa::cuda_backend
