"""What is left out of a module that is sent is nothing that it needs."""

from __future__ import annotations

import pytest

from runtime.http.pages.dense import dense


@pytest.mark.parametrize(
    ("source", "sent"),
    [
        ("const a = (b) => {\nreturn b === 1 ? { c: 2 } : [3, 4];\n};\n", "const a=(b)=>{return b===1?{c:2}:[3,4];};"),
        ("x = a + +b;\n", "x=a + +b;"),
        ('say("a = b, c; d" + "{ }");\n', 'say("a = b, c; d"+"{ }");'),
        ("say('a = b', c = d);\n", "say('a = b', c = d);"),
        ("say(`a = ${b}, c`);\n", "say(`a = ${b}, c`);"),
        ("const r = /a = b, c/;\n", "const r = /a = b, c/;"),
        ("a(); // What it is for, here\nb();\n", "a();b();"),
        ('a("http://b"); c(d, // first,\ne);\n', 'a("http://b"); c(d,e);'),
        (
            "s(`\n.a :is(b, c) { margin: calc(1em + 2em) }\n.d > .e {}\n`);\nx = 1;\n",
            "s(`\n.a :is(b,c){margin:calc(1em + 2em)}\n.d > .e{}\n`);x=1;",
        ),
        ("a\n(b)\n", "a\n(b)\n"),
        ("return a\n+ b\n", "return a\n+ b\n"),
    ],
)
def test_only_spaces_and_line_ends_that_nothing_needs_go(source: str, sent: str) -> None:
    assert dense(source) == sent
