"""hostile.py - constraints that are huge, deep, exponential or malformed: (kind, name, constraint), by cases()."""
K = 1000
obj = lambda **m: dict(type="object", **m)
deep = lambda n, inner, wrap: inner if n == 0 else deep(n - 1, wrap(inner), wrap)


def nest(n, open_, close, inner=""):
    return open_ * n + inner + close * n


def cases():
    # ---- regular expressions ----
    yield "regex", "1,500 word classes", r"\w" * 1500
    yield "regex", "1,500 word classes in brackets", r"[\w-]" * 1500
    yield "regex", "1,500 different classes", "".join(r"[\w%c]" % (0x4e00 + i) for i in range(1500))
    yield "regex", "300 negated properties", r"\P{L}" * 300
    yield "regex", "5,000 properties", r"\p{Lu}\p{Nd}" * 2500
    yield "regex", "case folded classes", r"(?i)" + r"[\w-]" * 2000
    yield "regex", "folded letters", r"(?i)" + "é" * 20000
    yield "regex", "exponential states", "(a|b)*a(a|b){24}"
    yield "regex", "exponential states, wide", ".*a.{30}"
    yield "regex", "states of a counter within a star", "(a{1,1000}b?)*c{1000}"
    yield "regex", "nested counters", "((a{1,100}){1,100}){1,100}"
    yield "regex", "counters 10^5 deep", "(((((a{99})?){99})?){99})?{99}"
    yield "regex", "nested stars", nest(190, "(", ")*", "a")
    yield "regex", "200 parentheses", nest(201, "(", ")", "a")
    yield "regex", "a million parentheses", nest(1 << 20, "(", ")", "a")
    yield "regex", "a million brackets", "[" * (1 << 20)
    yield "regex", "10^5 alternatives", "|".join("a%dz" % i for i in range(100 * K))
    yield "regex", "10^5 alternatives that share an end", "|".join("%06d.*x" % (i * 7919 % 999983) for i in range(100 * K))
    yield "regex", "10^5 alternatives with a star", "(" + "|".join("a*%d" % i for i in range(100 * K)) + ")*"
    yield "regex", "10^4 optional parts", "".join("a?" for _ in range(10 * K)) + "a" * 100
    yield "regex", "10^4 different optional parts", "".join("(x%d)?" % i for i in range(10 * K))
    yield "regex", "10 MB of a letter", "a" * (10 << 20)
    yield "regex", "10 MB of alternatives", "a|" * (5 << 20)
    yield "regex", "2 MB of a letter", "a" * (2 << 20)
    yield "regex", "2 MB of dots", "." * (2 << 20)
    yield "regex", "word borders", r"\b\w+\b" * 2000
    yield "regex", "borders within repetitions", nest(40, "(", r"\b|^)*", "a")
    yield "regex", "lines", "(?m)" + "(^a*$\n?)*" * 300
    yield "regex", "repetitions of borders", r"(\ba\B?){60}" * 50
    yield "regex", "a repetition that is too large", "a{100001}"
    yield "regex", "a NUL", "a\0b"
    yield "regex", "a NUL first", "\0"
    yield "regex", "NULs and repetitions", "\0*\0+\0{3}" * 1000
    yield "regex", "a byte that is no text", "a\ud800"
    yield "regex", "half a class", "[a-"
    yield "regex", "half an escape", "a\\"
    yield "regex", "half a code", "\\u12"
    yield "regex", "intersections of classes", "[" + "a-z&&" * 20000 + "a]"
    yield "regex", "nested classes", "[a" * 190 + "]" * 190
    yield "regex", "a long class", "[" + "".join(chr(0x100 + 2 * i) for i in range(20000)) + "]{3}"
    yield "regex", "10^4 long classes", ("[" + "".join(chr(0x100 + 2 * i) for i in range(100)) + "]") * 5000
    yield "regex", "suffixes", "(" + "|".join(".*" + "ab"[i & 1] * (i % 50) + chr(97 + i % 26) for i in range(2000)) + ")"

    # ---- JSON Schema ----
    yield "schema", "10^5 properties", obj(properties={"p%d" % i: {"type": "integer"} for i in range(100 * K)})
    yield "schema", "400 properties, all required", obj(properties={"p%d" % i: {"type": "integer"} for i in range(400)},
                                                     required=["p%d" % i for i in range(400)])
    yield "schema", "10^5 required names", obj(required=["p%d" % i for i in range(100 * K)])
    yield "schema", "10^5 values", {"enum": ["v%d" % i for i in range(100 * K)]}
    yield "schema", "10^5 values, objects", {"enum": [{"v": i} for i in range(100 * K)]}
    yield "schema", "10^5 numbers", {"enum": [i * 1.5 for i in range(100 * K)]}
    yield "schema", "10^5 alternatives", {"anyOf": [{"const": i} for i in range(100 * K)]}
    yield "schema", "10^5 alternatives, objects", {"anyOf": [obj(properties={"k%d" % i: {}}) for i in range(100 * K)]}
    yield "schema", "10^5 alternatives, exactly one", {"oneOf": [{"type": "string", "pattern": "^%d" % i} for i in range(100 * K)]}
    yield "schema", "2,000 alternatives, exactly one", {"oneOf": [obj(properties={"k%d" % i: {}}) for i in range(2000)]}
    yield "schema", "3,000 parts", {"allOf": [{"pattern": "a.{%d}b" % (i % 90)} for i in range(3000)]}
    yield "schema", "combinations", {"allOf": [{"anyOf": [obj(required=["a%d" % i]), obj(required=["b%d" % i])]} for i in range(40)]}
    yield "schema", "combinations of patterns", {"allOf": [{"anyOf": [{"pattern": "a.{%d}b" % i}, {"pattern": "c.{%d}d" % i}]}
                                                          for i in range(60)]}
    yield "schema", "patterns that meet", {"allOf": [{"type": "string", "pattern": "a.{%d}b" % i} for i in range(40)]}
    yield "schema", "patterns that exclude each other", {"type": "string", "allOf": [{"not": {"pattern": "a.{%d}b" % i}} for i in range(40)]}
    yield "schema", "primes", {"allOf": [{"type": "string", "pattern": "^(a{%d})+$" % i} for i in (2, 3, 5, 7, 11, 13, 17, 19, 23)]}
    yield "schema", "an exponential pattern", {"type": "string", "pattern": "a.{40}b.{40}$"}
    yield "schema", "a length of 10^5", {"type": "string", "minLength": 100 * K, "maxLength": 100 * K}
    yield "schema", "a length of 10^9", {"type": "string", "maxLength": 10**9}
    yield "schema", "a length and a pattern", {"type": "string", "maxLength": 50 * K, "pattern": "(ab|ba)*c"}
    yield "schema", "10^5 items", {"type": "array", "minItems": 100 * K}
    yield "schema", "10^9 items", {"type": "array", "minItems": 10**9, "items": {"type": "integer"}}
    yield "schema", "150,000 items, at most", {"type": "array", "maxItems": 150 * K, "minItems": 150 * K, "items": {"type": "null"}}
    yield "schema", "prefix items", {"type": "array", "prefixItems": [{"const": i} for i in range(100 * K)]}
    yield "schema", "items that contain", {"type": "array", "maxItems": 100, "allOf": [
        {"contains": {"const": i}, "minContains": 20, "maxContains": 30} for i in range(4)]}
    yield "schema", "10^5 members", obj(minProperties=100 * K)
    yield "schema", "patterns of names", obj(patternProperties={"a.{%d}b" % i: {"type": "integer"} for i in range(12)})
    yield "schema", "10^4 patterns of names", obj(patternProperties={"^x%d" % i: {} for i in range(10 * K)})
    yield "schema", "names with an exponential pattern", obj(propertyNames={"pattern": "a.{30}b"}, minProperties=3)
    yield "schema", "dependencies", obj(dependentRequired={"a%d" % i: ["a%d" % (i + 1)] for i in range(300)})
    yield "schema", "conditions", {"allOf": [{"if": obj(required=["a%d" % i]), "then": obj(required=["b%d" % i]),
                                             "else": obj(required=["c%d" % i])} for i in range(30)]}
    yield "schema", "a reference to itself", {"$ref": "#"}
    yield "schema", "a circle of references", {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}
    yield "schema", "exponential references", {
        "$defs": dict({"d0": {"type": "string"}}, **{"d%d" % i: obj(properties={"a": {"$ref": "#/$defs/d%d" % (i - 1)},
            "b": {"$ref": "#/$defs/d%d" % (i - 1)}}, required=["a", "b"]) for i in range(1, 200)}), "$ref": "#/$defs/d199"}
    yield "schema", "exponential alternatives", {
        "$defs": dict({"d0": {"type": "string"}}, **{"d%d" % i: {"anyOf": [{"$ref": "#/$defs/d%d" % (i - 1)},
            {"type": "array", "items": {"$ref": "#/$defs/d%d" % (i - 1)}}]} for i in range(1, 200)}), "$ref": "#/$defs/d199"}
    yield "schema", "exponential intersections", {
        "$defs": dict({"d0": {}}, **{"d%d" % i: {"allOf": [{"$ref": "#/$defs/d%d" % (i - 1)}, {"$ref": "#/$defs/d%d" % (i - 1)}]}
            for i in range(1, 60)}), "$ref": "#/$defs/d59"}
    yield "schema", "exponential negations", {
        "$defs": dict({"d0": obj(required=["x"])}, **{"d%d" % i: {"not": {"oneOf": [{"$ref": "#/$defs/d%d" % (i - 1)},
            obj(required=["k%d" % i])]}} for i in range(1, 40)}), "$ref": "#/$defs/d39"}
    yield "schema", "a list of 3,000 references", {"$defs": {"d%d" % i: {"$ref": "#/$defs/d%d" % (i + 1)} for i in range(3000)} |
                                                 {"d3000": {}}, "$ref": "#/$defs/d0"}
    yield "schema", "900 arrays deep", deep(100, {"type": "null"}, lambda s: {"type": "array", "items": s, "minItems": 1})
    yield "schema-text", "10^5 arrays deep", '{"items":' * (100 * K) + "{}" + "}" * (100 * K)
    yield "schema-text", "10^5 negations deep", '{"not":' * (100 * K) + "{}" + "}" * (100 * K)
    yield "schema-text", "a million brackets", "[" * (1 << 20)
    yield "schema-text", "10 MB of blanks", " " * (10 << 20) + "{}"
    yield "schema-text", "10 MB of a description", '{"description": "' + "x" * (10 << 20) + '"}'
    yield "schema-text", "10 MB of an enumeration", '{"enum": [' + ",".join('"%d"' % i for i in range(1200 * K)) + "]}"
    yield "schema-text", "a number of 10^6 digits", '{"minimum": ' + "9" * (1 << 20) + "}"
    yield "schema-text", "an exponent", '{"multipleOf": 1e-400000}'
    yield "schema-text", "a small multiple", '{"multipleOf": 0.000000000000000001, "minimum": 1e300}'
    yield "schema-text", "a large multiple", '{"type": "integer", "multipleOf": 4294967291}'
    yield "schema-text", "two multiples", '{"type": "integer", "allOf": [{"multipleOf": 99991}, {"multipleOf": 99989}]}'
    yield "schema-text", "a multiple and bounds", '{"type":"integer","multipleOf":999983,"minimum":5,"maximum":999982}'
    yield "schema-text", "nothing", ""
    yield "schema-text", "half a schema", '{"type": '
    yield "schema-text", "no schema", "3"

    # ---- GBNF ----
    yield "gbnf", "10^5 rules", "root ::= r0\n" + "".join("r%d ::= \"a\" r%d\n" % (i, i + 1) for i in range(100 * K)) + 'r100000 ::= "b"\n'
    yield "gbnf", "a list of 20,000 rules that begin so", "root ::= r0\n" + "".join("r%d ::= r%d \"a\"\n" % (i, i + 1) for i in range(20 * K)) + 'r20000 ::= "b"\n'
    yield "gbnf", "10^5 alternatives", "root ::= " + " | ".join('"a%d"' % i for i in range(100 * K))
    yield "gbnf", "10^5 alternatives of rules", "root ::= " + " | ".join("r" for i in range(100 * K)) + '\nr ::= "x" r | "y"'
    yield "gbnf", "left recursion", 'root ::= root "a" | root root | "b"'
    yield "gbnf", "left recursion in a circle of 2,000", "".join("%s ::= r%d \"a\" | \"b\"\n" % ("root" if i == 0 else "r%d" % i, (i + 1) % 2000)
                                                            for i in range(2000)).replace("r0 ", "root ")
    yield "gbnf", "ambiguous", 'root ::= e\ne ::= e "+" e | e "*" e | e e | "a" |'
    yield "gbnf", "nothing ends", "root ::= root"
    yield "gbnf", "a repetition of repetitions", 'root ::= ((("a" | root "b"){0,1900}){0,1900}){0,1900}'
    yield "gbnf", "exponential rules", "root ::= r0\n" + "".join("r%d ::= r%d r%d\n" % (i, i + 1, i + 1) for i in range(60)) + 'r60 ::= "a" | "b" r60'
    yield "gbnf", "many empty rules", "root ::= " + "e " * 5000 + '"a"\ne ::= "" | "b" e'
    yield "gbnf", "nested parentheses", "root ::= " + nest(1 << 20, "(", ")", '"a"')
    yield "gbnf", "10 MB of text", 'root ::= "' + "a" * (10 << 20) + '"'
    yield "gbnf", "palindromes", 'root ::= "a" root "a" | "b" root "b" | "a" | "b" |'
    yield "gbnf", "nested calls", 'root ::= "a" root root | ' + "| ".join('"a" root "%c" ' % (97 + i) for i in range(26)) + '| "a"'

    # ---- Lark ----
    yield "lark", "10^5 alternatives", "start: " + " | ".join('"a%d"' % i for i in range(100 * K))
    yield "lark", "10^5 rules", "start: r0\n" + "".join('r%d: "a" r%d\n' % (i, i + 1) for i in range(100 * K)) + 'r100000: "b"\n'
    yield "lark", "exponential terminals", "start: T0\n" + "".join("T%d: T%d T%d\n" % (i, i + 1, i + 1) for i in range(60)) + 'T60: "a"'
    yield "lark", "exponential templates", "start: t0{\"a\"}\n" + "".join("t%d{x}: t%d{x} t%d{x}\n" % (i, i + 1, i + 1) for i in range(60)) + "t60{x}: x"
    yield "lark", "templates that grow", 'start: t{"a"}\nt{x}: x | t{(x x)}'
    yield "lark", "a million parentheses", "start: " + nest(1 << 20, "(", ")", '"a"')
    yield "lark", "ignored text", 'start: a*\na: "x" a "y" | "x"\n%ignore /[ab]*c.{20}/\n'
    yield "lark", "a hostile terminal", "start: T\nT: /(a|b)*a(a|b){24}/"
    yield "lark", "repetitions", 'start: ((a~1..1900)~1..1900)~1..1900\na: "x" | "y" a'

    # ---- structural tags and choices ----
    fmt = lambda f: {"type": "structural_tag", "format": f}
    yield "tag", "a deep tag", fmt(deep(150, {"type": "any_text"}, lambda f: {"type": "sequence", "elements": [f]}))
    yield "tag", "10^5 elements", fmt({"type": "sequence", "elements": [{"type": "const_string", "value": "x%d" % i} for i in range(100 * K)]})
    yield "tag", "10^4 triggers", fmt({"type": "triggered_tags", "triggers": ["<%d>" % i for i in range(10 * K)], "tags": [
        {"begin": "<%d>" % i, "content": {"type": "any_text"}, "end": "</%d>" % i} for i in range(10 * K)]})
    yield "tag", "1,000 schemas", fmt({"type": "or", "elements": [{"type": "json_schema", "json_schema": obj(properties={"a%d" % i: {}})}
                                                              for i in range(1000)]})
    yield "tag", "200 hostile schemas", fmt({"type": "or", "elements": [
        {"type": "json_schema", "json_schema": {"type": "string", "allOf": [{"pattern": "a.{%d}b" % (k + i)} for k in range(20)]}}
        for i in range(200)]})
    yield "tag", "a hostile expression", fmt({"type": "regex", "pattern": "(.*a.{30}|b)*c"})
    yield "choice", "10^5 choices", ["choice %d" % i for i in range(100 * K)]
    yield "choice", "10^5 choices that end alike", ["%d" % i + "x" * 50 for i in range(100 * K)]
    yield "choice", "a choice of 10 MB", ["x" * (10 << 20)]
    yield "choice", "no choice", []
