#include "data/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string_view>

#include "io/file.h"

namespace mantissa::data {
namespace {

using io::fail_format;
using io::quote;

constexpr std::int64_t most_bytes = std::int64_t{1} << 31;

// Single-pass parser; `line`: the current line, for messages.
class Parser {
 public:
  Parser(const std::string& path, std::string_view text, char separator)
      : path_(path), text_(text), separator_(separator) {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);
  }
  // The next row, skipping empty lines; false at the end.
  bool next(std::vector<std::string>& row) {
    row.clear();
    while (at_ < text_.size() && line_break()) {}
    if (at_ >= text_.size()) return false;
    begin_ = line_;
    do row.push_back(field());
    while (at_ < text_.size() && text_[at_] == separator_ && ++at_);
    if (at_ < text_.size() && !line_break()) mistake("a quoted field is followed by more text");
    return true;
  }
  std::int64_t line() const { return begin_; }

 private:
  bool line_break() {
    if (text_[at_] == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') ++at_;
    if (text_[at_] != '\n') return false;
    ++at_;
    ++line_;
    return true;
  }
  std::string field() {
    if (at_ < text_.size() && text_[at_] == '"') return quoted();
    const std::size_t first = at_;
    while (at_ < text_.size() && text_[at_] != separator_ && text_[at_] != '\n') {
      if (text_[at_] == '"') mistake("a quote inside a field that does not begin with one");
      if (text_[at_] == '\0') mistake("a NUL byte: this is not text");
      ++at_;
    }
    std::size_t last = at_;
    if (at_ < text_.size() && text_[at_] == '\n' && last > first && text_[last - 1] == '\r') last = --at_;
    return std::string(text_.substr(first, last - first));
  }
  std::string quoted() {
    std::string s;
    const std::int64_t opened = line_;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"' && !(at_ + 1 < text_.size() && text_[at_ + 1] == '"')) {
        ++at_;
        return s;
      }
      if (text_[at_] == '"') ++at_;
      if (text_[at_] == '\n') ++line_;
      s += text_[at_];
    }
    line_ = opened;
    mistake("the quote that begins here is never closed");
  }
  [[noreturn]] void mistake(const char* what) const { fail_format(path_, "line ", line_, ": ", what); }

  const std::string& path_;
  std::string_view text_;
  char separator_;
  std::size_t at_ = 0;
  std::int64_t line_ = 1, begin_ = 1;
};

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

std::optional<double> number(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  double v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return v;
}

std::size_t column(const CsvText& csv, const std::string& name, const std::string& path) {
  const auto found = std::find(csv.names.begin(), csv.names.end(), name);
  std::string all;
  for (const std::string& n : csv.names) all += (all.empty() ? "" : ", ") + quote(n);
  check(found != csv.names.end(), path, ": there is no column ", quote(name), "; the columns are ", all);
  return static_cast<std::size_t>(found - csv.names.begin());
}

// The field in row r, column c as a number.
float value(const CsvText& csv, std::size_t r, std::size_t c, bool missing, const std::string& path) {
  const std::string& field = csv.rows[r][c];
  if (missing && trimmed(field).empty()) return std::numeric_limits<float>::quiet_NaN();
  const std::optional<double> v = number(field);
  if (!v)
    fail_format(path, "line ", csv.lines[r], ", column ", quote(csv.names[c]), ": expected a number, got ",
                quote(field));
  return static_cast<float>(*v);
}

void set_classes(Dataset& set, const CsvText& csv, std::size_t label, const std::string& path) {
  const bool numeric = std::all_of(csv.rows.begin(), csv.rows.end(), [&](const auto& row) {
    const std::optional<double> v = number(row[label]);
    return v && std::isfinite(*v);  // "nan" has no place among numbers
  });
  const auto before = [numeric](const std::string& a, const std::string& b) {
    const double x = numeric ? *number(a) : 0, y = numeric ? *number(b) : 0;
    return numeric && x != y ? x < y : a < b;
  };
  std::map<std::string, std::int64_t, decltype(before)> classes(before);
  for (std::size_t r = 0; r < csv.rows.size(); ++r) {
    const std::string name(trimmed(csv.rows[r][label]));
    if (name.empty())
      fail_format(path, "line ", csv.lines[r], ", column ", quote(csv.names[label]), ": the label is missing");
    classes[name] = 0;
  }
  for (auto& [name, index] : classes) {
    index = set.classes++;
    set.class_names.push_back(name);
  }
  set.labels = Tensor::allocate({static_cast<std::int64_t>(csv.rows.size())}, i64);
  for (std::size_t r = 0; r < csv.rows.size(); ++r)
    set.labels.data<std::int64_t>()[r] = classes[std::string(trimmed(csv.rows[r][label]))];
}

// Per column, ignoring missing values; a constant column gets std 1.
void set_statistics(Dataset& set) {
  const std::int64_t rows = set.images.size(0), columns = set.images.size(1);
  set.mean.clear();
  set.std.clear();
  for (std::int64_t c = 0; c < columns; ++c) {
    double sum = 0, squares = 0, count = 0;
    for (std::int64_t r = 0; r < rows; ++r)
      if (const double v = set.images.data<float>()[r * columns + c]; std::isfinite(v)) sum += v, ++count;
    const double mean = count > 0 ? sum / count : 0;
    for (std::int64_t r = 0; r < rows; ++r)
      if (const double v = set.images.data<float>()[r * columns + c]; std::isfinite(v))
        squares += (v - mean) * (v - mean);
    const double std = count > 0 ? std::sqrt(squares / count) : 0;
    set.mean.push_back(static_cast<float>(mean));
    set.std.push_back(std > 1e-12 * std::abs(mean) && std > 0 ? static_cast<float>(std) : 1.0f);
  }
}

}  // namespace

CsvText read_csv_text(const std::string& path, char separator, bool header) {
  check(separator != '"' && separator != '\n' && separator != '\r',
        "read_csv: a quote or line break cannot separate fields");
  const std::string text = io::read_file(path, most_bytes);
  if (const char* foreign = io::recognise(std::string_view(text).substr(0, 64)))
    fail_format(path, "is not a table; it looks like ", foreign);
  Parser parser(path, text, separator);
  CsvText csv;
  std::vector<std::string> row;
  while (parser.next(row)) {
    if (csv.names.empty()) {
      for (std::size_t i = 0; i < row.size(); ++i)
        csv.names.push_back(header ? std::string(trimmed(row[i])) : std::to_string(i));
      if (header) continue;
    }
    if (row.size() != csv.names.size())
      fail_format(path, "line ", parser.line(), ": has ", row.size(), " fields, ",
                  header ? "the header" : "the first line", " has ", csv.names.size());
    csv.rows.push_back(row);
    csv.lines.push_back(parser.line());
  }
  if (csv.rows.empty()) fail_format(path, "has no rows");
  for (std::size_t i = 0; i < csv.names.size(); ++i)
    if (std::find(csv.names.begin(), csv.names.begin() + static_cast<std::ptrdiff_t>(i), csv.names[i]) !=
        csv.names.begin() + static_cast<std::ptrdiff_t>(i))
      fail_format(path, "line 1: two columns are called ", quote(csv.names[i]));
  return csv;
}

Dataset read_csv(const std::string& path, const CsvOptions& o) {
  const CsvText csv = read_csv_text(path, o.separator, o.header);
  const std::size_t label = o.label.empty() ? csv.names.size() - 1 : column(csv, o.label, path);
  std::vector<std::size_t> ignored, features;
  for (const std::string& name : o.ignore) ignored.push_back(column(csv, name, path));
  for (std::size_t c = 0; c < csv.names.size(); ++c)
    if (c != label && std::find(ignored.begin(), ignored.end(), c) == ignored.end()) features.push_back(c);
  check(!features.empty(), path, ": no column is left beside the label ", quote(csv.names[label]));
  const auto rows = static_cast<std::int64_t>(csv.rows.size()), columns = static_cast<std::int64_t>(features.size());
  Dataset set;
  set.images = Tensor::allocate({rows, columns}, f32);
  float* out = set.images.data<float>();
  for (std::size_t r = 0; r < csv.rows.size(); ++r)
    for (const std::size_t c : features) *out++ = value(csv, r, c, o.missing, path);
  if (o.regression) {
    set.labels = Tensor::allocate({rows}, f32);
    for (std::size_t r = 0; r < csv.rows.size(); ++r) set.labels.data<float>()[r] = value(csv, r, label, false, path);
  } else {
    set_classes(set, csv, label, path);
  }
  set_statistics(set);
  set.name = path.substr(path.rfind('/') + 1);
  set.source = concat(set.name, ": ", rows, " rows of ", columns, " columns from ", path);
  return set;
}

}  // namespace mantissa::data
