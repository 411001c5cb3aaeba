// Launches a program as the ranks of one training run: the counterpart of torchrun.
//   mantissa_run -n 4 ./mnist --epochs 3                      four processes on this machine
//   MANTISSA_JOB_TOKEN=... mantissa_run -n 8 --nodes 2 --node 1 --master 10.0.0.1:29500 ./mnist     on two machines
//
// Sets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and MANTISSA_JOB_TOKEN, and by default
// divides the cores among the ranks (MANTISSA_NUM_THREADS). When a rank fails, it reports which, terminates the others
// and returns the rank's exit code. Ctrl-C, SIGTERM and SIGHUP are forwarded to all ranks, which have half a minute to
// save.
#include <fcntl.h>
#include <fmt/format.h>
#include <mantissa/core/error.h>
#include <mantissa/core/processors.h>
#include <mantissa/io/socket.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace mantissa;

namespace {

constexpr const char* help = R"(usage: mantissa_run -n RANKS [options] PROGRAM [ARGUMENTS]
Runs PROGRAM as the ranks of one training run (nn::DataParallel).
  -n RANKS            processes on this machine
  --nodes N           machines, each with as many ranks; default 1
  --node I            the number of this machine, from 0 on; default 0
  --master HOST:PORT  of machine 0, which listens there; default 127.0.0.1 and a free port
  --help              this
Of several machines each runs mantissa_run, with the same MANTISSA_JOB_TOKEN, 32 hexadecimal digits.
)";

struct Run {
  int ranks = 0, nodes = 1, node = 0;
  distributed::Address master{"127.0.0.1", 0};
  char** program = nullptr;
};

struct Usage : std::exception {};

// Not fmt::print, which throws if the reader is gone.
void complain(const std::string& text) { std::fputs(fmt::format("mantissa_run: {}\n", text).c_str(), stderr); }

int number(const char* option, const char* text, int least, int most) {
  char* end = nullptr;
  const long n = text ? std::strtol(text, &end, 10) : 0;
  check(text && *text && !*end && n >= least && n <= most, option, " needs a whole number from ", least, " to ", most);
  return static_cast<int>(n);
}

Run parse(int argc, char** argv) {
  Run run;
  int i = 1;
  for (; i < argc && argv[i][0] == '-'; ++i) {
    const std::string option = argv[i];
    if (option == "--help") throw Usage();
    const char* value = argv[++i];
    if (option == "-n") run.ranks = number("-n", value, 1, 1024);
    else if (option == "--nodes") run.nodes = number("--nodes", value, 1, 1024);
    else if (option == "--node") run.node = number("--node", value, 0, 1023);
    else if (option == "--master") {
      const std::string text = value ? value : "";
      const std::size_t colon = text.rfind(':');
      check(colon != text.npos && colon > 0, "--master needs HOST:PORT");
      run.master = {text.substr(0, colon), number("--master", text.c_str() + colon + 1, 1, 65535)};
    } else {
      fail("there is no option ", option);
    }
    if (i >= argc) break;
  }
  check(run.ranks > 0, "-n RANKS is missing");
  check(i < argc, "the program to run is missing");
  check(run.node < run.nodes, "--node ", run.node, " of --nodes ", run.nodes, "; they are counted from 0");
  check(run.nodes == 1 || run.master.port != 0, "several machines need --master HOST:PORT");
  run.program = argv + i;
  return run;
}

std::string random_token() {
  unsigned char bytes[16];
  check(::getrandom(bytes, sizeof bytes, 0) == sizeof bytes, "there are no random numbers");
  std::string text;
  for (const unsigned char b : bytes) text += fmt::format("{:02x}", b);
  return text;
}

void put(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

struct Rank {
  pid_t pid = 0;
  int number = 0;
  bool running = false;
};

Rank start(const Run& run, int local, const distributed::Socket& listener, const sigset_t& signals_before) {
  Rank rank{.number = run.node * run.ranks + local, .running = true};
  const pid_t parent = ::getpid();
  rank.pid = ::fork();
  check(rank.pid >= 0, "cannot start a process: ", std::strerror(errno));
  if (rank.pid > 0) return rank;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a killed launcher leaves no ranks behind
  if (::getppid() != parent) ::_exit(1);
  ::signal(SIGPIPE, SIG_DFL);
  ::pthread_sigmask(SIG_SETMASK, &signals_before, nullptr);
  put("RANK", std::to_string(rank.number));
  put("LOCAL_RANK", std::to_string(local));
  if (rank.number == 0 && listener.is_open()) {  // keep the port bound: no other process can take it
    ::fcntl(listener.fd(), F_SETFD, 0);
    put("MANTISSA_STORE_SOCKET", std::to_string(listener.fd()));
  }
  ::execvp(run.program[0], run.program);
  complain(fmt::format("cannot run {}: {}", run.program[0], std::strerror(errno)));
  ::_exit(127);
}

std::string describe(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("ended with exit code {}", WEXITSTATUS(status));
  return fmt::format("was killed by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
}
int exit_code(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

void send_all(const std::vector<Rank>& ranks, int signal) {
  for (const Rank& r : ranks)
    if (r.running) ::kill(r.pid, signal);
}

// Waits until all ranks have ended. Those that hang after another's failure, or after Ctrl-C, are killed.
int watch(std::vector<Rank>& ranks, const sigset_t& watched) {
  using std::chrono::seconds;
  constexpr seconds grace{10}, saving{30};  // for ranks to report their errors; to save
  constexpr seconds same_request{1};  // as in io/stop.cpp
  std::optional<distributed::Deadline> killed_at;
  bool asked = false;
  std::optional<std::chrono::steady_clock::time_point> told;  // of the signal whose repetition kills
  int result = 0;
  for (std::size_t left = ranks.size(); left > 0;) {
    for (int status = 0; left > 0;) {
      const pid_t pid = ::waitpid(-1, &status, WNOHANG);
      if (pid <= 0) break;
      const auto rank = std::ranges::find(ranks, pid, &Rank::pid);
      if (rank == ranks.end()) continue;
      rank->running = false;
      --left;
      if (status == 0 || result != 0) continue;
      result = exit_code(status);
      if (asked) continue;
      complain(fmt::format("rank {} {}{}", rank->number, describe(status), left > 0 ? "; ending the others" : ""));
      if (!killed_at) killed_at.emplace(grace);
    }
    if (left == 0) break;
    if (killed_at && killed_at->over()) send_all(ranks, SIGKILL);
    const timespec tenth{0, 100'000'000};
    siginfo_t sender{};
    const int signal = ::sigtimedwait(&watched, &sender, &tenth);
    if (signal == SIGHUP) {  // the terminal is gone: however often it is sent, the ranks save and end
      send_all(ranks, signal);
      if (!std::exchange(asked, true)) killed_at.emplace(saving);
    }
    if (signal == SIGINT || signal == SIGTERM) {
      const auto now = std::chrono::steady_clock::now();
      const bool again = told && (signal == SIGINT || now - *told > same_request);
      // Ctrl-C on a terminal is sent to the ranks as well
      if (sender.si_code != SI_KERNEL || again) send_all(ranks, again ? SIGKILL : signal);
      if (!told) {
        told = now;
        killed_at.emplace(saving);
      }
      asked = true;
    }
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) try {
  const Run run = parse(argc, argv);
  sigset_t watched, before;
  ::signal(SIGPIPE, SIG_IGN);  // the reader of our messages may be gone; the ranks must still save
  ::signal(SIGCHLD, SIG_DFL);  // the parent may have ignored it, and then ranks could not be waited for
  ::sigemptyset(&watched);
  for (const int s : {SIGINT, SIGTERM, SIGCHLD}) ::sigaddset(&watched, s);
  struct sigaction hangup;
  if (::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler == SIG_DFL) ::sigaddset(&watched, SIGHUP);
  ::pthread_sigmask(SIG_BLOCK, &watched, &before);  // handled in watch()

  distributed::Socket listener;
  if (run.node == 0 && run.ranks * run.nodes > 1) listener = distributed::listen_on(run.master, 128);
  const int port = listener.is_open() ? distributed::local_address(listener).port : run.master.port;
  if (const char* token = std::getenv("MANTISSA_JOB_TOKEN"); !token || !*token) {
    check(run.nodes == 1, "several machines need the same MANTISSA_JOB_TOKEN, for example ", random_token());
    put("MANTISSA_JOB_TOKEN", random_token());
  }
  put("WORLD_SIZE", std::to_string(run.ranks * run.nodes));
  put("LOCAL_WORLD_SIZE", std::to_string(run.ranks));
  put("MASTER_ADDR", run.master.host);
  put("MASTER_PORT", std::to_string(port));
  if (!std::getenv("MANTISSA_NUM_THREADS") && !std::getenv("OMP_NUM_THREADS"))
    put("MANTISSA_NUM_THREADS", std::to_string(std::max(1, usable_processors().cores / run.ranks)));

  std::vector<Rank> ranks;
  for (int i = 0; i < run.ranks; ++i) ranks.push_back(start(run, i, listener, before));
  listener.close();
  return watch(ranks, watched);
} catch (const Usage&) {
  fmt::print("{}", help);
  return 0;
} catch (const std::exception& e) {
  complain(fmt::format("{}; see --help", e.what()));
  return 2;
}
