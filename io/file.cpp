// Reading and atomic writing with plain system calls: every return value is checked. Invariant: between
// create_temporary() and the rename the file being replaced is not touched.
#include "io/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <system_error>
#include <utility>

namespace mantissa::io {
namespace {

std::atomic<FaultHook> fault_hook{nullptr};

// True if a test injects a failure into this step; errno is then set.
bool injected(FileStep step, std::size_t* nbytes = nullptr) {
  const FaultHook hook = fault_hook;
  if (!hook) return false;
  std::size_t ignored = 0;
  const int error = hook(step, nbytes ? nbytes : &ignored);
  if (error) errno = error;
  return error != 0;
}

std::string reason(int error) { return std::generic_category().message(error); }

constexpr std::size_t largest_chunk = std::size_t{1} << 30;  // one call moves at most 2^31 bytes on Linux

}  // namespace

void set_fault_hook(FaultHook hook) { fault_hook = hook; }

namespace {
// Length of the UTF-8 character that `text` starts with; 0 for control characters and invalid UTF-8, which must not
// reach terminals or logs.
std::size_t shown_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return first >= 32 && first != 127;
  const std::size_t n = first >= 0xc2 && first <= 0xdf ? 2 : first >= 0xe0 && first <= 0xef ? 3 : 4;
  if (n == 4 && (first < 0xf0 || first > 0xf4)) return 0;
  for (std::size_t i = 1; i < n; ++i)
    if (byte(i) >> 6 != 2) return 0;
  const bool control = first == 0xc2 && second < 0xa0, surrogate = first == 0xed && second > 0x9f;
  const bool too_long = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  return control || surrogate || too_long || (first == 0xf4 && second > 0x8f) ? 0 : n;
}
}  // namespace

std::string quote(std::string_view text) {
  constexpr std::size_t longest = 80;
  std::string s = "\"";
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t n = shown_bytes(text.substr(at));
    if (at + std::max<std::size_t>(n, 1) > longest) break;
    if (n == 0 || text[at] == '"' || text[at] == '\\')
      s += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at++]));
    else s += text.substr(at, n), at += n;
  }
  s += at < text.size() ? fmt::format("...\" ({} bytes)", text.size()) : "\"";
  return s;
}

const char* recognise(std::string_view first_bytes) {
  std::string s(first_bytes.substr(0, 64));
  s.erase(0, s.find_first_not_of(" \t\r\n"));
  for (char& c : s) if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  if (s.starts_with("<!doctype") || s.starts_with("<html") || s.starts_with("<?xml"))
    return "an HTML page, so a download went wrong";
  if (s.starts_with("version https://git-lfs"))
    return "a git-lfs pointer; run \"git lfs pull\" to fetch the data";
  if (s.starts_with("pk\x03\x04")) return "a zip archive, perhaps a PyTorch .pt file or .npz";
  if (s.starts_with("\x1f\x8b")) return "gzip-compressed";
  if (s.starts_with("\x93numpy")) return "a NumPy .npy file";
  if (s.starts_with("gguf")) return "a GGUF file";
  if (s.starts_with("\x80\x02") || s.starts_with("\x80\x04")) return "a Python pickle";
  return nullptr;
}

FileReader::FileReader(const std::string& path) : path_(path) {
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);  // opening a pipe must not block
  if (fd_ < 0) fail("cannot open ", path, ": ", reason(errno));
  struct stat st;
  const int error = ::fstat(fd_, &st) != 0 ? errno : 0;
  if (error || !S_ISREG(st.st_mode)) {
    ::close(fd_);
    if (error) fail("cannot read ", path, ": ", reason(error));
    fail_format(path, "is not a regular file");
  }
  size_ = st.st_size;
}

FileReader::~FileReader() { ::close(fd_); }

void FileReader::read(void* out, std::int64_t nbytes, std::int64_t offset) const {
  auto* at = static_cast<char*>(out);
  while (nbytes > 0) {
    const auto chunk = std::min(static_cast<std::size_t>(nbytes), largest_chunk);
    const ssize_t n = ::pread(fd_, at, chunk, offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot read ", path_, " at byte ", offset, ": ", reason(errno));
    if (n == 0) fail_format(path_, "ends at byte ", offset, ", ", nbytes, " bytes too early");
    at += n;
    nbytes -= n;
    offset += n;
  }
}

std::string FileReader::head(std::int64_t nbytes) const {
  std::string s(static_cast<std::size_t>(std::min(nbytes, size_)), '\0');
  read(s.data(), static_cast<std::int64_t>(s.size()), 0);
  return s;
}

std::string read_file(const std::string& path, std::int64_t max_bytes) {
  const FileReader file(path);
  if (file.size() > max_bytes) fail_format(path, "has ", file.size(), " bytes, expected at most ", max_bytes);
  return file.head(file.size());
}

void AtomicFile::fail_errno(const char* doing) const {
  const int error = errno;
  fail("cannot ", doing, " ", path_, ": ", reason(error));
}

AtomicFile::AtomicFile(const std::string& path) : path_(path) {
  struct stat st;
  if (::lstat(path.c_str(), &st) == 0 && S_ISLNK(st.st_mode)) {
    char target[PATH_MAX];
    if (!::realpath(path.c_str(), target)) fail_errno("follow the link");
    path_ = target;
  }
  const bool replaces = ::stat(path_.c_str(), &st) == 0;
  // Renaming over /dev/null, a pipe or a folder would destroy it.
  check(!replaces || S_ISREG(st.st_mode), "cannot write ", path_, ": it exists and is not a regular file");

  const std::size_t slash = path_.rfind('/');
  folder_ = slash == std::string::npos ? "." : slash == 0 ? "/" : path_.substr(0, slash);
  const std::string name = slash == std::string::npos ? path_ : path_.substr(slash + 1);
  check(!name.empty(), "cannot write \"", path_, "\": a file name is needed");
  prefix_ = name.substr(0, 200) + ".tmp-";  // names have at most 255 bytes
  remove_stale();
  create_temporary();
  if (replaces) {  // best effort: only root may change a file's owner
    if (::fchown(fd_, st.st_uid, st.st_gid) == 0 || ::geteuid() != 0) ::fchmod(fd_, st.st_mode & 0777);
  }
}

// A writer locks its temporary while it is alive, so one that can be locked was left behind by a killed writer. Files
// not named by create_temporary() are never removed.
void AtomicFile::remove_stale() const {
  const auto ours = [&](std::string_view name) {
    if (!name.starts_with(prefix_)) return false;
    const std::string_view rest = name.substr(prefix_.size());
    const std::size_t dash = rest.find('-');
    const auto number = [](std::string_view s) {
      return !s.empty() && s.find_first_not_of("0123456789") == std::string_view::npos;
    };
    return dash != std::string_view::npos && number(rest.substr(0, dash)) && number(rest.substr(dash + 1));
  };
  DIR* folder = ::opendir(folder_.c_str());
  if (!folder) return;
  while (const dirent* entry = ::readdir(folder)) {
    if (!ours(entry->d_name)) continue;
    const int fd = ::openat(::dirfd(folder), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) continue;
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) ::unlinkat(::dirfd(folder), entry->d_name, 0);
    ::close(fd);
  }
  ::closedir(folder);
}

void AtomicFile::create_temporary() {
  static std::atomic<unsigned> counter{0};
  for (int attempt = 0; attempt < 100; ++attempt) {
    temporary_ = fmt::format("{}/{}{}-{}", folder_, prefix_, ::getpid(), counter++);
    fd_ = injected(FileStep::create)
              ? -1
              : ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd_ < 0 && errno == EEXIST) continue;
    if (fd_ < 0) fail_errno("write");
    struct stat st;
    while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {}  // without lock support no file is ever considered stale
    if (::fstat(fd_, &st) != 0 || st.st_nlink > 0) return;
    ::close(fd_);  // another process took it for stale before it was locked
  }
  errno = EEXIST;
  fail_errno("find a temporary name beside");
}

AtomicFile::~AtomicFile() { abandon(); }

// What was not written completely must never be committed.
void AtomicFile::abandon() {
  if (fd_ < 0) return;
  const int error = errno;
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
  ::close(std::exchange(fd_, -1));
  errno = error;
}

void AtomicFile::write(const void* data, std::size_t nbytes) {
  check(fd_ >= 0, path_, ": nothing can be written any more: it is complete, or writing it has failed");
  const auto* at = static_cast<const char*>(data);
  while (nbytes > 0) {
    std::size_t chunk = std::min(nbytes, largest_chunk);
    const ssize_t n = injected(FileStep::write, &chunk) ? -1 : ::write(fd_, at, chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      abandon();
      fail_errno("write");
    }
    at += n;
    nbytes -= static_cast<std::size_t>(n);
  }
}

void AtomicFile::commit() {
  check(fd_ >= 0, path_, ": there is nothing to commit: it is complete, or writing it has failed");
  const auto failed = [&](const char* doing) {
    abandon();
    fail_errno(doing);
  };
  // Never a second fsync after a failed one: the system may have dropped the pages by then.
  if (injected(FileStep::sync) || ::fsync(fd_) != 0) failed("flush to the disk");
  if (injected(FileStep::rename) || ::rename(temporary_.c_str(), path_.c_str()) != 0) failed("replace");
  temporary_.clear();
  abandon();  // only closes it
  sync_folder();
}

// Makes the new name survive a power failure. File systems without this operation answer EINVAL.
void AtomicFile::sync_folder() const {
  const int fd = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool failed = injected(FileStep::sync_folder) || fd < 0 || (::fsync(fd) != 0 && errno != EINVAL);
  const int error = errno;
  if (fd >= 0) ::close(fd);
  errno = error;
  if (failed) fail_errno("flush the folder of the complete new file");
}

}  // namespace mantissa::io
