#include "environment/word_problems/problem.h"

namespace stoker {
namespace {

constexpr WordTemplate kTraining[] = {
    {"{name} buys {a} boxes of {b} {items}. How many {items} is that?", "a*b"},
    {"{a} shelves hold {b} {items} each. How many {items} do they hold?", "a*b"},
    {"{name} had {x} {items} and sold {a} of them. How many are left?", "x-a"},
    {"One shop has {x} {items}, another has {y}. How many {items} do both have?", "x+y"},
    {"{name} saves {x} dollars and then {a} dollars more. How much is saved?", "x+a"},
    {"{name} packs {a} bags with {b} {items} each and has {c} left over. How many {items} does {name} have?",
     "a*b+c"},
    {"{a} trucks bring {b} {items} each. {c} of all the {items} are bad. How many are good?", "a*b-c"},
    {"{name} finds {a} {items} on Monday and {b} on Tuesday, and sells each for {p} dollars. How many "
     "dollars "
     "does {name} get?",
     "(a+b)*p"},
    {"There are {a} red and {b} blue bags with {c} {items} in each bag. How many {items} are there?",
     "(a+b)*c"},
    {"{name} has {x} dollars and buys {a} {items} at {p} dollars each. How many dollars are left?", "x-a*p"},
    {"{name} buys {a} {items} at {p} dollars each and {b} cakes at {q} dollars each. What does it cost?",
     "a*p+b*q"},
    {"A hall has {a} rows of {b} seats and {p} rows of {c} seats. How many seats are there?", "a*b+p*c"},
    {"{name} had {x} {items}, gave {a} to a friend and lost {b}. How many does {name} have now?", "x-a-b"},
    {"A library had {x} books, bought {a} and threw {b} away. How many books does it have?", "x+a-b"},
    {"{name} earns {a} dollars a day for {b} days and pays {c} dollars for food. How many dollars remain?",
     "a*b-c"},
    {"{name} already has {x} {items} and gets {a} packs of {b}. How many {items} are there in all?", "x+a*b"},
    {"A baker makes {a} trays of {b} rolls and eats {p} of them. How many rolls are left?", "a*b-p"},
    {"{a} children get {p} {items} each, and {b} adults get {q} each. How many {items} are given?",
     "a*p+b*q"},
    {"{name} reads {a} pages a day for {p} days, then {b} pages a day for {q} days. How many pages is that?",
     "a*p+b*q"},
    {"A tank holds {x} liters. {a} buckets of {p} liters are taken out. How many liters remain?", "x-a*p"},
    {"Each of {a} tables has {p} plates and {q} cups. How many pieces is that?", "a*(p+q)"},
    {"{name} fills {a} crates with {b} apples and {c} pears in each. How much fruit is in the crates?",
     "a*(b+c)"},
    {"A bus carries {a} people on each of {b} trips and {c} on the last trip. How many people does it carry?",
     "a*b+c"},
    {"{name} has {c} {items}, and {a} friends have {b} each. How many {items} do they all have?", "c+a*b"},
    {"After giving {c} {items} away, how many remain of {a} boxes with {b} {items} in each?", "a*b-c"},
    {"A farm has {x} hens. It sells {p} cages of {a} hens. How many hens stay?", "x-p*a"},
    {"A worker makes {a} {items} an hour in the morning for {p} hours and {b} an hour for {q} hours later. "
     "How "
     "many {items} is that?",
     "a*p+b*q"},
    {"{name} walks {a} miles a week for {b} weeks and rides {x} miles. How many miles is that?", "a*b+x"},
    {"A ticket costs {p} dollars. {a} men, {b} women and {c} children buy one each. How many dollars is "
     "that?",
     "(a+b+c)*p"},
    {"{name} had {x} dollars, earned {a} dollars a day for {p} days and spent {b}. How many dollars are "
     "there "
     "now?",
     "x+a*p-b"},
    {"A garden has {a} rows of {p} trees and {b} rows of {q} trees; {c} trees are new. How many trees are in "
     "the "
     "rows?",
     "a*p+b*q"},
    {"{name} bakes {a} cakes with {p} eggs each and {b} pies with {q} eggs each. Of {x} eggs, how many are "
     "left?",
     "x-a*p-b*q"},
    {"There were {x} {items} in a store. {y} came and {a} were sold. How many are there?", "x+y-a"},
    {"Every week {name} needs {a} {items} at home and {b} at work. How many {items} are needed in {c} weeks?",
     "(a+b)*c"},
    {"{name} pays {a} dollars a month for {b} months and gets {p} dollars back. What did it cost?", "a*b-p"},
};

constexpr WordTemplate kHeldOut[] = {
    {"A school orders {a} packs with {b} {items} in each pack. How many {items} does it get?", "a*b"},
    {"Of {x} {items} in a store, {a} were stolen. How many were not?", "x-a"},
    {"{name} drove {x} miles last year and {y} miles this year. How many miles in both years?", "x+y"},
    {"{name} plants {a} rows of {b} flowers and {c} flowers by the door. How many flowers are planted?",
     "a*b+c"},
    {"A printer makes {a} pages a minute for {b} minutes, but {c} pages are bad. How many pages are fine?",
     "a*b-c"},
    {"{name} picks {a} apples, {other} picks {b}, and every apple is sold for {p} cents. How many cents do "
     "they "
     "get?",
     "(a+b)*p"},
    {"A hotel has {a} single and {b} double rooms. Each room needs {c} tiles. How many tiles are needed?",
     "(a+b)*c"},
    {"{name} wins {x} dollars and pays {p} friends {a} dollars each. How many dollars does {name} keep?",
     "x-p*a"},
    {"A team scores {p} points in each of {a} games and {q} points in each of {b} games. How many points is "
     "that?",
     "p*a+q*b"},
    {"A ship with {x} {items} unloads {a} in one port and {b} in the next. How many {items} are on board?",
     "x-a-b"},
    {"A town of {x} people sees {a} births and {b} deaths. How many people live there now?", "x+a-b"},
    {"A museum had {x} visitors in May, and {a} groups of {b} in June. How many visitors is that?", "x+a*b"},
    {"For each of {a} guests there are {p} forks and {q} spoons. How many forks and spoons are there?",
     "a*(p+q)"},
    {"{name} types {a} words a minute for {p} minutes and {other} types {b} words a minute for {q} minutes. "
     "How "
     "many words do they type?",
     "a*p+b*q"},
    {"A factory made {x} lamps. It ships {a} boxes of {p} lamps and {b} boxes of {q}. How many lamps stay?",
     "x-a*p-b*q"},
    {"{name} sells {a} lemonades, {b} teas and {c} coffees for {p} dollars each. How many dollars come in?",
     "(a+b+c)*p"},
};

}  // namespace

std::span<const WordTemplate> training_templates() { return kTraining; }
std::span<const WordTemplate> held_out_templates() { return kHeldOut; }

}  // namespace stoker
