#include "async/intrusive_list.h"

#include <list>
#include <memory>

#include <gtest/gtest.h>

#include "base/random.h"

namespace stoker {
namespace {

struct Item : ListHook<Item> {
  explicit Item(int value) : value(value) {}
  int value;
};

std::vector<int> values(const IntrusiveList<Item>& list) {
  std::vector<int> out;
  list.for_each([&](const Item& item) { out.push_back(item.value); });
  return out;
}

TEST(IntrusiveList, KeepsOrderAndUnlinksFromTheMiddle) {
  IntrusiveList<Item> list;
  Item a(1), b(2), c(3);
  list.push_back(a);
  list.push_back(b);
  list.push_back(c);
  EXPECT_EQ(values(list), (std::vector<int>{1, 2, 3}));
  b.unlink();
  EXPECT_FALSE(b.linked());
  EXPECT_EQ(values(list), (std::vector<int>{1, 3}));
  list.push_back(b);
  EXPECT_EQ(values(list), (std::vector<int>{1, 3, 2}));
}

TEST(IntrusiveList, DestroyedElementLeaves) {
  IntrusiveList<Item> list;
  Item a(1);
  list.push_back(a);
  {
    Item b(2);
    list.push_back(b);
  }
  EXPECT_EQ(values(list), std::vector<int>{1});
}

TEST(IntrusiveList, DestroyedListUnlinksItsElements) {
  Item a(1), b(2);
  {
    IntrusiveList<Item> list;
    list.push_back(a);
    list.push_back(b);
  }
  EXPECT_FALSE(a.linked());
  EXPECT_FALSE(b.linked());
}

TEST(IntrusiveList, FindsTheFirstMatch) {
  IntrusiveList<Item> list;
  Item a(1), b(2), c(2);
  list.push_back(a);
  list.push_back(b);
  list.push_back(c);
  EXPECT_EQ(list.find_if([](const Item& item) { return item.value == 2; }), &b);
  EXPECT_EQ(list.find_if([](const Item& item) { return item.value == 9; }), nullptr);
}

TEST(IntrusiveList, AgreesWithStdListUnderRandomOperations) {
  RandomStream random({.run_seed = 5});
  IntrusiveList<Item> list;
  std::list<int> twin;
  std::vector<std::unique_ptr<Item>> items;
  for (int i = 0; i < 20; ++i) items.push_back(std::make_unique<Item>(i));
  for (int step = 0; step < 2000; ++step) {
    Item& item = *items[random.below(items.size())];
    if (item.linked()) {
      item.unlink();
      twin.remove(item.value);
    } else {
      list.push_back(item);
      twin.push_back(item.value);
    }
    ASSERT_EQ(values(list), std::vector<int>(twin.begin(), twin.end()));
    ASSERT_EQ(list.empty(), twin.empty());
  }
}

}  // namespace
}  // namespace stoker
