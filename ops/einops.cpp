// Patterns are parsed into groups of names, one group for each dimension. Then: split the dimensions of x into its
// names, reduce or repeat, permute, and merge the groups of the right side.
#include "core/einops.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <vector>

#include "core/ops.h"

namespace mantissa {
namespace {

using Names = std::vector<std::string>;
using Side = std::vector<Names>;  // the names that make up each dimension, the slowest first; none: a dimension of 1

constexpr const char *ellipsis = "...", *merged_ellipsis = "(...)";

bool has(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}
bool is_number(const std::string& name) { return std::isdigit(static_cast<unsigned char>(name[0])) != 0; }
// As it stands in the pattern.
std::string shown(const std::string& name) { return name.substr(0, name[0] == '.' ? 3 : name.find(' ')); }
bool is_part_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
Names all_names(const Side& side) {
  Names all;
  for (const Names& dimension : side) all.insert(all.end(), dimension.begin(), dimension.end());
  return all;
}

struct Pattern {
  Pattern(const char* op, std::string_view pattern, const Tensor& x, NamedSizes given);

  template <class... Text> void require(bool condition, const Text&... text) const {
    check(condition, op, ": ", text..., ", in \"", text_, "\"");
  }
  std::int64_t size(const std::string& name) const { return sizes.find(name)->second; }

  const char* op;
  Side left, right;
  std::map<std::string, std::int64_t> sizes;  // of every name on the left, and of others that were given

 private:
  Side parse(std::string_view side);
  void expand_ellipsis(int dimensions);
  void derive_sizes(const Tensor& x);

  std::string_view text_;
  int numbers_ = 0;
};

Pattern::Pattern(const char* o, std::string_view pattern, const Tensor& x, NamedSizes given) : op(o), text_(pattern) {
  const std::size_t arrow = pattern.find("->");
  require(arrow != pattern.npos && pattern.find("->", arrow + 2) == pattern.npos, "a pattern has one ->");
  for (const auto& [name, size] : given) {
    require(size > 0, "size ", size, " of ", name);
    require(sizes.emplace(name, size).second, name, " is given twice");
  }
  left = parse(pattern.substr(0, arrow));
  right = parse(pattern.substr(arrow + 2));
  for (const auto& [name, size] : given) {
    const std::string n(name);
    require(has(all_names(left), n) || has(all_names(right), n), "a size of ", name, " is given, which does not occur");
  }
  expand_ellipsis(x.dim());
  derive_sizes(x);
}

// A number gets a name that no other has: "2 0", "2 1", ...
Side Pattern::parse(std::string_view side) {
  Side dimensions;
  bool inside = false;
  for (std::size_t i = 0; i < side.size();) {
    const char c = side[i];
    if (c == ' ') {
      ++i;
      continue;
    }
    if (c == '(' || c == ')') {
      require(inside == (c == ')'), c == '(' ? "( within ( )" : ") without (");
      inside = c == '(';
      if (inside) dimensions.emplace_back();
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < side.size() && (c == '.' ? side[end] == '.' : is_part_of_name(side[end]))) ++end;
    std::string name(side.substr(i, std::max<std::size_t>(end - i, 1)));
    require(end > i && (c != '.' || name == "..."), "unexpected ", name);
    if (!inside) dimensions.emplace_back();
    i = end;
    if (name == "1") continue;
    if (name == "..." && inside) name = merged_ellipsis;
    if (is_number(name)) {
      require(name.size() < 10 && std::all_of(name.begin(), name.end(), [](char d) { return d >= '0' && d <= '9'; }) &&
                  name[0] != '0',
              "unexpected ", name);
      const std::int64_t size = std::stoll(name);
      sizes[name += concat(" ", numbers_++)] = size;
    }
    require(!has(all_names(dimensions), name), shown(name), " occurs twice on a side");
    dimensions.back().push_back(std::move(name));
  }
  require(!inside, "( without )");
  return dimensions;
}

// "..." on the left becomes the names "...0", "...1", ... of as many dimensions as the others leave.
void Pattern::expand_ellipsis(int dimensions) {
  const auto dots = std::find(left.begin(), left.end(), Names{ellipsis});
  const Names on_right = all_names(right);
  require(!has(all_names(left), merged_ellipsis), "... within ( ) on the left");
  const bool apart_on_right = has(on_right, ellipsis), merged_on_right = has(on_right, merged_ellipsis);
  require(dots != left.end() || !(apart_on_right || merged_on_right), "... on the right alone");
  require(!(apart_on_right && merged_on_right), "... occurs twice on a side");
  const int others = static_cast<int>(left.size()) - (dots != left.end() ? 1 : 0);
  require(dots != left.end() ? others <= dimensions : others == dimensions, "the left side has ", others,
          " dimensions, the tensor ", dimensions);
  if (dots == left.end()) return;
  Names expanded;
  Side apart;
  for (int d = 0; d < dimensions - others; ++d) {
    expanded.push_back(concat("...", d));
    apart.push_back({expanded.back()});
  }
  left.insert(left.erase(dots), apart.begin(), apart.end());
  for (std::size_t i = 0; i < right.size(); ++i) {
    const auto inner = std::find(right[i].begin(), right[i].end(), merged_ellipsis);
    if (inner != right[i].end()) {
      right[i].insert(right[i].erase(inner), expanded.begin(), expanded.end());
    } else if (has(right[i], ellipsis)) {
      right.insert(right.erase(right.begin() + static_cast<std::ptrdiff_t>(i)), apart.begin(), apart.end());
      return;
    }
  }
}

void Pattern::derive_sizes(const Tensor& x) {
  for (std::size_t d = 0; d < left.size(); ++d) {
    const std::int64_t whole = x.size(static_cast<std::int64_t>(d));
    std::int64_t known = 1;
    const std::string* unknown = nullptr;
    for (const std::string& name : left[d]) {
      if (const auto given = sizes.find(name); given != sizes.end()) {
        const bool overflows = __builtin_mul_overflow(known, given->second, &known);
        require(!overflows, "the sizes within dimension ", d, " are too large");
      } else {
        require(!unknown, "sizes of both ", unknown ? *unknown : name, " and ", name, " are missing");
        unknown = &name;
      }
    }
    require(unknown ? whole % known == 0 : whole == known, "dimension ", d, " of ", x, " is not ",
            unknown ? "a multiple of " : "", known);
    if (unknown) sizes[*unknown] = whole / known;
  }
}

Tensor split(const Pattern& p, const Tensor& x) {
  Dims apart;
  for (const std::string& name : all_names(p.left)) apart.push_back(p.size(name));
  return reshape(x, apart);
}
// `x` has the dimensions `names`.
Tensor ordered_and_merged(const Pattern& p, const Tensor& x, const Names& names) {
  Dims order, sizes;
  for (const Names& dimension : p.right) {
    std::int64_t size = 1;
    for (const std::string& name : dimension) {
      order.push_back(std::find(names.begin(), names.end(), name) - names.begin());
      size *= p.size(name);
    }
    sizes.push_back(size);
  }
  return reshape(permute(x, order), sizes);
}
void require_names_of(const Pattern& p, const Side& side, const Side& other, const char* where) {
  const Names names = all_names(other);
  for (const std::string& name : all_names(side))
    p.require(has(names, name), shown(name), " is on the ", where, " side alone");
}

Tensor reduced(const Tensor& x, const Dims& dims, std::string_view how) {
  if (how == "sum") return sum(x, dims);
  if (how == "mean") return mean(x, dims);
  if (how == "prod") return prod(x, dims);
  if (how == "min") return amin(x, dims);
  if (how == "max") return amax(x, dims);
  if (how == "any") return any(x, dims);
  if (how == "all") return all(x, dims);
  fail("reduce: \"", how, "\" is none of sum, mean, prod, min, max, any, all");
}

}  // namespace

Tensor rearrange(const Tensor& x, std::string_view pattern, NamedSizes sizes) {
  const Pattern p("rearrange", pattern, x, sizes);
  require_names_of(p, p.left, p.right, "left");
  require_names_of(p, p.right, p.left, "right");
  return ordered_and_merged(p, split(p, x), all_names(p.left));
}

Tensor reduce(const Tensor& x, std::string_view pattern, std::string_view how, NamedSizes sizes) {
  const Pattern p("reduce", pattern, x, sizes);
  require_names_of(p, p.right, p.left, "right");
  const Names names = all_names(p.left), kept = all_names(p.right);
  Names left;
  Dims dims;
  for (std::size_t d = 0; d < names.size(); ++d) {
    if (has(kept, names[d])) left.push_back(names[d]);
    else dims.push_back(static_cast<std::int64_t>(d));
  }
  const Tensor apart = split(p, x);
  return ordered_and_merged(p, dims.empty() ? apart : reduced(apart, dims, how), left);
}

Tensor repeat(const Tensor& x, std::string_view pattern, NamedSizes sizes) {
  const Pattern p("repeat", pattern, x, sizes);
  require_names_of(p, p.left, p.right, "left");
  Names names = all_names(p.left);
  Tensor apart = split(p, x);
  Dims expanded = apart.sizes();
  for (const std::string& name : all_names(p.right)) {
    if (has(names, name)) continue;
    p.require(p.sizes.contains(name), "the size of ", name, " is missing");
    names.push_back(name);
    apart = unsqueeze(apart, -1);
    expanded.push_back(p.size(name));
  }
  return ordered_and_merged(p, expand(apart, expanded), names);
}

}  // namespace mantissa
