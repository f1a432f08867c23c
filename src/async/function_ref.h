#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace stoker {

// A view of a callable: two pointers, no allocation. The callable must outlive it; meant for parameters.
template <typename Signature>
class FunctionRef;

template <typename R, typename... Arguments>
class FunctionRef<R(Arguments...)> {
 public:
  template <typename F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> &&
             std::is_invocable_r_v<R, F&, Arguments...>)
  FunctionRef(F&& function)  // NOLINT: implicit on purpose
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(function)))),
        call_([](void* object, Arguments... arguments) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Arguments>(arguments)...);
        }) {}

  R operator()(Arguments... arguments) const { return call_(object_, std::forward<Arguments>(arguments)...); }

 private:
  void* object_;
  R (*call_)(void*, Arguments...);
};

}  // namespace stoker
