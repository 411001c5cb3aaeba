// Printing in PyTorch's format: columns of equal width, four digits, scientific notation if the range requires it, the
// middle of long tensors left out.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <ostream>

#include "core/tensor.h"

namespace mantissa {
namespace {

constexpr std::int64_t summarise_above = 1000, edge_items = 3, line_width = 80;

// An element: integers of 64 bits are not all numbers of f64.
struct Number {
  double real;
  std::int64_t whole;
};

// The number format, chosen once for the whole tensor.
class Format {
 public:
  Format(const std::vector<Number>& shown, Dtype dtype) : dtype_(dtype) {
    double largest = 0, smallest = INFINITY;
    integral_ = true;
    for (const auto& [v, whole] : shown) {
      if (!std::isfinite(v)) continue;
      integral_ = integral_ && v == std::ceil(v);
      if (v != 0) {
        largest = std::max(largest, std::abs(v));
        smallest = std::min(smallest, std::abs(v));
      }
    }
    scientific_ = largest > 0 && (largest / smallest > 1000 || largest > 1e8 || (!integral_ && smallest < 1e-4));
    for (const Number& v : shown) width_ = std::max(width_, text(v).size());
  }
  std::string padded(const Number& v) const { return fmt::format("{:>{}}", text(v), width_); }
  std::size_t width() const { return width_; }

 private:
  std::string text(const Number& n) const {
    if (dtype_ == boolean) return n.whole != 0 ? "True" : "False";
    if (!is_floating(dtype_)) return fmt::format("{}", n.whole);
    const double v = n.real;
    if (std::isnan(v)) return "nan";
    if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
    if (scientific_) return fmt::format("{:.4e}", v);
    return integral_ ? fmt::format("{:.0f}.", v) : fmt::format("{:.4f}", v);
  }
  Dtype dtype_;
  bool integral_ = true, scientific_ = false;
  std::size_t width_ = 0;
};

class Printer {
 public:
  explicit Printer(const Tensor& t) : t_(t), host_(t.detach().to(cpu)), summarise_(t.numel() > summarise_above) {
    std::vector<Number> shown;
    collect(0, 0, shown);
    format_ = std::make_unique<Format>(shown, t.dtype());
  }
  std::string run() {
    std::string out = "tensor(";
    if (t_.numel() == 0) out += "[]";
    else rows(out, 0, 0, 7);
    if (t_.numel() == 0 && t_.dim() != 1) out += concat(", size=", t_.sizes());
    if (t_.dtype() != f32 && t_.dtype() != i64 && t_.dtype() != boolean) out += concat(", dtype=", t_.dtype());
    if (t_.device().is_cuda()) out += concat(", device='", t_.device(), "'");
    if (t_.requires_grad()) out += t_.is_leaf() ? ", requires_grad=True" : ", grad_fn=<...>";
    return out + ")";
  }

 private:
  // Calls f(index, gap) for the indices of dimension d that are printed; gap: indices were skipped before this one.
  template <class F> void for_shown(int d, F&& f) const {
    const std::int64_t n = t_.sizes()[d];
    const bool cut = summarise_ && n > 2 * edge_items;
    for (std::int64_t i = 0; i < n; ++i) {
      if (cut && i == edge_items) i = n - edge_items;
      f(i, cut && i == n - edge_items);
    }
  }
  Number value(std::int64_t offset) const {
    return visit(t_.dtype(), [&]<class T> {
      const T v = static_cast<const T*>(host_.raw_data())[offset];
      if constexpr (std::is_integral_v<T>) return Number{static_cast<double>(v), static_cast<std::int64_t>(v)};
      else return Number{static_cast<double>(v), 0};
    });
  }
  void collect(int d, std::int64_t offset, std::vector<Number>& out) const {
    if (t_.numel() == 0) return;
    if (d == t_.dim()) return out.push_back(value(offset));
    for_shown(d, [&](std::int64_t i, bool) { collect(d + 1, offset + i * host_.strides()[d], out); });
  }
  void rows(std::string& out, int d, std::int64_t offset, int indent) const {
    if (d == t_.dim()) {
      out += format_->padded(value(offset));
      return;
    }
    const bool last = d + 1 == t_.dim();
    const std::int64_t per_line =
        std::max<std::int64_t>(1, (line_width - indent) / (static_cast<std::int64_t>(format_->width()) + 2));
    const std::string row_break = std::string(last ? 1 : static_cast<std::size_t>(t_.dim() - d - 1), '\n') +
                                  std::string(static_cast<std::size_t>(indent + 1), ' ');
    out += '[';
    std::int64_t printed = 0;
    for_shown(d, [&](std::int64_t i, bool gap) {
      if (printed > 0) out += last ? (printed % per_line == 0 ? "," + row_break : ", ") : "," + row_break;
      if (gap) {
        out += last ? " ...," : "...,";
        out += last ? (++printed % per_line == 0 ? row_break : " ") : row_break;
      }
      rows(out, d + 1, offset + i * host_.strides()[d], indent + 1);
      ++printed;
    });
    out += ']';
  }

  const Tensor& t_;
  Tensor host_;
  bool summarise_;
  std::unique_ptr<Format> format_;
};

}  // namespace

std::string to_string(const Tensor& t) { return t.defined() ? Printer(t).run() : "tensor(undefined)"; }
std::ostream& operator<<(std::ostream& out, const Tensor& t) { return out << to_string(t); }

}  // namespace mantissa
