#include "io/descriptor_watch.h"

#include <utility>

#include <poll.h>

#include <fmt/core.h>

#include <boost/asio/posix/stream_descriptor.hpp>

#include "async/real_executor.h"
#include "base/error.h"

namespace stoker {
namespace {

using StreamDescriptor = boost::asio::posix::stream_descriptor;

boost::asio::io_context& context_of(Executor& executor) {
  auto* real = dynamic_cast<RealExecutor*>(&executor);
  if (real == nullptr) {
    throw internal_error("Descriptors can be waited for on a RealExecutor only; simulate what uses them.");
  }
  return real->io_context();
}

bool is_ready(int descriptor, short events) {
  pollfd state = {.fd = descriptor, .events = events, .revents = 0};
  return ::poll(&state, 1, 0) != 0;  // an error is for who reads or writes to meet
}

}  // namespace

struct DescriptorWatch::Wait {
  StreamDescriptor::wait_type type;
  short events;  // of poll(2)
  std::function<void()> function = {};
  bool pending = false;
};

// Shared with handlers that the loop still holds; they find nothing to call once the watch is gone.
struct DescriptorWatch::Waits {
  Wait readable{StreamDescriptor::wait_read, POLLIN};
  Wait writable{StreamDescriptor::wait_write, POLLOUT};
};

struct DescriptorWatch::State {
  explicit State(boost::asio::io_context& context) : descriptor(context) {}

  StreamDescriptor descriptor;
  std::shared_ptr<Waits> waits = std::make_shared<Waits>();
};

DescriptorWatch::DescriptorWatch(Executor& executor, int descriptor)
    : state_(std::make_unique<State>(context_of(executor))) {
  boost::system::error_code error;
  state_->descriptor.assign(descriptor, error);
  if (error) {
    throw resource_error(
        fmt::format("The event loop cannot watch descriptor {}: {}.", descriptor, error.message()));
  }
}

DescriptorWatch::~DescriptorWatch() {
  state_->waits->readable.function = nullptr;
  state_->waits->writable.function = nullptr;
  state_->descriptor.release();  // the descriptor is not ours to close
}

void DescriptorWatch::when_readable(std::function<void()> function) {
  ask(state_->waits->readable, std::move(function));
}

void DescriptorWatch::when_writable(std::function<void()> function) {
  ask(state_->waits->writable, std::move(function));
}

void DescriptorWatch::ask(Wait& wait, std::function<void()> function) {
  wait.function = std::move(function);
  if (!wait.pending) arm(wait);
}

// The loop may tell of a descriptor that was watched before under the same number, so that only what poll
// says too is passed on.
void DescriptorWatch::arm(Wait& wait) {
  wait.pending = true;
  state_->descriptor.async_wait(wait.type,
                                [this, shared = state_->waits, &wait](const boost::system::error_code&) {
                                  wait.pending = false;
                                  if (!wait.function) return;  // this may be gone
                                  if (!is_ready(state_->descriptor.native_handle(), wait.events))
                                    return arm(wait);
                                  std::exchange(wait.function, nullptr)();
                                });
}

}  // namespace stoker
