// The store through which ranks find each other: values, counters, who is let in, and who is dropped.
#include "io/tcp_store.h"

#include <sys/socket.h>

#include <cstring>
#include <thread>

#include "catch_compat.h"
#include "core/ops.h"
#include "core/random.h"
#include "ranks.h"
#include "testing.h"

using namespace mantissa;
using namespace mantissa::test;
using namespace mantissa::distributed;
using Catch::Matchers::Contains;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("Who has another token, another number of ranks or a rank that is taken is refused") {
  Socket listener = listen_on({"127.0.0.1", 0}, 16);
  const Address at = local_address(listener);
  const Token token = parse_token(job_token);
  const StoreServer server(std::move(listener), 2, token);
  const Deadline by{seconds(10)};
  Token other = token;
  other[15] ^= 1;
  CHECK_THROWS_WITH(TcpStore(at, 1, 2, other, by), Contains("rank 1") && Contains("MANTISSA_JOB_TOKEN"));
  CHECK_THROWS_WITH(TcpStore(at, 1, 3, token, by), Contains("2 ranks, not 3"));
  CHECK_THROWS_WITH(TcpStore(at, 2, 2, token, by), Contains("there is a rank 2 already"));
  TcpStore store(at, 1, 2, token, by);
  CHECK_THROWS_WITH(TcpStore(at, 1, 2, token, by), Contains("there is a rank 1 already"));

  CHECK_THROWS_WITH(parse_token(""), Contains("32 hexadecimal digits"));
  CHECK_THROWS_WITH(parse_token(std::string(32, 'g')), Contains("32 hexadecimal digits"));
  CHECK(same(parse_token("00112233445566778899AABBCCDDEEFF"), token));
}

TEST_CASE("The store keeps values, counts, and waits for what is not there yet") {
  Socket listener = listen_on({"127.0.0.1", 0}, 16);
  const Address at = local_address(listener);
  const StoreServer server(std::move(listener), 2, parse_token(job_token));
  const Deadline by{seconds(10)};
  TcpStore a(at, 0, 2, parse_token(job_token), by), b(at, 1, 2, parse_token(job_token), by);
  std::thread late([&] {
    std::this_thread::sleep_for(milliseconds(30));
    b.set("key", std::string("a\0b", 3), by);
  });
  CHECK(a.get("key", by) == std::string("a\0b", 3));
  late.join();
  CHECK(a.add("count", 5, by) == 5);
  CHECK(b.add("count", -7, by) == -2);
  const std::string large(StoreLimits::value, 'x');
  a.set("large", large, by);
  CHECK(b.get("large", by) == large);
  CHECK_THROWS_WITH(a.set("larger", large + "x", by), Contains("at most"));
  CHECK_THROWS_WITH(a.set("", "x", by), Contains("empty"));
  CHECK(a.failure(Deadline(milliseconds(0))) == "");
  b.report_failure("first");
  a.report_failure("second");
  CHECK(a.failure(Deadline(milliseconds(0))) == "first");
  CHECK_THROWS_WITH(a.get("nobody sets it", Deadline(milliseconds(50))), Contains("does not answer"));
}

TEST_CASE("A rank whose connection breaks off without leave is the failure that the store remembers") {
  Socket listener = listen_on({"127.0.0.1", 0}, 16);
  const Address at = local_address(listener);
  const StoreServer server(std::move(listener), 2, parse_token(job_token));
  TcpStore a(at, 0, 2, parse_token(job_token), Deadline(seconds(10)));
  {
    Socket raw = connect_to(at, Deadline(seconds(10)));
    std::string hello("\x31\x53\x4e\x4d\x02\0\0\0\x01\0\0\0\0\0\0\0", 16);
    const Token token = parse_token(job_token);
    hello.append(reinterpret_cast<const char*>(token.data()), token.size());
    raw.send(hello.data(), hello.size(), Deadline(seconds(10)), "store");
    char answer[8];
    CHECK(raw.receive(answer, sizeof answer, Deadline(seconds(10)), "store"));
  }
  CHECK_THAT(a.failure(Deadline(seconds(10))), Contains("rank 1 is gone"));
}

TEST_CASE("Strangers at the store's port change nothing") {
  const unsigned seed = GENERATE(1u, 2u);
  CAPTURE(seed);
  Socket listener = listen_on({"127.0.0.1", 0}, 128);
  const Address at = local_address(listener);
  const int fd = listener.release();
  std::vector<Socket> idle;  // those that connect and say nothing, or half of something
  std::string said_to_strangers;
  {
    manual_seed(seed);
    std::vector<std::string> errors(2);
    std::vector<std::thread> ranks;
    for (int r = 0; r < 2; ++r) {
      ranks.emplace_back([&, r] {
        try {
          GroupOptions o = local_options(2, at.port);
          o.rank = r;
          if (r == 0) o.store_socket = fd;
          else std::this_thread::sleep_for(milliseconds(100));  // strangers come first
          const auto group = make_group(o);
          const Tensor x = ones({100000});
          for (int i = 0; i < 20; ++i) group->all_reduce(x, ReduceOp::mean);
          check(same_bits(x, ones({100000})), "wrong numbers");
        } catch (const std::exception& e) { errors[static_cast<std::size_t>(r)] = e.what(); }
      });
    }
    const Deadline by{seconds(5)};
    for (int i = 0; i < 60; ++i) {
      try {
        Socket s = connect_to(at, by);
        const auto n = static_cast<std::int64_t>(1) << (i % 17);
        std::string bytes(static_cast<std::size_t>(n), '\0');
        const Tensor noise = randint(0, 256, {n}).to(u8);
        std::memcpy(bytes.data(), noise.raw_data(), bytes.size());
        if (i % 3 == 1)
          bytes.replace(0, std::min<std::size_t>(4, bytes.size()), "\x31\x53\x4e\x4d",
                        std::min<std::size_t>(4, bytes.size()));
        if (i % 3 == 2) bytes = std::string("GET / HTTP/1.1\r\n\r\n").substr(0, static_cast<std::size_t>(n));
        s.send(bytes.data(), bytes.size(), by, "the store");
        if (i % 4 == 0) idle.push_back(std::move(s));
      } catch (const Error&) {  // it hangs up on them: that is right
      }
    }
    for (std::thread& t : ranks) t.join();
    CHECK(errors[0] == "");
    CHECK(errors[1] == "");
  }
}

TEST_CASE("A member that sends nonsense to the store is dropped, and lengths are bounded") {
  Socket listener = listen_on({"127.0.0.1", 0}, 16);
  const Address at = local_address(listener);
  const StoreServer server(std::move(listener), 2, parse_token(job_token));
  TcpStore a(at, 0, 2, parse_token(job_token), Deadline(seconds(10)));
  const auto questions = std::vector<std::string>{
      std::string("s\0\0\0\xff\xff\xff\xff\0\0\0\0", 12),    // a key of 4 GiB
      std::string("s\0\0\0\x01\0\0\0\xff\xff\xff\x7f", 12),  // a value of 2 GiB
      std::string("?\0\0\0\x01\0\0\0\0\0\0\0k", 13),         // an unknown question
      std::string("s\0\0\0\x01\0\0\0\x01\0\0\0\0v", 14),     // the key of failures
      std::string("a\0\0\0\x01\0\0\0\x01\0\0\0kv", 14),      // a number of one byte
      std::string("g\0\0\0\x01\0\0\0\0\0\0\0kg\0\0\0", 17),  // does not wait for an answer
  };
  for (std::size_t i = 0; i < questions.size(); ++i) {
    INFO("question " << i);
    const Deadline by{seconds(10)};
    Socket raw;
    char answer[8];
    std::string hello("\x31\x53\x4e\x4d\x02\0\0\0\x01\0\0\0\0\0\0\0", 16);
    const Token token = parse_token(job_token);
    hello.append(reinterpret_cast<const char*>(token.data()), token.size());
    raw = connect_to(at, by);
    raw.send(hello.data(), hello.size(), by, "store");
    REQUIRE(raw.receive(answer, sizeof answer, by, "store"));
    raw.send(questions[i].data(), questions[i].size(), by, "store");
    bool closed = false;
    try {
      closed = !raw.receive(answer, 1, by, "store");
    } catch (const Error& e) { closed = std::string(e.what()).find("lost") != std::string::npos; }
    CHECK(closed);
  }
  a.set("still", "here", Deadline(seconds(10)));
  CHECK(a.get("still", Deadline(seconds(10))) == "here");
}
