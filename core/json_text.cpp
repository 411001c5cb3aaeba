#include "core/json_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/error.h"

namespace mantissa {
namespace {

using Json = nlohmann::json;

// Every function returns whether to continue; errors are thrown.
class Checker final : public nlohmann::json_sax<Json> {
 public:
  Checker(const std::string& where, const JsonLimits& limits) : where_(where), limits_(limits) {}

  bool null() override { return count(); }
  bool boolean(bool) override { return count(); }
  bool number_integer(std::int64_t) override { return count(); }
  bool number_unsigned(std::uint64_t) override { return count(); }
  bool number_float(double, const std::string&) override { return count(); }
  bool string(std::string&) override { return count(); }
  bool binary(Json::binary_t&) override { return count(); }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool key(std::string& name) override {
    names_.back().push_back(std::move(name));
    return count();
  }
  bool end_object() override {
    std::vector<std::string>& names = names_.back();
    std::ranges::sort(names);
    const auto twice = std::ranges::adjacent_find(names);
    if (twice != names.end()) bad("has the member ", shown(*twice), " twice");
    return end_array();
  }
  bool end_array() override {
    names_.pop_back();
    return true;
  }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception&) override {
    bad("is not valid JSON at byte ", at);
  }

 private:
  template <class... Parts> [[noreturn]] void bad(const Parts&... parts) const {
    throw FormatError(concat(where_, ": ", parts...));
  }
  static std::string shown(const std::string& name) {
    return Json(name.substr(0, 80)).dump(-1, ' ', true, Json::error_handler_t::replace);
  }
  bool count() {
    if (++values_ > limits_.values) bad("has more than ", limits_.values, " values");
    return true;
  }
  bool open() {
    names_.emplace_back();
    if (static_cast<int>(names_.size()) > limits_.depth) bad("is nested more than ", limits_.depth, " deep");
    return count();
  }

  const std::string& where_;
  const JsonLimits& limits_;
  std::int64_t values_ = 0;
  std::vector<std::vector<std::string>> names_;  // of the open objects; empty for arrays
};

}  // namespace

void check_json(std::string_view text, const std::string& where, const JsonLimits& limits) {
  // The parser takes a zero byte for the end of its input and would ignore what follows.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos)
    throw FormatError(concat(where, ": is not valid JSON at byte ", zero));
  Checker checker(where, limits);
  Json::sax_parse(text, &checker);
}

}  // namespace mantissa
