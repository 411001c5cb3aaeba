#include "io/summary_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <vector>

#include "io/image.h"
#include "io/protobuf.h"

namespace mantissa::io {
namespace {

using namespace protobuf;

// Field numbers of TensorFlow's event.proto, summary.proto and tensor.proto.
namespace event { constexpr int wall_time = 1, step = 2, file_version = 3, summary = 5; }
namespace summary { constexpr int value = 1; }
namespace value { constexpr int tag = 1, simple_value = 2, image = 4, histogram = 5, tensor = 8, metadata = 9; }
namespace image_field { constexpr int height = 1, width = 2, colorspace = 3, encoded = 4; }
namespace histogram { constexpr int min = 1, max = 2, num = 3, sum = 4, sum_squares = 5, bucket_limit = 6, bucket = 7; }

// CRC-32C (Castagnoli), which zlib lacks; masked as TFRecord requires.
std::uint32_t masked_crc(std::string_view bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> t{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      t[i] = i;
      for (int bit = 0; bit < 8; ++bit) t[i] = t[i] >> 1 ^ (t[i] & 1 ? 0x82f63b78u : 0u);
    }
    return t;
  }();
  std::uint32_t crc = ~0u;
  for (const char c : bytes) crc = table[(crc ^ static_cast<unsigned char>(c)) & 255] ^ crc >> 8;
  return std::rotr(~crc, 15) + 0xa282ead8u;
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

[[noreturn]] void fail_errno(const std::string& path) {
  fail("cannot write ", path, ": ", std::generic_category().message(errno));
}

}  // namespace

SummaryWriter::SummaryWriter(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  check(!error, "cannot make the folder ", folder, ": ", error.message());
  char host[256] = "host";
  ::gethostname(host, sizeof host - 1);
  static std::atomic<int> count{0};
  path_ = fmt::format("{}/events.out.tfevents.{}.{}.{}.{}", folder, static_cast<std::int64_t>(seconds_now()), host,
                      ::getpid(), count++);
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_errno(path_);
  std::string fields;
  put_bytes(fields, event::file_version, "brain.Event:2");
  try {
    write_event(fields);
  } catch (...) {
    ::unlink(path_.c_str());
    ::close(fd_);
    throw;
  }
}

SummaryWriter::~SummaryWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void SummaryWriter::write_event(std::string_view fields) {
  std::string data;
  put_double(data, event::wall_time, seconds_now());
  data += fields;
  std::string record;
  put_raw<std::uint64_t>(record, data.size());
  put_raw(record, masked_crc(record));
  record += data;
  put_raw(record, masked_crc(data));
  const off_t begin = ::lseek(fd_, 0, SEEK_END);
  for (std::size_t written = 0; written < record.size();) {
    const ssize_t n = ::write(fd_, record.data() + written, record.size() - written);
    if (n < 0 && errno != EINTR) {
      const int error = errno;
      // After a partial frame readers would not find later records.
      [[maybe_unused]] const int ignored = ::ftruncate(fd_, begin);
      errno = error;
      fail_errno(path_);
    }
    if (n > 0) written += static_cast<std::size_t>(n);
  }
}

void SummaryWriter::write_value(std::string_view tag, std::string_view fields, std::int64_t step) {
  check(!tag.empty(), "SummaryWriter: the tag is empty");
  std::string one, all, fields_of_event;
  put_bytes(one, value::tag, tag);
  one += fields;
  put_bytes(all, summary::value, one);
  put_integer(fields_of_event, event::step, step);
  put_bytes(fields_of_event, event::summary, all);
  write_event(fields_of_event);
}

void SummaryWriter::add_scalar(std::string_view tag, double value, std::int64_t step) {
  std::string fields;
  put_float(fields, value::simple_value, static_cast<float>(value));
  write_value(tag, fields, step);
}

void SummaryWriter::add_histogram(std::string_view tag, const Tensor& values, std::int64_t step, int bins) {
  check(bins >= 1, "SummaryWriter.add_histogram: needs at least one bin, got ", bins);
  const std::vector<double> all = values.to_vector<double>();
  if (all.empty()) return;
  double least = all[0], greatest = all[0], sum = 0, squares = 0;
  for (const double v : all) {
    check(std::isfinite(v), "SummaryWriter.add_histogram: \"", tag, "\" holds NaN or inf");
    least = std::min(least, v), greatest = std::max(greatest, v);
    sum += v, squares += v * v;
  }
  const double shrink = std::isfinite(greatest - least) ? 1 : 0.5, width = (greatest * shrink - least * shrink) / bins;
  std::vector<double> limits(static_cast<std::size_t>(bins)), counts(limits.size());
  for (std::size_t i = 0; i < limits.size(); ++i) limits[i] = least + width / shrink * static_cast<double>(i + 1);
  limits.back() = greatest;
  for (const double v : all) {
    const double place = width > 0 ? (v * shrink - least * shrink) / width : 0;
    ++counts[static_cast<std::size_t>(std::min<double>(place, bins - 1))];
  }
  const auto packed = [](const std::vector<double>& v) {
    return std::string_view(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(double));
  };
  std::string h, fields;
  put_double(h, histogram::min, least);
  put_double(h, histogram::max, greatest);
  put_double(h, histogram::num, static_cast<double>(all.size()));
  put_double(h, histogram::sum, sum);
  put_double(h, histogram::sum_squares, squares);
  put_bytes(h, histogram::bucket_limit, packed(limits));
  put_bytes(h, histogram::bucket, packed(counts));
  put_bytes(fields, value::histogram, h);
  write_value(tag, fields, step);
}

void SummaryWriter::add_image(std::string_view tag, const Tensor& image, std::int64_t step) {
  const std::string png = encode_png(image);
  std::string i, fields;
  put_integer(i, image_field::height, image.size(-2));
  put_integer(i, image_field::width, image.size(-1));
  put_integer(i, image_field::colorspace, image.dim() == 2 ? 1 : image.size(0));
  put_bytes(i, image_field::encoded, png);
  put_bytes(fields, value::image, i);
  write_value(tag, fields, step);
}

void SummaryWriter::add_text(std::string_view tag, std::string_view text, std::int64_t step) {
  std::string plugin, metadata, size, shape, tensor, fields;
  put_bytes(plugin, 1, "text");      // PluginData.plugin_name
  put_bytes(metadata, 1, plugin);    // SummaryMetadata.plugin_data
  put_integer(size, 1, 1);           // TensorShapeProto.Dim.size
  put_bytes(shape, 2, size);         // TensorShapeProto.dim
  put_integer(tensor, 1, 7);         // TensorProto.dtype: DT_STRING
  put_bytes(tensor, 2, shape);       // TensorProto.tensor_shape
  put_bytes(tensor, 8, text);        // TensorProto.string_val
  put_bytes(fields, value::metadata, metadata);
  put_bytes(fields, value::tensor, tensor);
  write_value(concat(tag, "/text_summary"), fields, step);
}

}  // namespace mantissa::io
