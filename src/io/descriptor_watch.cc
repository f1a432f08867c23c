#include "io/descriptor_watch.h"

#include <utility>

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

}  // namespace

// Shared with handlers that the loop still holds; they find nothing to call once the watch is gone.
struct DescriptorWatch::Waits {
  std::function<void()> readable;
  std::function<void()> writable;
  bool read_pending = false;
  bool write_pending = false;
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
  state_->waits->readable = nullptr;
  state_->waits->writable = nullptr;
  state_->descriptor.release();  // the descriptor is not ours to close
}

void DescriptorWatch::when_readable(std::function<void()> function) {
  Waits& waits = *state_->waits;
  waits.readable = std::move(function);
  if (std::exchange(waits.read_pending, true)) return;
  state_->descriptor.async_wait(StreamDescriptor::wait_read,
                                [shared = state_->waits](const boost::system::error_code&) {
                                  shared->read_pending = false;
                                  if (auto call = std::exchange(shared->readable, nullptr)) call();
                                });
}

void DescriptorWatch::when_writable(std::function<void()> function) {
  Waits& waits = *state_->waits;
  waits.writable = std::move(function);
  if (std::exchange(waits.write_pending, true)) return;
  state_->descriptor.async_wait(StreamDescriptor::wait_write,
                                [shared = state_->waits](const boost::system::error_code&) {
                                  shared->write_pending = false;
                                  if (auto call = std::exchange(shared->writable, nullptr)) call();
                                });
}

}  // namespace stoker
