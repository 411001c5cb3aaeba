// Files: all-or-nothing writes under injected faults, strict reads; the progress line.
#include "io/file.h"

#include <fcntl.h>
#include <pty.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "catch_compat.h"
#include "io/progress.h"
#include "temp_dir.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;
using io::AtomicFile;
using io::FileStep;

namespace {

// Makes the n-th step of a write fail with `error`; counts the steps.
int fault_at = -1, fault_error = 0, steps_seen = 0;
int nth_fault(FileStep, std::size_t*) { return steps_seen++ == fault_at ? fault_error : 0; }
// Records the order of the steps.
std::string recorded;
int record(FileStep step, std::size_t*) {
  recorded += "cwsrf"[static_cast<int>(step)];
  return 0;
}
// Makes every write short and interrupts every other one.
int stutter(FileStep step, std::size_t* nbytes) {
  if (step != FileStep::write) return 0;
  if (*nbytes > 3) *nbytes = 3;
  return steps_seen++ % 2 ? EINTR : 0;
}

struct WithHook {
  explicit WithHook(io::FaultHook hook) { io::set_fault_hook(hook); }
  ~WithHook() { io::set_fault_hook(nullptr); }
};

void write_three_parts(const std::string& path) {
  AtomicFile file(path);
  file.write("one ");
  file.write("two ");
  file.write("three");
  file.commit();
}

unsigned mode_of(const std::string& path) {
  struct stat st;
  REQUIRE(::stat(path.c_str(), &st) == 0);
  return st.st_mode & 07777;
}

}  // namespace

TEST_CASE("a fault at any step of a write leaves the old or the new file, complete, and nothing else") {
  const TempDir dir;
  const std::string path = dir / "f";
  int steps = 0;
  {
    const WithHook hook(nth_fault);
    fault_at = -1;
    steps_seen = 0;
    write_three_parts(path);
    steps = steps_seen;
  }
  REQUIRE(steps == 7);
  for (const int error : {ENOSPC, EIO, EROFS, EXDEV}) {
    for (int n = 0; n < steps; ++n) {
      INFO("errno " << error << " at step " << n);
      put_file(path, "old");
      const WithHook hook(nth_fault);
      fault_at = n;
      fault_error = error;
      steps_seen = 0;
      const std::string message = message_of([&] { write_three_parts(path); });
      CHECK_THAT(message, Contains(path));
      CHECK_THAT(message, Contains(std::strerror(error)));
      CHECK(get_file(path) == (n < steps - 1 ? "old" : "one two three"));
      CHECK(dir.files() == 1);
    }
  }
  write_three_parts(path);  // and the process goes on
  CHECK(get_file(path) == "one two three");
}

// What survives a power failure is what was flushed: the data before the rename, and the rename before commit()
// returns.
TEST_CASE("the data are on the disk before the name changes, and the name before commit returns") {
  const TempDir dir;
  const WithHook hook(record);
  recorded.clear();
  write_three_parts(dir / "f");
  CHECK(recorded == "cwwwsrf");  // create, write, sync, rename, sync of the folder
}

TEST_CASE("short and interrupted writes are continued") {
  const TempDir dir;
  const WithHook hook(stutter);
  steps_seen = 0;
  write_three_parts(dir / "f");
  CHECK(get_file(dir / "f") == "one two three");
}

TEST_CASE("D1: a full disk leaves the old file") {
  const TempDir dir;
  CHECK_THROWS_WITH(AtomicFile("/dev/full"), Contains("not a regular file"));
  // A real ENOSPC test needs a small file system; the injected ENOSPC above covers every step.
  put_file(dir / "f", "old");
  const WithHook hook(nth_fault);
  fault_at = 1;
  fault_error = ENOSPC;
  steps_seen = 0;
  CHECK_THROWS_WITH(write_three_parts(dir / "f"), Contains("No space left"));
  CHECK(get_file(dir / "f") == "old");
}

TEST_CASE("what was not written completely is never committed, and what is complete is never written to") {
  const TempDir dir;
  put_file(dir / "f", "old");
  {
    const WithHook hook(nth_fault);
    AtomicFile file(dir / "f");
    file.write("one ");
    fault_at = 0;
    fault_error = ENOSPC;
    steps_seen = 0;
    CHECK_THROWS_WITH(file.write("two "), Contains("No space left"));
    fault_at = -1;
    CHECK_THROWS_WITH(file.write("three"), Contains("has failed"));
    CHECK_THROWS_WITH(file.commit(), Contains("has failed"));
  }
  CHECK(get_file(dir / "f") == "old");
  AtomicFile file(dir / "f");
  file.write("new");
  file.commit();
  CHECK_THROWS_WITH(file.write("more"), Contains("it is complete"));
  CHECK_THROWS_WITH(file.commit(), Contains("it is complete"));
  CHECK(get_file(dir / "f") == "new");
}

TEST_CASE("D2: a folder that does not exist or may not be written") {
  const TempDir dir;
  CHECK_THROWS_WITH(write_three_parts(dir / "none/f"), Contains("No such file"));
  if (::geteuid() == 0) MANTISSA_SKIP("root may write everywhere");
  ::chmod(dir.path().c_str(), 0500);
  CHECK_THROWS_WITH(write_three_parts(dir / "f"), Contains("Permission denied"));
  ::chmod(dir.path().c_str(), 0700);
}

TEST_CASE("D5: names at and beyond the system's limit") {
  const TempDir dir;
  const std::string longest(255, 'n');
  write_three_parts(dir / longest);
  CHECK(get_file(dir / longest) == "one two three");
  CHECK_THROWS_WITH(write_three_parts(dir / (longest + "n")), Contains("File name too long"));
  CHECK(dir.files() == 1);
}

TEST_CASE("a write without commit leaves no trace") {
  const TempDir dir;
  put_file(dir / "f", "old");
  { AtomicFile(dir / "f").write("new"); }
  CHECK(get_file(dir / "f") == "old");
  CHECK(dir.files() == 1);
}

TEST_CASE("permissions: kept when a file is replaced, from the umask when it is new") {
  const TempDir dir;
  put_file(dir / "f", "old");
  ::chmod((dir / "f").c_str(), 0640);
  write_three_parts(dir / "f");
  CHECK(mode_of(dir / "f") == 0640);
  const mode_t mask = ::umask(022);
  write_three_parts(dir / "g");
  ::umask(mask);
  CHECK(mode_of(dir / "g") == 0644);
}

TEST_CASE("a symbolic link keeps pointing to the file it names") {
  const TempDir dir;
  put_file(dir / "target", "old");
  REQUIRE(::symlink("target", (dir / "link").c_str()) == 0);
  write_three_parts(dir / "link");
  CHECK(std::filesystem::is_symlink(dir / "link"));
  CHECK(get_file(dir / "target") == "one two three");
}

TEST_CASE("temporaries of killed writers are removed, those of living ones are not") {
  const TempDir dir;
  put_file(dir / "f.tmp-1-0", "left behind");
  put_file(dir / "f.tmpl", "somebody else's");
  for (const char* name : {"f.tmp-old", "f.tmp-1", "f.tmp-1-0.ckpt", "f.tmp--1", "f.tmp-1-"})
    put_file(dir / name, "too");
  AtomicFile alive(dir / "f");
  alive.write("first");
  write_three_parts(dir / "f");
  CHECK_FALSE(std::filesystem::exists(dir / "f.tmp-1-0"));
  CHECK(std::filesystem::exists(dir / "f.tmpl"));
  alive.commit();
  CHECK(get_file(dir / "f") == "first");
  CHECK(dir.files() == 7);
}

TEST_CASE("a relative path writes into the current folder") {
  const TempDir dir;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  write_three_parts("f");
  std::filesystem::current_path(before);
  CHECK(get_file(dir / "f") == "one two three");
}

TEST_CASE("a file that shrinks after it was opened is a FormatError, not a crash") {
  const TempDir dir;
  put_file(dir / "f", std::string(10'000, 'x'));
  const io::FileReader reader(dir / "f");
  std::filesystem::resize_file(dir / "f", 5'000);
  std::string out(10'000, '\0');
  REQUIRE_THROWS_AS(reader.read(out.data(), 10'000, 0), FormatError);
  CHECK_THROWS_WITH(reader.read(out.data(), 10'000, 0), Contains("ends at byte 5000"));
}

TEST_CASE("read_file: whole, and bounded") {
  const TempDir dir;
  put_file(dir / "f", "abc");
  CHECK(io::read_file(dir / "f", 3) == "abc");
  CHECK_THROWS_WITH(io::read_file(dir / "f", 2), Contains("expected at most 2"));
}

TEST_CASE("quote: what a file says cannot break a message or a terminal") {
  CHECK(io::quote("a.b") == "\"a.b\"");
  CHECK(io::quote("\x1b[2J\n\"") == "\"\\x1b[2J\\x0a\\x22\"");
  CHECK(io::quote(std::string(1000, 'x')).size() < 110);
  // Valid UTF-8 is passed through, except terminal control characters (U+009B starts their sequences); invalid bytes
  // are escaped.
  CHECK(io::quote("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8d\xb0") == "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8d\xb0\"");
  CHECK(io::quote("\xc2\x9b" "2J") == "\"\\xc2\\x9b2J\"");
  for (const char* bytes : {"\xff", "\x80", "\xc3", "\xc0\x80", "\xe2\x82", "\xe0\x80\x80", "\xed\xa0\x80",
                            "\xf4\x90\x80\x80", "\xf0\x80\x80\x80", "\xf8\x88\x80\x80"}) {
    const std::string quoted = io::quote(bytes);
    INFO(quoted);
    CHECK(std::ranges::all_of(quoted, [](char c) { return c >= 32 && c < 127; }));
  }
  std::string long_text(79, 'x');
  for (int i = 0; i < 10; ++i) long_text += "\xc3\xa9";
  CHECK(io::quote(long_text) == "\"" + std::string(79, 'x') + "...\" (99 bytes)");  // no half of a character
}

TEST_CASE("progress: the line") {
  const double none = std::nan("");
  CHECK(io::progress_line("epoch 2/5", 50, 200, 5, 0.25) ==
        "epoch 2/5  25%  50/200  10.0 it/s  0:15 left  loss 0.2500");
  CHECK(io::progress_line("x", 0, 10, 0, none) == "x  0%  0/10");
  CHECK(io::progress_line("x", 1, 7201, 1, none) == "x  0%  1/7201  1.0 it/s  2:00:00 left");
  CHECK(io::progress_line("x", 7, 0, 2, none) == "x  3.5 it/s");
}

TEST_CASE("progress: nothing is written when the output is not a terminal") {
  const TempDir dir;
  const int fd = ::open((dir / "log").c_str(), O_WRONLY | O_CREAT, 0600);
  {
    io::Progress progress("epoch 1/1", 100, fd);
    for (int i = 0; i < 100; ++i) progress.update(i, 1.0);
    CHECK_FALSE(progress.active());
  }
  ::close(fd);
  CHECK(get_file(dir / "log").empty());
}

TEST_CASE("progress: on a terminal, one line that is wiped at the end") {
  int master = -1, terminal = -1;
  if (::openpty(&master, &terminal, nullptr, nullptr, nullptr) != 0) MANTISSA_SKIP("no pseudo-terminal here");
  {
    io::Progress progress("run", 1000, terminal);
    CHECK(progress.active());
    for (int i = 0; i < 1000; ++i) progress.update(i, 1.0);  // far faster than ten lines a second
    ::usleep(120'000);
    progress.update(999, 1.0);
  }
  ::close(terminal);
  std::string text;
  char piece[4096];
  // Terminal output arrives in pieces and with delay; once the terminal is closed and everything is read, read() fails.
  for (ssize_t n; (n = ::read(master, piece, sizeof piece)) > 0;) text.append(piece, static_cast<std::size_t>(n));
  ::close(master);
  CHECK_THAT(text, Contains("999/1000"));
  CHECK(text.find('\n') == std::string::npos);
  CHECK(text.ends_with("\r\x1b[K"));
  CHECK(text.size() < 1000 * 10);  // a line per update would be several times this
}
