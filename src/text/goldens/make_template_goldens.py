#!/usr/bin/env python3
"""Makes the recorded answers of jinja2 under transformers' settings again.

  make_template_goldens.py            writes templates.jsonl beside this file
  make_template_goldens.py --check    fails where it differs; also writes build/goldens/templates_large.jsonl, every
                                      conversation of BFCL and tau2 in ../shared/data with every template there,
                                      which text_test then compares

Run by make.sh.
"""
import datetime
import glob
import json
import os
import sys
import zlib

from transformers.utils import chat_template_utils

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", "..", ".."))
DATA = os.path.join(ROOT, "..", "shared", "data")
NOW = datetime.datetime(2024, 7, 26)

VARIABLES = {
    "text": "Grüße, <b>Welt</b> & \"so\" it's\n",
    "words": ["pear", "Apple", "fig", "apple", "Fig"],
    "numbers": [3, 1, 2, 10, -4],
    "people": [{"name": "Ada", "age": 36, "tags": ["x", "y"]}, {"name": "Bob", "age": 5}, {"name": "cyd", "age": 36, "tags": []}],
    "table": {"b": 1, "a": [1, 2.5, None, True], "C": {"deep": "ü\u2028\t\"q\""}},
    "empty": "", "zero": 0, "big": 123456789012345678901234567890, "half": 0.5, "whole": 2.0, "small": 1e-7, "large": 1e22,
    "yes": True, "nothing": None, "spaces": "  a  b \n c ", "lines": "one\ntwo\r\nthree\n\nfour", "items_dict": {"items": 1, "get": 2},
    "emoji": "a😀b", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}],
}

# Each is a template; what jinja2 makes of it, text or an error, is recorded.
TEMPLATES = r"""
{{ 1 }} {{ 1.0 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 12_000 }} {{ true }} {{ True }} {{ none }} {{ None }} {{ big }} {{ small }} {{ large }} {{ whole }}
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 3 ** 2 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ -2 ** 2 }}
{{ 1 + 1.0 }} {{ 3 * 'ab' }} {{ 'ab' * 2 }} {{ [1] * 2 }} {{ [1] + [2] }} {{ (1, 2) + (3,) }} {{ true + 1 }} {{ 1 ~ 2 ~ none ~ true ~ 1.0 }}
{{ 'a' + 1 }}
{{ 1 + 'a' }}
{{ none + 1 }}
{{ 1 / 0 }}
{{ 'a' < 'b' }} {{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' == 1 }} {{ [1, 2] == [1, 2] }} {{ [1] < [2] }} {{ {'a': 1} == {'a': 1.0} }} {{ none == none }} {{ 1 != 2 }}
{{ 1 < 'a' }}
{{ none < 1 }}
{{ 'a' in 'cat' }} {{ 'x' not in 'cat' }} {{ 2 in [1, 2] }} {{ 'a' in {'a': 1} }}
{{ 1 in 'a' }}
{{ 'a' in none }}
{{ 'a' in nothing_here }} {{ 'a' not in nothing_here }}
{{ nothing_here }}|{{ nothing_here is defined }}|{{ nothing_here is undefined }}|{{ nothing_here|length }}|{{ nothing_here|default('d') }}|{{ nothing_here or 'or' }}|{{ not nothing_here }}|{{ nothing_here == other_nothing }}|{% for x in nothing_here %}x{% else %}none{% endfor %}|{{ nothing_here ~ 'x' }}|{{ nothing_here is string }}{{ nothing_here is iterable }}{{ nothing_here is sequence }}{{ nothing_here is mapping }}{{ nothing_here is none }}
{{ nothing_here.attribute }}
{{ nothing_here['key'] }}
{{ nothing_here + 'x' }}
{{ 'x' + nothing_here }}
{{ nothing_here() }}
{{ nothing_here < 1 }}
{{ -nothing_here }}
{{ nothing_here|tojson }}
{{ table.missing }}|{{ table.missing is defined }}|{{ none.x is defined }}|{{ 5.x is defined }}|{{ (5).x is defined }}|{{ 'abc'.x is defined }}|{{ words.x is defined }}|{{ words[99] is defined }}|{{ table['missing'] is defined }}|{{ words['x'] is defined }}|{{ table[words] is defined }}
{{ table.missing.deeper }}
{{ items_dict.items is callable }} {{ items_dict['items'] }} {{ items_dict.get('get') }} {{ items_dict['get'] }} {{ table.get('zz') }} {{ table.get('zz', 3) }}
{{ table }} {{ words }} {{ (1,) }} {{ () }} {{ [] }} {{ {} }} {{ ['a"b', "a'b", 'a\'b"c', 'ü\u2028\x07\n\\'] }} {{ [1.0, none, true, 1e22] }} {{ {1: 2, 'a': (1, 'b')} }}
{{ table|tojson }} {{ table|tojson(indent=2) }} {{ table|tojson(ensure_ascii=True) }} {{ table|tojson(separators=(',', ':')) }} {{ table|tojson(sort_keys=True) }} {{ []|tojson(indent=2) }} {{ {}|tojson(indent=2) }} {{ {1: 2, none: 1, true: 0, 1.5: 1}|tojson }} {{ text|tojson }} {{ emoji|tojson(ensure_ascii=true) }} {{ (1, 2)|tojson }} {{ [[], {}, [[]]]|tojson(indent=1) }} {{ '\x7f'|tojson }} {{ '\x7f\x01'|tojson(ensure_ascii=true) }} {{ big|tojson }} {{ whole|tojson }} {{ small|tojson }} {{ table|tojson(indent=0) }} {{ table|tojson(indent=2, separators=(';', '=')) }}
{{ words[0] }} {{ words[-1] }} {{ words[1:3] }} {{ words[::-1] }} {{ words[::2] }} {{ words[3:0:-2] }} {{ words[-2:] }} {{ words[:-2] }} {{ words[10:] }} {{ emoji[1] }} {{ emoji[::-1] }} {{ emoji[1:] }} {{ emoji[-1] }} {{ 'abcdef'[4:1:-1] }} {{ (1, 2, 3)[1:] }} {{ words[true] }} {{ words[1:none] }} {{ words[none::2] }} {{ 'abc'[-5:2] }} {{ 'abc'[::-2] }}
{{ words[::0] }}
{{ words['a':] }}
{{ words.0 }} {{ table.a.1 }} {{ people[0].tags[1] }} {{ people.1.name }}
{{ text|upper }}|{{ text|lower }}|{{ text|title }}|{{ text|capitalize }}|{{ 'foo-bar baz(q)'|title }}|{{ "they're bill's"|title }}|{{ "they're bill's".title() }}|{{ text.swapcase() }}|{{ 'straße'|upper }}
{{ spaces|trim }}|{{ spaces.strip() }}|{{ spaces.lstrip() }}|{{ spaces.rstrip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'xyaxy'|trim('xy') }}|{{ '\n\n a \n'.lstrip('\n') }}|{{ 'éaé'.strip('é') }}|{{ '\u3000a\x1f'.strip() }}|{{ 5|trim }}
{{ 'a,b,,c'.split(',') }} {{ 'a,b,,c'.split(',', 1) }} {{ 'a,b,,c'.rsplit(',', 1) }} {{ spaces.split() }} {{ spaces.split(none, 1) }} {{ spaces.rsplit(none, 1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'ab'.split('ab') }} {{ 'a</t>b</t>c'.split('</t>')[-1] }} {{ 'a,b'.split(sep=',', maxsplit=0) }}
{{ 'a'.split('') }}
{{ lines.splitlines() }} {{ lines.splitlines(true) }} {{ 'a-b-c'.partition('-') }} {{ 'a-b-c'.rpartition('-') }} {{ 'abc'.partition('x') }} {{ 'abc'.rpartition('x') }}
{{ 'abc'.startswith('a') }} {{ 'abc'.startswith(('x', 'ab')) }} {{ 'abc'.endswith('bc') }} {{ 'abc'.endswith(('x',)) }} {{ 'banana'.find('na') }} {{ 'banana'.rfind('na') }} {{ 'banana'.find('x') }} {{ 'banana'.count('an') }} {{ 'abc'.count('') }} {{ 'üb'.find('b') }}
{{ 'abc'.startswith(1) }}
{{ 'abc'.index('x') }}
{{ 'banana'.replace('a', 'o') }} {{ 'banana'.replace('a', 'o', 2) }} {{ 'ab'.replace('', '-') }} {{ 'banana'|replace('an', '') }} {{ 'banana'|replace('a', 'o', 1) }} {{ 5|replace(5, 6) }}
{{ 'a'.replace(1, 2) }}
{{ 'abc'.join(['1', '2']) }} {{ ''.join(words) }} {{ ', '.join('xyz') }} {{ words|join }} {{ words|join(', ') }} {{ numbers|join('-') }} {{ people|join(', ', attribute='name') }} {{ table|join(' ') }}
{{ ', '.join([1]) }}
{{ 'a'.ljust(3) }}|{{ 'a'.rjust(3) }}|{{ 'a'.center(4) }}|{{ 'ab'.center(5) }}|{{ '7'.zfill(3) }}|{{ '-7'.zfill(4) }}|{{ 'a'.ljust(3, '*') }}|{{ 'a'|center(5) }}|{{ 'prefix-x'.removeprefix('prefix-') }}|{{ 'x.py'.removesuffix('.py') }}
{{ 'abc'.isalpha() }} {{ 'a1'.isalnum() }} {{ '12'.isdigit() }} {{ ''.isdigit() }} {{ ' '.isspace() }} {{ 'ABC'.isupper() }} {{ 'aBC'.isupper() }} {{ 'abc'.islower() }} {{ '1'.islower() }} {{ 'Ab Cd'.istitle() }} {{ 'ü'.isalpha() }} {{ '½'.isnumeric() }} {{ '½'.isdigit() }}
{{ words.append(1) }}
{{ table.update({'a': 1}) }}
{{ table.pop('a') }}
{{ words.sort() }}
{{ words.index('fig') }} {{ words.count('fig') }} {{ table.keys()|list }} {{ table.values()|list }} {{ table.items()|list }} {{ table|items|list }} {{ table.copy() == table }}
{% for k, v in table.items() %}{{ k }}={{ v }};{% endfor %}{% for k, v in table|items %}{{ loop.index }}{{ k }};{% endfor %}{% for k in table %}{{ k }}{% endfor %}{% for c in emoji %}[{{ c }}]{% endfor %}
{% for a, b in [(1, 2), [3, 4]] %}{{ a }}{{ b }}{% endfor %}{% for a, b in ['xy', 'zw'] %}{{ b }}{% endfor %}
{% for a, b in [1] %}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{% endfor %}
{% for x in none %}{% endfor %}
{% for x in 5 %}{% endfor %}
{% for w in words %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.revindex }}/{{ loop.revindex0 }}/{{ loop.first }}/{{ loop.last }}/{{ loop.length }}/{{ loop.depth }}/{{ loop.previtem }}/{{ loop.nextitem }}/{{ loop.cycle('a', 'b') }}/{{ loop.changed(w|lower) }}; {% endfor %}
{% for w in words if w|lower == w %}{{ loop.index }}{{ w }}{{ loop.last }}{% else %}no{% endfor %}{% for w in words if w == 'zz' %}x{% else %}no{% endfor %}
{% for w in words %}{% if w == 'fig' %}{% break %}{% endif %}{% if loop.first %}{% continue %}{% endif %}{{ w }}{% endfor %}
{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}
{% for i in [1, 2] %}{% if y is defined %}{{ y }}{% endif %}{% set y = i %}{% endfor %}{{ y is defined }}
{% if true %}{% set z = 3 %}{% endif %}{{ z }}{% if false %}{% set q = 1 %}{% endif %}{{ q is defined }}
{% set ns = namespace(a=1, b=[]) %}{% for i in [1, 2, 3] %}{% set ns.a = ns.a + i %}{% set ns.b = ns.b + [i] %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}{{ ns['a'] }}
{% set d = {} %}{% set d.x = 1 %}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set t = 1, 2 %}{{ t }}{% set block %}x{{ a }}y{% endset %}[{{ block }}]{% set up | upper | trim %} abc {% endset %}[{{ up }}]
{% macro greet(name, greeting='Hi', *) %}{% endmacro %}
{% macro greet(name, greeting='Hi', mark=greeting[0]) %}{{ greeting }} {{ name }}{{ mark }}{% endmacro %}{{ greet('Ada') }}|{{ greet('Bob', 'Yo') }}|{{ greet(name='C', mark='?') }}|{{ greet() }}|{{ greet is callable }}|{{ greet('x')|upper }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, b=2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}
{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, k=4) }}
{% macro fact(n) %}{{ n * (fact(n - 1)|int) if n > 1 else 1 }}{% endmacro %}{{ fact(5) }}
{% set outer = 'o' %}{% macro m() %}{{ outer }}{{ later }}{% set outer = 'inner' %}{{ outer }}{% endmacro %}{{ m() }}{{ outer }}
{% macro box(title) %}<{{ title }}>{{ caller() }}</{{ title }}>{% endmacro %}{% call box('b') %}in{{ 1 + 1 }}{% endcall %}
{% macro each(xs) %}{% for x in xs %}{{ caller(x, loop.index) }}{% endfor %}{% endmacro %}{% call(x, i) each(words) %}{{ i }}:{{ x }} {% endcall %}
{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}
{% filter upper %}abc {{ 'def' }}{% endfilter %}{% filter replace('a', 'b')|trim %}  aaa  {% endfilter %}
{% with a = 1, b = 2 %}{{ a + b }}{% set c = 3 %}{% endwith %}{{ a is defined }}{{ c is defined }}
{% generation %}{% set g = 1 %}abc{% endgeneration %}{{ g is defined }}
{% raw %}{{ not }} {% rendered %}{% endraw %}|{%- raw -%} x {%- endraw -%} |
{# comment #}a{#- trims -#} b {# {{ x }} #}c
a {%- if true -%} b {%- endif -%} c {{- ' d ' -}} e
a {%+ if true +%} b {%+ endif %} c
{{ 1 if true }}{{ 1 if false }}|{{ 1 if false else 2 }}|{{ 1 if false else 2 if false else 3 }}
{{ 'a' if nothing else 'b' }}{{ '' or 'x' }}{{ 0 or none or [] or 'last' }}{{ 1 and 2 }}{{ 0 and 2 }}{{ not 1 }}{{ not '' }}{{ 1 or 1 / 0 }}
{{ 5 is number }}{{ 5 is integer }}{{ 5.0 is float }}{{ true is number }}{{ true is integer }}{{ true is boolean }}{{ 1 is true }}{{ true is true }}{{ false is false }}{{ none is none }}{{ 'a' is string }}{{ [] is sequence }}{{ {} is mapping }}{{ {} is sequence }}{{ 'a' is iterable }}{{ 5 is iterable }}{{ 5 is sequence }}{{ (1,) is sequence }}{{ 3 is odd }}{{ 4 is even }}{{ 9 is divisibleby 3 }}{{ 9 is divisibleby(2) }}{{ 'a' is lower }}{{ 'A' is upper }}{{ 1 is in [1] }}{{ 1 is eq 1 }}{{ 1 is equalto 2 }}{{ 2 is gt 1 }}{{ 2 is lessthan 1 }}{{ 1 is not none }}{{ 1 is sameas 1 }}{{ 1 is sameas true }}{{ range is callable }}{{ 'upper' is filter }}{{ 'odd' is test }}{{ 'x' is escaped }}
{{ 1 is defined and 2 is defined or x }}{{ not 1 is string }}{{ 1 is string or 2 is number }}{{ 2 if 1 is number else 3 }}
{{ numbers|sort }}{{ words|sort }}{{ words|sort(case_sensitive=true) }}{{ words|sort(reverse=true) }}{{ people|sort(attribute='age')|map(attribute='name')|list }}{{ numbers|min }}{{ numbers|max }}{{ words|max }}{{ numbers|sum }}{{ people|sum('age') }}{{ people|sum(attribute='age', start=100) }}{{ []|sum }}{{ []|max is defined }}
{{ [1, 'a']|sort }}
{{ words|unique|list }}{{ words|unique(case_sensitive=true)|list }}{{ [1, 1.0, true, 2]|unique|list }}{{ words|reverse|list }}{{ 'abc'|reverse }}{{ numbers|first }}{{ numbers|last }}{{ []|first is defined }}{{ 'abc'|first }}{{ 'abc'|last }}{{ table|first }}{{ 'abc'|list }}{{ table|list }}{{ table|dictsort }}{{ {'b': 1, 'a': 3}|dictsort(by='value') }}{{ {'b': 1, 'a': 3}|dictsort(reverse=true) }}
{{ words|map('upper')|list }}{{ people|map(attribute='name')|join(',') }}{{ people|map(attribute='tags.0', default='-')|list }}{{ words|map('replace', 'p', 'q')|list }}{{ numbers|select('gt', 2)|list }}{{ numbers|reject('odd')|list }}{{ numbers|select|list }}{{ people|selectattr('tags')|map(attribute='name')|list }}{{ people|selectattr('age', 'equalto', 36)|map(attribute='name')|list }}{{ people|rejectattr('tags', 'defined')|map(attribute='name')|list }}{{ none|selectattr('x')|list }}{{ nothing_here|map('upper')|list }}
{% if words|select('equalto', 'zzz') %}lazy is true{% endif %}
{{ words|map('nosuch')|list }}
{{ 'x'|default('d') }}{{ ''|default('d') }}{{ ''|default('d', true) }}{{ none|default('d') }}{{ none|default('d', true) }}{{ table.zz|d('e') }}{{ ''|default('d', boolean=true) }}
{{ '42'|int }}{{ '42.9'|int }}{{ 'x'|int }}{{ 'x'|int(7) }}{{ '0x1f'|int(base=16) }}{{ 3.99|int }}{{ -3.99|int }}{{ true|int }}{{ none|int }}{{ ' 12 '|int }}{{ '1_000'|int }}{{ '123456789012345678901234567890'|int }}|{{ '3.5'|float }}{{ 'x'|float }}{{ 'x'|float(1.5) }}{{ 3|float }}{{ '1e3'|float }}|{{ 2.5|round }}{{ 3.5|round }}{{ 2.567|round(2) }}{{ 2.1|round(method='ceil') }}{{ 2.9|round(0, 'floor') }}{{ 5|round }}{{ 1234|round(-2) }}{{ 2.675|round(2) }}|{{ -3|abs }}{{ -2.5|abs }}{{ true|abs }}
{{ 'a\nb\n\nc'|indent }}|{{ 'a\nb'|indent(2, true) }}|{{ 'a\n\nb'|indent(2, blank=true) }}|{{ 'a\nb'|indent('> ', first=true) }}|{{ 'a\n'|indent }}|{{ ''|indent(first=true) }}
{{ 5|indent }}
{{ text|escape }}{{ text|e }}{{ text|safe }}{{ '<'|safe + '<' }}{{ '<' + '<'|safe }}{{ '<'|safe ~ '<' }}{{ ('<'|safe + '"\'')|upper }}{{ '<'|e|e }}{{ ('<'|safe)[0] + '&' }}{{ ['<'|safe] }}{{ '<'|safe|string + '>' }}{{ ('<'|safe).join(['&']) }}
{{ text|string }}{{ 5|string + 'x' }}{{ words|string }}{{ none|string }}{{ text|length }}{{ emoji|length }}{{ table|length }}{{ words|count }}
{{ 5|length }}
{{ none|length }}
{{ 'a' ~ 1 + 2 }}
{{ 1 ~ 2 + 3 ~ 4 }}
{{ x is defined if true else 0 }}
{{ range(3)|list }}{{ range(1, 4)|list }}{{ range(5, 0, -2)|list }}{{ dict(a=1, b=2) }}{{ dict({'x': 1}, y=2) }}{{ namespace(a=3).a }}
{{ range(0, 1, 0) }}
{{ range(1000000)|list|length }}
{{ strftime_now('%d %b %Y') }} {{ strftime_now('%Y-%m-%d %H:%M:%S %A %B %j %y %p') }}
{{ raise_exception('No ' + 'way') }}
{{ raise_exception() }}
{{ 'a' 'b' "c" }}{{ "q\"q" }}{{ 'q\'q' }}{{ '\x41\u00e9\U0001F600\101\0a\q\\' }}
{{ {'a': {'b': [1, {'c': 2}]}}.a.b[1].c }}{{ {}}}{{ {'a': 1,} }}{{ [1, 2,] }}{{ (1, 2,) }}
{{ messages[0]['role'] }}{{ messages[-1].content }}{{ messages|length }}{{ messages[0].content.upper() }}{{ messages | map(attribute='role') | join('>') }}
{{ 1, 2 }}{{ (1) }}{{ 1,  }}
{{ +5 }}{{ -half }}{{ --1 }}{{ not not 1 }}{{ -1|abs }}{{ 1 - 1 }}{{ 1 -1 }}{{ 'x' * 0 }}{{ 'x' * -1 }}
{{ x.__class__ }}
{{ ''.__class__ }}
{{ words is nosuchtest }}
{{ words|nosuchfilter }}
{% nosuchtag %}
{% if %}{% endif %}
{% for x in words %}
{{ 'unclosed }}
{{ (1 }}
{{ 1 + }}
{% set 5 = 1 %}
{% endif %}
{{ a b }}
{% if true %}{% else %}
{% break %}
{{ 1 is }}
x{% if 1 %}
y{% endif %}
z
  {% if 1 %}
  indented
  {% endif %}
after {% if 1 %} inline {% endif %} text
  {{ 1 }}
  {# c #}
end

"""

# Templates of several lines, which the list above would cut.
BLOCKS = [
    "  {% for x in [1, 2] %}\n    {{ x }}\n  {% endfor %}\nend\n",
    "{{ 'a\\\nb' }}",
    "a\n  {%- if true %}\n  b\n  {%- endif %}\nc",
    "a\n\n{% if true %}\n\nb\n\n{% endif %}\n\nc\n\n",
    "{% if true %}\r\nx\r\n{% endif %}\r\ny\r",
    "  {# c #}  \n  x {# d #}\ny",
    "\t {% set x = 1 %} \n z",
    "{{ 'a\nb' }}\n{% raw %}\n  {{ x }}\n  {% endraw %}\nz",
    "{%- macro m(x) -%}\n  <{{ x }}>\n{%- endmacro -%}\n{{ m(1) }}\n{{- m(2) }}",
    "x  {%+ if true %}\n  y\n  {%+ endif %}\n z",
    "{{ 1 }}\n{{ 2 }}\n",
    "\n\n{% if 1 %}\n{% endif %}\n\n",
    "a\u00a0{%- if 1 %}b{% endif -%}\u2003c",
    "{% for m in messages %}\n    {%- if m.role == 'user' %}\n        {{- 'U:' + m.content }}\n    {%- else %}\n        {%- generation %}{{- 'A:' + m.content }}{%- endgeneration %}\n    {%- endif %}\n{%- endfor %}\n",
]


def compiled(source):
    # The cached form of transformers' own environment; strftime_now is a closure over the clock.
    template = chat_template_utils._compile_jinja_template(source)
    template.globals["strftime_now"] = lambda form: NOW.strftime(form)
    return template


def render(source, variables):
    try:
        return {"text": compiled(source).render(**variables)}
    except Exception as error:  # whatever ends a render in Python is an error here
        return {"error": type(error).__name__}


def small_rows():
    sources = [line for line in TEMPLATES.strip("\n").split("\n") if line]
    return [{"source": source, **render(source, VARIABLES)} for source in sources + BLOCKS]


def template_files():
    for path in sorted(glob.glob(os.path.join(DATA, "chat-templates", "**", "*"), recursive=True)):
        if not os.path.isfile(path):
            continue
        with open(path, encoding="utf-8", newline="") as file:
            source = file.read()
        yield os.path.relpath(path, DATA), json.loads(source)["chat_template"] if path.endswith(".json") else source


def function_tool(function):
    return {"type": "function", "function": function}


def conversations():
    """Conversations in the forms that chat templates meet: questions, tools, calls, answers, thinking."""
    for path in sorted(glob.glob(os.path.join(DATA, "bfcl", "BFCL_v4_*.json"))):
        answers = {}
        answer_path = os.path.join(DATA, "bfcl", "possible_answer_" + os.path.basename(path))
        if os.path.exists(answer_path):
            with open(answer_path, encoding="utf-8") as file:
                answers = {row["id"]: row["ground_truth"] for row in map(json.loads, file)}
        with open(path, encoding="utf-8") as file:
            for row in map(json.loads, file):
                yield from bfcl_conversations(row, answers.get(row["id"]))
    for path in sorted(glob.glob(os.path.join(DATA, "tau2", "*", "tasks.json"))):
        with open(os.path.join(os.path.dirname(path), "policy.md"), encoding="utf-8") as file:
            policy = file.read()
        with open(path, encoding="utf-8") as file:
            for task in json.load(file):
                yield tau2_conversation(task, policy)


def bfcl_conversations(row, answer):
    tools = [function_tool(function) for function in row.get("function", [])]
    messages = []
    for turn, asked in enumerate(row["question"]):
        messages = messages + asked
        yield {"messages": messages, **({"tools": tools} if tools else {}), "add_generation_prompt": True}
        calls = []
        if answer and isinstance(answer[0], dict):
            for call in answer:
                for name, arguments in call.items():
                    calls.append({"type": "function", "function": {"name": name, "arguments": {key: value[0] if value else None for key, value in arguments.items()}}})
        elif answer and turn < len(answer):
            calls = [{"type": "function", "function": {"name": str(call).split("(")[0], "arguments": {"call": call}}} for call in answer[turn]]
        if calls:
            messages = messages + [{"role": "assistant", "content": "<think>\nLet me see.\n</think>\n\n" if turn % 2 else "", "tool_calls": calls}]
            messages = messages + [{"role": "tool", "name": call["function"]["name"], "content": json.dumps(call["function"]["arguments"])} for call in calls]
        messages = messages + [{"role": "assistant", "content": "Done."}]
        yield {"messages": messages, **({"tools": tools} if tools else {}), "add_generation_prompt": False}


def tau2_conversation(task, policy):
    messages = [{"role": "system", "content": policy}]
    scenario = task.get("user_scenario") or {}
    messages.append({"role": "user", "content": scenario if isinstance(scenario, str) else json.dumps(scenario, ensure_ascii=False)})
    for action in (task.get("evaluation_criteria") or {}).get("actions") or []:
        arguments = action.get("arguments") or {}
        messages.append({"role": "assistant", "content": None if len(messages) % 3 == 0 else "Calling.", "tool_calls": [
            {"id": str(action.get("action_id")), "type": "function", "function": {"name": str(action.get("name")), "arguments": arguments}}]})
        messages.append({"role": "tool", "tool_call_id": str(action.get("action_id")), "content": json.dumps(arguments)})
    messages.append({"role": "assistant", "content": "\n\nAll done. \n", "reasoning_content": "I think so.\n"})
    messages.append({"role": "user", "content": "Thanks"})
    return {"messages": messages, "add_generation_prompt": True}


def write_large(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    rendered = errors = 0
    inputs = list(conversations())
    with open(path, "w", encoding="utf-8") as file:
        for row in inputs:
            file.write(json.dumps({"input": row}) + "\n")
        for name, source in template_files():
            hashes = []
            for row in inputs:
                answer = render(source, {"bos_token": "<s>", "eos_token": "</s>", **row})
                rendered += "text" in answer
                errors += "error" in answer
                hashes.append(fingerprint(answer["text"]) if "text" in answer else None)
            file.write(json.dumps({"template": name, "answers": hashes}) + "\n")
    print(f"templates: {len(inputs)} conversations; {rendered} renders, {errors} refusals in {path}")


def fingerprint(text):
    """Size and CRC-32 of the bytes: the whole texts would be gigabytes."""
    content = text.encode("utf-8", "surrogatepass")
    return [len(content), zlib.crc32(content)]


def main():
    path = os.path.join(HERE, "templates.jsonl")
    lines = [json.dumps({"variables": VARIABLES})] + [json.dumps(row, ensure_ascii=False) for row in small_rows()]
    content = "\n".join(lines) + "\n"
    if "--check" not in sys.argv[1:]:
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        return
    with open(path, encoding="utf-8") as file:
        if file.read() != content:
            sys.exit(f"{path} differs from what the reference makes; run src/text/goldens/make.sh")
    if os.path.isdir(DATA):
        write_large(os.path.join(ROOT, "build", "goldens", "templates_large.jsonl"))


if __name__ == "__main__":
    main()
