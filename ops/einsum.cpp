// einsum by PyTorch's rules. Operands are contracted from left to right, two at a time: their labels are sorted into
// batch, left, right and contracted ones; the rest is permute, reshape, matmul.
#include <algorithm>
#include <string>

#include "core/ops.h"
#include "ops/compose.h"

namespace mantissa {
namespace {

// Labels are letters; the dimensions under an ellipsis are numbered 1, 2, ... from the right.
using Labels = std::string;
bool has(const Labels& labels, char c) { return labels.find(c) != Labels::npos; }
std::string shown(char c) { return c < 32 ? "..." : std::string(1, c); }

struct Operand {
  Tensor x;
  Labels labels;  // one per dimension
};

// "ij...k" for a tensor of `rank` dimensions; an output's ellipsis stands for `rank - letters` of them.
Labels expand_labels(const std::string& text, int rank, const std::string& whose) {
  Labels labels;
  const int letters = static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) { return c != '.'; }));
  const std::size_t dots = text.find('.');
  check(dots == text.npos || (text.compare(dots, 3, "...") == 0 && std::count(text.begin(), text.end(), '.') == 3),
        "einsum: ", whose, " \"", text, "\" may hold dots only as one ellipsis");
  check(dots == text.npos ? letters == rank : letters <= rank, "einsum: ", whose, " \"", text, "\" names ", letters,
        " dimensions of ", rank);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '.') {
      for (int d = rank - letters; d > 0; --d) labels += static_cast<char>(d);
      i += 2;
    } else {
      check((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'), "einsum: \"", std::string(1, c), "\" in \"", text,
            "\" is not a letter");
      labels += c;
    }
  }
  return labels;
}

// A repeated label takes the diagonal.
void take_diagonals(Operand& o) {
  for (std::size_t i = 0; i < o.labels.size(); ++i) {
    const std::size_t j = o.labels.find(o.labels[i], i + 1);
    if (j == Labels::npos) continue;
    const char c = o.labels[i];
    check(o.x.size(static_cast<int>(i)) == o.x.size(static_cast<int>(j)), "einsum: label ", shown(c),
          " stands for sizes ", o.x.size(static_cast<int>(i)), " and ", o.x.size(static_cast<int>(j)),
          " of one operand");
    o.x = diagonal(o.x, 0, static_cast<int>(i), static_cast<int>(j));
    o.labels.erase(j, 1);
    o.labels.erase(i, 1);
    o.labels += c;
    i = static_cast<std::size_t>(-1);  // positions have changed: start over
  }
}

// Sums over the labels that `keep` rejects.
template <class Keep> void sum_out(Operand& o, Keep&& keep) {
  Dims dims;
  Labels left;
  for (std::size_t i = 0; i < o.labels.size(); ++i) {
    if (keep(o.labels[i])) left += o.labels[i];
    else dims.push_back(static_cast<int>(i));
  }
  if (!dims.empty()) o.x = cast(sum(o.x, dims), o.x.dtype());
  o.labels = left;
}
Tensor permuted(const Operand& o, const Labels& order) {
  Dims dims;
  for (const char c : order) dims.push_back(static_cast<std::int64_t>(o.labels.find(c)));
  return permute(o.x, dims);
}
std::int64_t size_of_label(const Operand& o, char c) { return o.x.size(static_cast<std::int64_t>(o.labels.find(c))); }

// The product of two operands, summed over the labels that both have and that `needed` rejects.
template <class Needed> Operand contract(Operand a, Operand b, Needed&& needed) {
  sum_out(a, [&](char c) { return has(b.labels, c) || needed(c); });
  sum_out(b, [&](char c) { return has(a.labels, c) || needed(c); });
  Labels batch, left, inner, right;
  for (const char c : a.labels) (!has(b.labels, c) ? left : needed(c) ? batch : inner) += c;
  for (const char c : b.labels) if (!has(a.labels, c)) right += c;
  Dims shape;
  std::int64_t sizes[4] = {1, 1, 1, 1};
  const Labels* groups[] = {&batch, &left, &inner, &right};
  for (const int k : {0, 1, 2, 3}) {
    for (const char c : *groups[k]) {
      const std::int64_t n = size_of_label(k == 3 ? b : a, c);
      sizes[k] *= n;
      if (k != 2) shape.push_back(n);
    }
  }
  const Tensor x = reshape(permuted(a, batch + left + inner), {sizes[0], sizes[1], sizes[2]});
  const Tensor y = reshape(permuted(b, batch + inner + right), {sizes[0], sizes[2], sizes[3]});
  const Tensor product = x.is_floating() ? matmul(contiguous(x), contiguous(y))
                                         : cast(sum(unsqueeze(x, 3) * unsqueeze(y, 1), {2}), x.dtype());
  return {reshape(product, shape), batch + left + right};
}

// Expands dimensions of size 1 where another operand has more.
void align_sizes(std::vector<Operand>& operands) {
  std::int64_t size[128];
  for (auto& s : size) s = 1;
  for (const Operand& o : operands) {
    for (const char c : o.labels) {
      const std::int64_t n = size_of_label(o, c);
      std::int64_t& s = size[static_cast<int>(c)];
      check(n == s || n == 1 || s == 1, "einsum: label ", shown(c), " stands for sizes ", s, " and ", n);
      if (s == 1) s = n;
    }
  }
  for (Operand& o : operands) {
    Dims shape;
    for (const char c : o.labels) shape.push_back(size[static_cast<int>(c)]);
    if (!(shape == o.x.sizes())) o.x = expand(o.x, shape);
  }
}

// The implicit output without "->": the ellipsis, then every letter that occurs once, in alphabetical order.
Labels implied_output(const std::string& inputs, int ellipsis) {
  Labels labels;
  for (int d = ellipsis; d > 0; --d) labels += static_cast<char>(d);
  for (char c = 'A'; c <= 'z'; ++c) if (std::count(inputs.begin(), inputs.end(), c) == 1) labels += c;
  return labels;
}

}  // namespace

Tensor einsum(std::string_view equation, std::span<const Tensor> tensors) {
  std::string text;
  for (const char c : equation) if (c != ' ') text += c;
  const std::size_t arrow = text.find("->");
  const std::string inputs = text.substr(0, arrow);
  const auto count = static_cast<std::int64_t>(std::count(inputs.begin(), inputs.end(), ',') + 1);
  check(count == static_cast<std::int64_t>(tensors.size()), "einsum: \"", text, "\" is about ", count, " tensors, got ",
        static_cast<std::int64_t>(tensors.size()));

  std::vector<const Tensor*> given;
  for (const Tensor& t : tensors) given.push_back(&t);
  std::vector<Tensor> casts(tensors.size());
  const bool autocast = context().autocast.any();
  if (autocast) amp::cast_inputs("einsum", CastPolicy::lower, given, casts);
  const amp::OutsideAutocast inside;
  const Dtype dtype = given[0]->dtype();
  if (given.size() > 2 && is_half(dtype)) {  // several products, rounded once at the end
    for (std::size_t i = 0; i < given.size(); ++i) {
      casts[i] = cast(*given[i], f32);
      given[i] = &casts[i];
    }
  }

  std::vector<Operand> operands;
  int ellipsis = 0;
  std::size_t begin = 0;
  for (const Tensor* t : given) {
    const std::size_t end = std::min(inputs.find(',', begin), inputs.size());
    Operand o{*t, expand_labels(inputs.substr(begin, end - begin), t->dim(), "operand")};
    for (const char c : o.labels) if (c < 32) ellipsis = std::max(ellipsis, static_cast<int>(c));
    take_diagonals(o);
    operands.push_back(std::move(o));
    begin = end + 1;
  }
  align_sizes(operands);

  Labels output = implied_output(inputs, ellipsis);
  if (arrow != text.npos) {
    const std::string out = text.substr(arrow + 2);
    const auto letters = static_cast<int>(std::count_if(out.begin(), out.end(), [](char c) { return c != '.'; }));
    output = expand_labels(out, letters + (has(out, '.') ? ellipsis : 0), "output");
  }
  for (std::size_t i = 0; i < output.size(); ++i) {
    const bool known =
        std::any_of(operands.begin(), operands.end(), [&](const Operand& o) { return has(o.labels, output[i]); });
    check(known, "einsum: output label ", shown(output[i]), " is in no operand");
    check(output.find(output[i], i + 1) == Labels::npos, "einsum: output label ", shown(output[i]), " appears twice");
  }

  Operand result = operands[0];
  for (std::size_t k = 1; k < operands.size(); ++k) {
    result = contract(result, operands[k], [&](char c) {
      bool later = has(output, c);
      for (std::size_t i = k + 1; i < operands.size(); ++i) later = later || has(operands[i].labels, c);
      return later;
    });
  }
  sum_out(result, [&](char c) { return has(output, c); });
  const Tensor y = cast(permuted(result, output), dtype);
  if (autocast) amp::note_result(y);
  return y;
}

namespace {

void einsum_samples(Samples& s) {
  const auto with = [&](const char* equation, std::initializer_list<Dims> shapes) {
    Tensors x;
    for (const Dims& shape : shapes) x.push_back(s.randn(shape));
    s.call(x, [equation](const Tensors& in) { return einsum(equation, std::span<const Tensor>(in)); });
  };
  with("ij,jk->ik", {{3, 4}, {4, 5}});
  with("bij,bjk", {{2, 3, 4}, {2, 4, 5}});
  with("bhqd, bhkd -> bhqk", {{2, 3, 4, 5}, {2, 3, 2, 5}});
  with("ii->i", {{4, 4}});
  with("ii", {{4, 4}});
  with("ij->ji", {{3, 4}});
  with("i,j,k->kij", {{3}, {4}, {2}});
  with("...ij,...jk->...ik", {{2, 3, 4}, {5, 2, 4, 3}});
  with("bn,anm,bm->ba", {{2, 5}, {3, 5, 4}, {2, 4}});
  with("ij,ij->", {{3, 4}, {3, 4}});
  with("ij,i", {{3, 4}, {1}});
  const auto error = [&](const char* equation, std::initializer_list<Dims> shapes, const char* fragment) {
    Tensors x;
    for (const Dims& shape : shapes) x.push_back(s.randn(shape));
    s.error_call(
        x, [equation](const Tensors& in) { return einsum(equation, std::span<const Tensor>(in)); }, fragment);
  };
  error("ij,jk", {{3, 4}}, "is about 2 tensors, got 1");
  error("ij,jk", {{3, 4}, {3, 4}}, "label j stands for sizes 4 and 3");
  error("ijk", {{3, 4}}, "names 3 dimensions of 2");
  error("i->j", {{3}}, "output label j is in no operand");
  error("i->ii", {{3}}, "output label i appears twice");
  error("i1", {{3, 3}}, "is not a letter");
  error("i.j", {{3, 3}}, "only as one ellipsis");
}

}  // namespace
MANTISSA_COMPOSITE(einsum, einsum_samples, .autocast = CastPolicy::lower, .has_policy = true)

}  // namespace mantissa
