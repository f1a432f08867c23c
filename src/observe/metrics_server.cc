#include "observe/metrics_server.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

#include "base/error.h"

namespace stoker {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

constexpr std::chrono::seconds kRequestLimit{5};
constexpr std::chrono::milliseconds kAcceptPause{100};  // after a failure, such as too many open files
constexpr uint32_t kMostRequestBytes = 8192;

// What may stand in the name of a Prometheus metric.
std::string prometheus_name(const std::string& name) {
  std::string result = "stoker_";
  for (const char c : name) {
    const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    result += fits ? c : '_';
  }
  return result;
}

std::string prometheus_text(const MetricMap& metrics) {
  std::string text;
  std::set<std::string> written;
  for (const auto& [name, value] : metrics) {
    const std::string metric = prometheus_name(name);
    // Two values under one name would make the whole answer invalid.
    if (value - value != 0 || !written.insert(metric).second) continue;
    text += fmt::format("# TYPE {0} gauge\n{0} {1}\n", metric, value);
  }
  return text;
}

http::response<http::string_body> response_to(const http::request<http::empty_body>& request,
                                              std::string metrics) {
  http::response<http::string_body> response{http::status::ok, request.version()};
  response.set(http::field::content_type, "text/plain; version=0.0.4; charset=utf-8");
  response.keep_alive(request.keep_alive());
  if (request.method() != http::verb::get && request.method() != http::verb::head) {
    response.result(http::status::method_not_allowed);
    response.set(http::field::allow, "GET, HEAD");
    response.body() = "Only GET and HEAD are served.\n";
  } else if (request.target() != "/metrics") {
    response.result(http::status::not_found);
    response.body() = "The metrics are at /metrics.\n";
  } else {
    response.body() = std::move(metrics);
  }
  response.prepare_payload();
  if (request.method() == http::verb::head) response.body().clear();
  return response;
}

}  // namespace

class MetricsServer::Listener {
 public:
  explicit Listener(uint16_t port) : acceptor_(context_), pause_(context_) {
    const tcp::endpoint endpoint(asio::ip::address_v4::loopback(), port);
    try {
      acceptor_.open(endpoint.protocol());
      // Asio's sockets would be inherited by every program that Stoker starts.
      ::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);
      acceptor_.set_option(tcp::acceptor::reuse_address(true));
      acceptor_.bind(endpoint);
      acceptor_.listen();
      acceptor_.non_blocking(true);  // a connection may be gone again before it is accepted
    } catch (const boost::system::system_error& error) {
      throw resource_error(
          fmt::format("Cannot serve metrics on port {}: {}; choose another metrics_port, or 0 for none.",
                      port, error.code().message()));
    }
    port_ = acceptor_.local_endpoint().port();
    accept();
    thread_ = std::thread([this] { context_.run(); });
  }

  ~Listener() {
    context_.stop();
    thread_.join();
  }

  uint16_t port() const { return port_; }

  void update(int64_t step, const MetricMap& metrics) {
    for (const auto& [name, value] : metrics) metrics_[name] = value;
    step_ = std::max(step_, step);
    metrics_["step"] = static_cast<double>(step_);
    std::string text = prometheus_text(metrics_);
    const std::lock_guard lock(mutex_);
    text_ = std::move(text);
  }

 private:
  // One connection; it keeps itself alive by its pending operation.
  class Connection : public std::enable_shared_from_this<Connection> {
   public:
    Connection(tcp::socket socket, Listener& listener) : stream_(std::move(socket)), listener_(listener) {}

    void read() {
      parser_.emplace();
      parser_->header_limit(kMostRequestBytes);
      stream_.expires_after(kRequestLimit);
      http::async_read(stream_, buffer_, *parser_,
                       [self = shared_from_this()](beast::error_code error, size_t) {
                         if (!error) self->answer();
                       });
    }

   private:
    void answer() {
      response_ = response_to(parser_->get(), listener_.text());
      auto written = [self = shared_from_this()](beast::error_code error, size_t) {
        if (!error && self->response_.keep_alive()) self->read();
      };
      if (parser_->get().method() == http::verb::head) {
        serializer_.emplace(response_);
        http::async_write_header(stream_, *serializer_, std::move(written));
      } else {
        http::async_write(stream_, response_, std::move(written));
      }
    }

    beast::tcp_stream stream_;
    Listener& listener_;
    beast::flat_buffer buffer_{kMostRequestBytes};
    std::optional<http::request_parser<http::empty_body>> parser_;
    http::response<http::string_body> response_;
    std::optional<http::response_serializer<http::string_body>> serializer_;
  };

  // By accept4, so that no program that is started at the same moment inherits the connection.
  void accept() {
    acceptor_.async_wait(tcp::acceptor::wait_read, [this](beast::error_code error) {
      const int accepted = error ? -1 : ::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC);
      if (accepted >= 0) {
        tcp::socket socket(context_);
        socket.assign(tcp::v4(), accepted);
        std::make_shared<Connection>(std::move(socket), *this)->read();
        accept();
        return;
      }
      pause_.expires_after(kAcceptPause);
      pause_.async_wait([this](beast::error_code) { accept(); });
    });
  }

  std::string text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }

  MetricMap metrics_;  // of who updates, as is the next
  int64_t step_ = 0;
  std::mutex mutex_;
  std::string text_;  // guarded by the mutex
  uint16_t port_ = 0;
  asio::io_context context_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  std::thread thread_;
};

MetricsServer::MetricsServer(uint16_t port) : listener_(std::make_unique<Listener>(port)) {}
MetricsServer::~MetricsServer() = default;
uint16_t MetricsServer::port() const { return listener_->port(); }
void MetricsServer::update(int64_t step, const MetricMap& metrics) { listener_->update(step, metrics); }

}  // namespace stoker
