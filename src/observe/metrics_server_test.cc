#include "observe/metrics_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "base/descriptor.h"
#include "base/error.h"

namespace stoker {
namespace {

Descriptor connect_to(uint16_t port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return socket;
}

void send_text(const Descriptor& socket, const std::string& text) {
  size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t now = ::send(socket.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (now <= 0) return;  // the server has closed
    sent += static_cast<size_t>(now);
  }
}

// Until the server closes, or `end` was read.
std::string read_text(const Descriptor& socket, const std::string& end = "\x01") {
  std::string text;
  char buffer[4096];
  while (!text.ends_with(end)) {
    const ssize_t got = ::recv(socket.get(), buffer, sizeof buffer, 0);
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

std::string ask(uint16_t port, const std::string& first_line) {
  const Descriptor socket = connect_to(port);
  send_text(socket, first_line + "\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  return read_text(socket);
}

std::string body_of(const std::string& response) {
  const size_t end = response.find("\r\n\r\n");
  return end == std::string::npos ? "no end of the header: " + response : response.substr(end + 4);
}

TEST(MetricsServer, ServesTheLastMetricsInPrometheusForm) {
  MetricsServer server(0);
  EXPECT_EQ(body_of(ask(server.port(), "GET /metrics HTTP/1.1")), "");
  server.update(3, {{"staleness/lag/mean", 1.25},
                    {"reward/mean", std::numeric_limits<double>::quiet_NaN()},
                    {"staleness_lag/mean", 7}});
  server.update(4, {{"pass@1", 0.1}, {"staleness/lag/mean", 2}});
  const std::string response = ask(server.port(), "GET /metrics HTTP/1.1");
  EXPECT_TRUE(response.starts_with("HTTP/1.1 200 OK\r\n")) << response;
  EXPECT_NE(response.find("Content-Type: text/plain; version=0.0.4"), std::string::npos) << response;
  EXPECT_EQ(body_of(response),
            "# TYPE stoker_pass_1 gauge\nstoker_pass_1 0.1\n"
            "# TYPE stoker_staleness_lag_mean gauge\nstoker_staleness_lag_mean 2\n"
            "# TYPE stoker_step gauge\nstoker_step 4\n");
}

TEST(MetricsServer, RefusesWhatItDoesNotServe) {
  MetricsServer server(0);
  server.update(1, {});
  EXPECT_TRUE(ask(server.port(), "GET / HTTP/1.1").starts_with("HTTP/1.1 404"));
  EXPECT_TRUE(ask(server.port(), "DELETE /metrics HTTP/1.1").starts_with("HTTP/1.1 405"));
  const std::string head = ask(server.port(), "HEAD /metrics HTTP/1.1");
  EXPECT_TRUE(head.starts_with("HTTP/1.1 200"));
  EXPECT_EQ(body_of(head), "");
  EXPECT_EQ(ask(server.port(), "nonsense"), "");
  const Descriptor large = connect_to(server.port());
  send_text(large, "GET /metrics HTTP/1.1\r\nX: " + std::string(100000, 'x'));
  EXPECT_EQ(read_text(large), "");
}

TEST(MetricsServer, KeepsAConnectionAndServesOthersBesideASilentOne) {
  MetricsServer server(0);
  const Descriptor silent = connect_to(server.port());
  send_text(silent, "GET /met");
  const Descriptor kept = connect_to(server.port());
  for (int step = 1; step <= 3; ++step) {
    server.update(step, {});
    send_text(kept, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const std::string end = "stoker_step " + std::to_string(step) + "\n";
    EXPECT_TRUE(read_text(kept, end).ends_with(end));
  }
  send_text(silent, "rics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(read_text(silent).ends_with("stoker_step 3\n"));
}

TEST(MetricsServer, ServesTheHighestStep) {
  MetricsServer server(0);
  server.update(4, {{"reward/mean", 0.5}});
  server.update(0, {{"eval/greedy/success", 0.75}});
  EXPECT_EQ(body_of(ask(server.port(), "GET /metrics HTTP/1.1")),
            "# TYPE stoker_eval_greedy_success gauge\nstoker_eval_greedy_success 0.75\n"
            "# TYPE stoker_reward_mean gauge\nstoker_reward_mean 0.5\n"
            "# TYPE stoker_step gauge\nstoker_step 4\n");
}

// Else a program that Stoker starts would hold the port, and connections, beyond its end.
TEST(MetricsServer, ItsSocketsAreNotInherited) {
  MetricsServer server(0);
  const Descriptor client = connect_to(server.port());
  send_text(client, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_NE(read_text(client, "\r\n\r\n"), "");  // by now it is accepted
  int sockets = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename().string());
    struct stat status{};
    if (::fstat(descriptor, &status) != 0 || !S_ISSOCK(status.st_mode)) continue;
    sockaddr_in address{};
    socklen_t size = sizeof address;
    if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) continue;
    if (address.sin_family != AF_INET || ntohs(address.sin_port) != server.port()) continue;
    ++sockets;
    EXPECT_NE(::fcntl(descriptor, F_GETFD) & FD_CLOEXEC, 0) << descriptor;
  }
  EXPECT_EQ(sockets, 2);  // the listening one and that of the connection
}

TEST(MetricsServer, NamesAPortThatIsTaken) {
  MetricsServer server(0);
  try {
    MetricsServer second(server.port());
    FAIL() << "two servers have one port";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kResource);
    EXPECT_NE(std::string(error.what()).find("metrics_port"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace stoker
