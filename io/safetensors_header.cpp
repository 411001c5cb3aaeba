// Uses nlohmann's SAX interface: the DOM would hide duplicate keys and copy everything, and a state machine that
// rejects unexpected input needs no depth limit.
#include "io/safetensors_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "io/file.h"

namespace mantissa::io {
namespace {

using Json = nlohmann::json;

class HeaderParser final : public nlohmann::json_sax<Json> {
 public:
  HeaderParser(const std::string& path, const SafetensorsLimits& limits) : path_(path), limits_(limits) {}
  Header header;

  bool start_object(std::size_t) override {
    switch (state_) {
      case start: state_ = top; break;
      case top: state_ = in_metadata_ ? metadata : entry; break;
      default: unexpected("an object");
    }
    return true;
  }
  bool key(std::string& key) override {
    if (state_ == top) return top_key(key);
    if (state_ == metadata) return metadata_key(key);
    return field_key(key);
  }
  bool end_object() override {
    if (state_ == entry) finish_entry();
    state_ = state_ == top ? done : top;
    return true;
  }
  bool start_array(std::size_t) override {
    if (state_ == entry && field_ == Field::shape) state_ = shape;
    else if (state_ == entry && field_ == Field::offsets) state_ = offsets;
    else unexpected("an array");
    return true;
  }
  bool end_array() override {
    if (state_ == offsets && offsets_.rank() != 2)
      bad("data_offsets has ", offsets_.rank(), " numbers, expected 2");
    state_ = entry;
    return true;
  }
  bool string(std::string& value) override {
    if (state_ == metadata) {
      header.metadata.back().second = std::move(value);
    } else if (state_ == entry && field_ == Field::dtype) {
      current().dtype = find_file_dtype(value);
      if (!current().dtype) bad("dtype ", quote(value), " is not supported");
    } else {
      unexpected("a string");
    }
    return true;
  }
  bool number_unsigned(std::uint64_t value) override {
    if (state_ != shape && state_ != offsets) unexpected("a number");
    if (value > INT64_MAX) bad(state_ == shape ? "a size" : "an offset", " of ", value, " is too large");
    if (state_ == shape && current().shape.rank() == Dims::max_rank)
      bad("has more than ", Dims::max_rank, " dimensions");
    if (state_ == offsets && offsets_.rank() == 2) bad("data_offsets has more than 2 numbers");
    (state_ == shape ? current().shape : offsets_).push_back(static_cast<std::int64_t>(value));
    return true;
  }
  bool number_integer(std::int64_t value) override {
    if (state_ == shape || state_ == offsets) bad("negative number ", value);
    unexpected("a number");
  }
  bool number_float(double, const std::string& text) override {
    if (state_ == shape || state_ == offsets) bad(quote(text), " is not a whole number in range");
    unexpected("a number");
  }
  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("true or false"); }
  bool binary(Json::binary_t&) override { unexpected("binary data"); }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception& e) override {
    const bool utf8 = std::string_view(e.what()).find("UTF-8") != std::string_view::npos;
    fail_format(path_, "the header is not valid ", utf8 ? "UTF-8" : "JSON", " at byte ", at + 7);
  }

 private:
  enum State { start, top, entry, shape, offsets, metadata, done };
  enum class Field { none, dtype, shape, offsets };

  HeaderEntry& current() { return header.entries.back(); }

  bool top_key(std::string& key) {
    if (static_cast<std::int64_t>(key.size()) > limits_.name_bytes)
      fail_format(path_, "a tensor name has ", key.size(), " bytes, at most ", limits_.name_bytes,
                  " are allowed");
    in_metadata_ = key == "__metadata__";
    if (in_metadata_ && std::exchange(seen_metadata_, true))
      fail_format(path_, "duplicate name \"__metadata__\"");
    if (in_metadata_) return true;
    if (static_cast<std::int64_t>(header.entries.size()) == limits_.tensors)
      fail_format(path_, "has more than ", limits_.tensors, " tensors");
    header.entries.emplace_back().name = std::move(key);
    offsets_ = {};
    field_ = Field::none;
    seen_ = 0;
    return true;
  }
  bool metadata_key(std::string& key) {
    header.metadata.emplace_back(std::move(key), "");
    return true;
  }
  bool field_key(const std::string& key) {
    field_ = key == "dtype"          ? Field::dtype
             : key == "shape"        ? Field::shape
             : key == "data_offsets" ? Field::offsets
                                     : Field::none;
    if (field_ == Field::none) bad("unknown field ", quote(key));
    const unsigned bit = 1u << static_cast<int>(field_);
    if (seen_ & bit) bad("duplicate name ", quote(key));
    seen_ |= bit;
    return true;
  }
  void finish_entry() {
    for (const auto& [field, name] : {std::pair(Field::dtype, "dtype"), std::pair(Field::shape, "shape"),
                                      std::pair(Field::offsets, "data_offsets")})
      if (!(seen_ & (1u << static_cast<int>(field)))) bad("has no ", name);
    HeaderEntry& e = current();
    e.begin = offsets_[0];
    e.end = offsets_[1];
    if (e.end < e.begin) bad("data_offsets [", e.begin, ", ", e.end, "] end before they begin");
    try {
      // A loaded dtype is at least as wide as the stored one, so the product below cannot wrap.
      checked_nbytes(e.shape, e.dtype->loaded_as);
    } catch (const Error& error) {
      bad(error.what());
    }
    const std::int64_t needed = numel_of(e.shape) * e.dtype->bytes;
    if (e.end - e.begin != needed)
      bad("shape ", e.shape, " of ", e.dtype->name, " needs ", needed, " bytes, data_offsets give ",
          e.end - e.begin);
  }

  template <class... Parts> [[noreturn]] void bad(const Parts&... parts) {
    fail_format(path_, "tensor ", quote(current().name), ": ", parts...);
  }
  [[noreturn]] void unexpected(const char* found) {
    if (state_ == start) fail_format(path_, "the header must be a JSON object, found ", found);
    if (state_ == metadata)
      fail_format(path_, "__metadata__ ", quote(header.metadata.back().first), ": expected a string, found ",
                  found);
    if (state_ == top && in_metadata_) fail_format(path_, "__metadata__: expected an object, found ", found);
    const char* expected = state_ == top              ? "an object"
                           : field_ == Field::dtype   ? "a string for dtype"
                           : field_ == Field::shape   ? "whole numbers for shape"
                                                      : "two whole numbers for data_offsets";
    bad("expected ", expected, ", found ", found);
  }

  const std::string& path_;
  const SafetensorsLimits& limits_;
  State state_ = start;
  Field field_ = Field::none;
  bool in_metadata_ = false, seen_metadata_ = false;
  unsigned seen_ = 0;  // bit set of fields seen in the current entry
  Dims offsets_;
};

// By sorting: a file could choose names that collide in a hash table.
template <class List, class Name> void check_unique(const List& list, Name name, const std::string& path) {
  std::vector<std::string_view> names;
  for (const auto& item : list) names.push_back(name(item));
  if (const std::string_view* twice = find_duplicate(names))
    fail_format(path, "duplicate name ", quote(*twice));
}

// Ranges must be adjacent without gap or overlap, so a file of n bytes never requires more than n bytes of memory
// however many tensors it lists.
void check_tiling(std::vector<HeaderEntry>& entries, std::int64_t data_bytes, const std::string& path) {
  std::sort(entries.begin(), entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::int64_t at = 0;
  for (const HeaderEntry& e : entries) {
    if (e.begin != at)
      fail_format(path, "tensor ", quote(e.name), " begins at data byte ", e.begin, ", expected ", at,
                  ": the data ", e.begin < at ? "overlap" : "have a gap");
    at = e.end;
  }
  if (at != data_bytes)
    fail_format(path, "the tensors end at data byte ", at, ", the file has ", data_bytes,
                " bytes of data: it is ", at > data_bytes ? "truncated" : "followed by something else");
}

std::string json_string(const std::string& text) {
  try {
    return Json(text).dump();
  } catch (const nlohmann::detail::exception&) {
    fail(quote(text), " is not valid UTF-8, which names and metadata must be");
  }
}

}  // namespace

const std::string_view* find_duplicate(std::vector<std::string_view>& names) {
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  return twice == names.end() ? nullptr : &*twice;
}

Header parse_header(std::string_view json, std::int64_t data_bytes, const std::string& path,
                    const SafetensorsLimits& limits) {
  if (!json.starts_with('{')) fail_format(path, "the header at byte 8 does not start with '{'");
  // The parser treats a zero byte as the end of its input and would ignore what follows.
  if (const std::size_t zero = json.find('\0'); zero != std::string_view::npos)
    fail_format(path, "the header is not valid JSON at byte ", zero + 8);
  HeaderParser parser(path, limits);
  Json::sax_parse(json.begin(), json.end(), &parser);
  check_unique(parser.header.entries, [](const HeaderEntry& e) -> std::string_view { return e.name; }, path);
  check_unique(parser.header.metadata, [](const auto& e) -> std::string_view { return e.first; }, path);
  check_tiling(parser.header.entries, data_bytes, path);
  return std::move(parser.header);
}

std::string write_header(const Header& header) {
  std::string s = "{";
  const auto comma = [&] { if (s.size() > 1) s += ','; };
  if (!header.metadata.empty()) {
    s += "\"__metadata__\":{";
    for (std::size_t i = 0; i < header.metadata.size(); ++i) {
      const auto& [key, value] = header.metadata[i];
      s += concat(i ? "," : "", json_string(key), ":", json_string(value));
    }
    s += '}';
  }
  for (const HeaderEntry& e : header.entries) {
    comma();
    s += concat(json_string(e.name), ":{\"dtype\":\"", e.dtype->name, "\",\"shape\":[");
    for (int i = 0; i < e.shape.rank(); ++i) s += concat(i ? "," : "", e.shape[i]);
    s += concat("],\"data_offsets\":[", e.begin, ",", e.end, "]}");
  }
  s += '}';
  s.resize((s.size() + 7) / 8 * 8, ' ');
  return s;
}

}  // namespace mantissa::io
