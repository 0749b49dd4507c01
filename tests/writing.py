"""The source text of functions at random, of expressions that have mostly the types they need."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import Any


class Writer:
    """Writes one function, whose arguments have the given shapes."""

    def __init__(self, random: Random, shapes: tuple[Any, ...]) -> None:
        self._random = random
        self._names = tuple("xyz"[: len(shapes)])
        self._scope: dict[str, list[str]] = {kind: [] for kind in _KINDS}
        self._locals = 0
        for name, shape in zip(self._names, shapes, strict=True):
            self._know(name, shape)

    def source(self) -> str:
        """A module with the function `function`."""
        parameters = ", ".join(self._names)
        if self._random.random() < 0.5:
            body = self._result(self._random.randint(1, 4))
            if self._random.random() < 0.3:
                closure = f"def make(k, word):\n    return lambda {parameters}: {body}\n"
                return f"{_MODULE}{closure}function = make(3, 'the')\n"
            return f"{_MODULE}k, word = 3, 'the'\nfunction = lambda {parameters}: {body}\n"
        lines = "\n".join(f"    {line}" for line in self._statements(self._random.randint(1, 4)))
        return f"{_MODULE}k, word = 3, 'the'\ndef function({parameters}):\n{lines}\n"

    def _know(self, source: str, shape: Any) -> None:
        """Enters an expression, and what is in it, as one of its shape."""
        match shape:
            case "any":
                for kind in _KINDS:
                    self._scope[kind].append(source)
            case str():
                self._scope[shape].append(source)
            case ("tuple", shapes):
                self._scope["sequence"].append(source)
                for at, of in enumerate(shapes):
                    self._know(f"{source}[{at}]", of)
            case ("list", of):
                self._scope["sequence"].append(source)
                self._know(f"{source}[0]", of)
                self._know(f"{source}[-1]", of)
            case ("dict", fields):
                self._scope["mapping"].append(source)
                for name, of in fields.items():
                    self._know(f'{source}["{name}"]', of)

    # Statements

    def _statements(self, depth: int) -> list[str]:
        lines = []
        for _ in range(self._random.randrange(3)):
            lines += self._statement(depth)
        return [*lines, *self._ending(depth)]

    def _statement(self, depth: int) -> list[str]:
        kind = self._random.randrange(8)
        if kind == 0 and self._scope["sequence"]:
            names = [self._new() for _ in range(2)]
            of = self._random.choice(self._scope["sequence"])
            self._scope["number"] += names
            return [f"{', '.join(names)} = {of}"]
        if kind == 1:
            left, right = self._new(), self._new()
            values = f"{self._number(depth - 1)}, {self._text(depth - 1)}"
            self._scope["number"].append(right)
            self._scope["text"].append(left)
            return [f"{left}, {right} = {values}", f"{left}, {right} = {right}, {left}"]
        if kind == 2:
            name = self._new()
            value = self._number(depth - 1)
            change = f"{name} {self._of('+', '-', '*', '//')}= {self._number(depth - 1)}"
            self._scope["number"].append(name)
            return [f"{name} = {value}", change]
        if kind == 3:
            return [f"if {self._truth(depth - 1)}:", f"    return {self._result(depth - 1)}"]
        if kind == 4:
            name = self._new()
            condition = self._truth(depth - 1)
            values = self._number(depth - 1), self._number(depth - 1)
            self._scope["number"].append(name)
            return [
                f"if {condition}:",
                f"    {name} = {values[0]}",
                "else:",
                f"    {name} = {values[1]}",
            ]
        name, kind_of = self._new(), self._random.choice(_KINDS)
        value = self._value(kind_of, depth - 1)
        self._scope[kind_of].append(name)
        return [f"{name} = {value}"]

    def _ending(self, depth: int) -> list[str]:
        if self._random.random() < 0.3:
            first, second = self._truth(depth - 1), self._truth(depth - 1)
            return [
                *(f"if {first}:", f"    return {self._result(depth - 1)}"),
                *(f"elif {second}:", f"    return {self._result(depth - 1)}"),
                *("else:", f"    return {self._result(depth - 1)}"),
            ]
        if self._random.random() < 0.1:
            return [
                *(f"if {self._truth(depth - 1)}:", "    raise ValueError('no')"),
                f"return {self._result(depth)}",
            ]
        return [f"return {self._result(depth)}"]

    def _new(self) -> str:
        self._locals += 1
        return f"v{self._locals}"

    # Expressions

    def _result(self, depth: int) -> str:
        """An expression of any kind; what holds several values more often."""
        if self._random.random() < 0.4:
            form = self._of("({}, {})", "[{}, {}]", "({}, {}, {})", "{{'p': {}, 'q': {}}}")
            return form.format(*[self._any(depth - 1) for _ in range(3)])
        return self._any(depth)

    def _any(self, depth: int) -> str:
        return self._value(self._random.choice(_KINDS), depth)

    def _value(self, kind: str, depth: int) -> str:
        if self._random.random() < 0.02:
            kind = self._random.choice(_KINDS)
        writers: dict[str, Callable[[int], str]] = {
            "number": self._number,
            "text": self._text,
            "flag": self._truth,
            "sequence": self._sequence,
            "mapping": self._mapping,
        }
        return writers[kind](depth)

    def _of(self, *choices: str) -> str:
        return self._random.choice(choices)

    def _fill(self, kind: str, depth: int, forms: str, leaves: str) -> str:
        """One of the forms, in which N, T, F, S, M and A stand for expressions of a kind."""
        if self._random.random() < 0.01:
            kind = self._random.choice(_KINDS)
        known = self._scope[kind]
        if known and self._random.random() < (0.8 if depth <= 0 else 0.3):
            return self._random.choice(known)
        form = self._of(*(leaves if depth <= 0 else forms).strip().split("\n")).strip()
        return re.sub(r"\b[NTFSMAI]\b|[@?]", lambda match: self._filled(match[0], depth - 1), form)

    def _filled(self, letter: str, depth: int) -> str:
        match letter:
            case "N":
                return self._number(depth)
            case "T":
                return self._text(depth)
            case "F":
                return self._truth(depth)
            case "S":
                return self._sequence(depth)
            case "M":
                return self._mapping(depth)
            case "A":
                return self._any(depth)
            case "I":  # no quotes of its own may stand in an f-string before Python 3.12
                known = self._scope["number"] + self._scope["text"]
                return self._random.choice(known) if known else "k"
            case "@":
                return self._of("+", "-", "*", "/", "//", "%", "+", "-")
            case "?":
                return self._of("<", "<=", "==", "!=", ">", ">=")
        return letter

    def _number(self, depth: int) -> str:
        return self._fill("number", depth, _NUMBERS, _CONSTANT_NUMBERS)

    def _text(self, depth: int) -> str:
        return self._fill("text", depth, _TEXTS, _CONSTANT_TEXTS)

    def _truth(self, depth: int) -> str:
        return self._fill("flag", depth, _TRUTHS, "True\nFalse\nFLAG")

    def _sequence(self, depth: int) -> str:
        return self._fill("sequence", depth, _SEQUENCES, "()\n(1, 2)\n[]\n['a']\nNAMES")

    def _mapping(self, depth: int) -> str:
        return self._fill("mapping", depth, _MAPPINGS, "{}\n{'a': 1}\n{'a': 1, 'b': 'the'}")


_KINDS = ("number", "text", "flag", "sequence", "mapping")
_MODULE = """\
import math
import operator
from operator import itemgetter
RATE, LIMIT, NAMES, FLAG, NOTHING = 0.908, 10, ("a", "b", "c"), True, None
TABLE, STOPPED = {"a": 1, "b": 2.5}, {"a", "the"}
def scale(n, by=2):
    return n * by if n else by
def clean(t):
    t = t.strip()
    return t.lower() if len(t) > 1 else t
def pick(one, other):
    return one or other
def rest(one, *others, **more):
    return (others, more, one)
def without(record, *names):
    return {name: value for name, value in record.items() if name not in names}
def twice(n):
    return (m := n) + m
first = itemgetter(0)
"""
_CONSTANT_NUMBERS = "0\n1\n2\n-1\n100\n0.5\n-0.0\n1e3\nRATE\nLIMIT\nk\n9223372036854775807"
_NUMBERS = """
(N @ N)
(N @ N)
(N @ k)
(-N)
(+N)
(N & 7)
(N | 1)
(N ^ N)
(N >> 2)
(N << 3)
(~N)
(N ** 2)
(N ** -1)
(N if F else N)
(N and N)
(N or N)
(F + F)
len(T)
len(S)
len(M)
int(N)
int(T)
float(N)
float(T)
abs(N)
round(N)
round(N, 2)
min(N, N)
max(N, N, N)
ord(T[:1])
T.find(T)
T.count('a')
M.get('a', N)
scale(N)
scale(N, 3)
scale(by=N, n=N)
operator.add(N, N)
sum([N, N])
(N if A is None else N)
S[0]
S[-1]
first(S)
M['a']
pow(N, 2)
math.floor(N)
math.ceil(N)
divmod(N, 7)[1]
(lambda q: q + N)(N)
twice(N)
pick(*(N, N))
N * TABLE['a']
len(TABLE)
TABLE.get('z', N)
pick(*S)
min(N, N, key=lambda q: -q)
max(S, S, key=first)
sum(range(N & 7))
sum(q for q in M.values())
"""
_CONSTANT_TEXTS = "''\n'a'\n' '\n','\n'the'\n'ß'\nword\nNAMES[1]"
_TEXTS = """
(T + T)
(T * 2)
(T if F else T)
(T or T)
(T and T)
T.lower()
T.upper()
T.strip()
T.lstrip()
T.rstrip(' a')
T.title()
T.replace('a', T)
T.removeprefix('a')
T.removesuffix(T)
T[1:]
T[:-1]
T[::-1]
T[0:3]
T[0]
T.split(',')[0]
str(N)
str(A)
repr(A)
f'''{I}'''
f'''{I:.2f}-{I}'''
f'''{I!r:>8}'''
f'''{I:,}|{I:05}|{I!a}'''
f'''{LIMIT}{word}{I!s}{RATE:.1f}'''
(lambda q, p: f'{q}:{p}')(A, A)
(lambda q: f'{q:.{k}f}')(N)
(lambda q: f'{q:,}')(N)
','.join([T, T])
T.join(S)
','.join(q for q in T.split())
clean(T)
str.lower(T)
chr(N & 127)
M.get('c', T)
(T % N)
format(N, '.1f')
','.join(map(str, S))
"""
_TRUTHS = """
(N ? N)
(N ? N)
(N ? N ? N)
(1 ? N ? LIMIT)
(0 ? N ? 9.5)
(k ? N ? k ? N)
(N in TABLE)
(T in STOPPED)
(T == T)
(T < T)
(T in T)
(T in ('a', 'the', ''))
(N in (1, 2.0, True))
(N not in S)
(T in M)
(A == A)
(A != A)
(not A)
(F and F)
(F or F)
(F if F else F)
(A is None)
(A is not None)
(A is True)
bool(A)
T.startswith(T)
T.endswith('a')
T.isdigit()
T.isalpha()
T.isspace()
isinstance(A, int)
math.isnan(N)
math.isinf(A)
math.isfinite(N)
isinstance(A, (str, float))
any([F, F])
all(q for q in S)
"""
_SEQUENCES = """
(N, T)
(A,)
[N, N]
[A]
(T, N, A)
T.split()
T.split(',')
T.split(None, 1)
T.rsplit(',', 1)
S[1:]
S[::-1]
(S + S)
(S * 2)
tuple(S)
list(S)
list(T)
[*S, A]
(*S, *S)
[q for q in S]
[(q, N) for q in S if q]
[q.lower() for q in T.split()]
[q + k for q in S if q != N]
[[p, q] for p, q in [(N, T), (N, T)]]
[[p for p in q] for q in S]
tuple(q for q in S if F)
[(p, q) for p, q in enumerate(S)]
[[p, q] for p, q in zip(S, S)]
[M[q] for q in ('a', 'b')]
[(q, N) for q in NAMES]
[q for q in (T, T) if q != 'a']
[N for q in range(2)]
list(M.items())
tuple(M.values())
list(reversed(S))
rest(N, T, A)
list(map(str, S))
list(filter(None, S))
[p for p in map(len, T.split())]
(S if F else S)
(S or S)
sorted([N, N])
"""
_MAPPINGS = """
{'a': N, 'b': T}
{'a': A}
{T: N, T: A}
{N: 1, N: 2}
{**M, 'k': A}
{'a': 0, **M}
{**M, **M}
(M | M)
dict(M)
dict(a=N, c=T)
dict(zip(NAMES, (N, T, A)))
dict(zip(NAMES, S))
dict(zip(S, S))
{q: p for q, p in M.items()}
{q: p for q, p in M.items() if q != 'a'}
{q: N for q in T.split()}
{q: 0 <= N < p for q, p in TABLE.items()}
{q: A for q in NAMES}
{q: M[q] for q in ('a', 'b') if q}
without(M, 'a', 'd')
(M if F else M)
(M or M)
"""
