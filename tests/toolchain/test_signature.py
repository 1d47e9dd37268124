# SPDX-License-Identifier: Apache-2.0
"""From C++ text to entry points: what is understood, what is refused in which words, and that no text breaks it."""

import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brainevent.errors import KernelError
from brainevent.toolchain.signature import ATTRIBUTE_TYPES, FunctionSpec, Parameter, normalize_tokens, resolve_functions

WHERE = "load_cpp_inline('kernels')"
PLAIN = "void f(const BE::Tensor x, BE::Tensor y) {}"
WITH_SCALE = "void f(const BE::Tensor x, BE::Tensor y, float scale) {}"


def resolve(source, functions=None):
    return resolve_functions(source, functions, WHERE)


def tokens_of(source, functions=None):
    return {spec.name: " ".join(spec.tokens) for spec in resolve(source, functions)}


def refusal(source, functions=None):
    with pytest.raises(KernelError) as caught:
        resolve(source, functions)
    assert type(caught.value) is KernelError
    assert WHERE in str(caught.value)
    return str(caught.value)


# ---- the description -----------------------------------------------------------------------------------------------


def test_a_function_is_described():
    (spec,) = resolve("void f(const BE::Tensor x, BE::Tensor y, float scale, int64_t stream) {}", ["f"])
    x, y, scale = Parameter("arg", "x"), Parameter("ret", "y"), Parameter("attr", "scale", "float32")
    assert spec == FunctionSpec("f", (x, y, scale, Parameter("stream", "stream")))
    assert (spec.operands, spec.results, spec.attributes) == ((x,), (y,), (scale,))
    assert spec.tokens == ("arg", "ret", "attr.scale:float32", "stream")
    assert len({spec, FunctionSpec("f", spec.parameters)}) == 1  # it can be a key


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        (["arg", "ret", "stream"], ["arg", "ret", "stream"]),
        (["args", "rets", "ctx.stream"], ["arg", "ret", "stream"]),
        (["attrs.n", "attrs.n:int32", "attr.n:int32"], ["attr.n", "attr.n:int32", "attr.n:int32"]),
        (("attrs.", "Arg", " ret", "attrsn", ""), ["attr.", "Arg", " ret", "attrsn", ""]),
        ([], []),
    ],
)
def test_tokens_are_normalized(given, canonical):
    assert normalize_tokens(given) == canonical


@pytest.mark.parametrize(("given", "words"), [("arg ret", "['arg', 'ret']"), ([1], "has 1, of type int"), (3, "int")])
def test_normalize_tokens_wants_a_list_of_strings(given, words):
    with pytest.raises(KernelError, match=re.escape(words)):
        normalize_tokens(given)


# ---- signatures ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("types", "token"),
    [
        ("bool", "bool"),
        ("int8_t|std::int8_t|::std::int8_t|char|signed char|char signed", "int8"),
        ("uint8_t|unsigned char|std::uint8_t", "uint8"),
        ("int16_t|short|short int|signed short", "int16"),
        ("uint16_t|unsigned short|unsigned short int", "uint16"),
        ("int32_t|int|signed|signed int|int signed", "int32"),
        ("uint32_t|unsigned|unsigned int|int unsigned", "uint32"),
        ("int64_t|long|long int|long long|long long int|signed long|std::int64_t", "int64"),
        ("uint64_t|unsigned long|unsigned long long|long unsigned int|size_t|std::size_t", "uint64"),
        ("float", "float32"),
        ("double", "float64"),
    ],
)
@pytest.mark.parametrize("form", ["{}", "const {}", "{} const", "[[maybe_unused]] {}", "/* a */ {} // b\n"])
def test_numbers_are_attributes(types, token, form):
    for written in types.split("|"):
        source = f"void f(BE::Tensor y, {form.format(written)} n) {{}}"
        assert tokens_of(source, ["f"]) == {"f": f"ret attr.n:{token}"}


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ("const BE::Tensor t", "arg"),
        ("BE::Tensor const t", "arg"),
        ("const BE::Tensor& t", "arg"),
        ("BE::Tensor const& t", "arg"),
        ("const BE::Tensor &t", "arg"),
        ("const Tensor t", "arg"),
        ("const ::BE::Tensor t", "arg"),
        ("const\n  BE ::\n  Tensor\n  t", "arg"),
        ("const BE::Tensor /* BE::Tensor */ t", "arg"),
        ("[[maybe_unused]] const BE::Tensor t", "arg"),
        ("BE::Tensor t", "ret"),
        ("BE::Tensor& t", "ret"),
        ("Tensor t", "ret"),
        ("BE::Tensor t = BE::Tensor({1, 2}, make<int>(3, 4))", "ret"),
        ("int64_t stream", "stream"),
        ("std::int64_t stream", "stream"),
        ("const int64_t stream", "stream"),
        ("cudaStream_t stream", "stream"),
    ],
)
def test_other_parameters_by_their_kind(declared, kind):
    (spec,) = resolve(f"void f({declared}, BE::Tensor y) {{}}", ["f"])
    assert [(p.kind, p.name) for p in spec.parameters] == [(kind, "stream" if kind == "stream" else "t"), ("ret", "y")]


@pytest.mark.parametrize("unnamed", ["const BE::Tensor", "BE::Tensor const&"])
def test_tensors_need_no_name(unnamed):
    (spec,) = resolve(f"void f({unnamed}, BE::Tensor);", ["f"])
    assert spec.parameters == (Parameter("arg"), Parameter("ret"))


@pytest.mark.parametrize(
    ("default", "rest"),
    [
        ("1.5f", ""),
        ("'\\''", ""),
        ("sizeof(int[3])", ""),
        ("pick({1, 2}, (3, 4))", ""),
        ("limits<float>::max()", ""),
        ("a < b", " attr.m:int32"),
        ("foo<int, Pair<1, (2 > 3)>>() + c<4, d>::value", " attr.m:int32"),
        ("a > b", " attr.m:int32"),
        ('length(")")', " attr.m:int32"),
        ("[](int k, int l) { return k; }(1, 2)", " attr.m:int32"),
    ],
)
def test_default_arguments_are_left_out(default, rest):
    source = f"void f(BE::Tensor y, float n = {default}{', int m' if rest else ''}) {{}}"
    assert tokens_of(source, ["f"]) == {"f": f"ret attr.n:float32{rest}"}


@pytest.mark.parametrize(
    "source",
    [
        "static void f(BE::Tensor y);",
        "inline void f(BE::Tensor y) {}",
        'extern "C" void f(BE::Tensor y) {}',
        'extern "C" { void f(BE::Tensor y) {} }',
        '#ifdef __cplusplus\nextern "C" {\n#endif\nvoid f(BE::Tensor y);\n#ifdef __cplusplus\n}\n#endif',
        "__host__ void f(BE::Tensor y);",
        "__host__ __device__ void f(BE::Tensor y) {}",
        '__attribute__((visibility("default"))) void f(BE::Tensor y);',
        'void __attribute__((visibility("default"))) f(BE::Tensor y);',
        "[[gnu::noinline]] void f(BE::Tensor y) {}",
        "EXPORTED(1, (2)) void f(BE::Tensor y) {}",
        "EXPORTED void CALLED f(BE::Tensor y) noexcept(true) {}",
        "namespace { void f(BE::Tensor y) {} }",
        "inline namespace v1 { void f(BE::Tensor y) {} }",
        "namespace a { void f(int n); } namespace b::c { void f(); } void f(BE::Tensor y) {}",
        "struct S { void f(int n); }; void f(BE::Tensor y) {}",
        "void f(BE::Tensor y); void f(BE::Tensor) { }",
        "void f(BE::Tensor); void f(Tensor& y) { }",
        "void g() { f(1); int x = f(2); { void f(int z); } }\nvoid f(BE::Tensor y) {}",
        "static int n = g() + f(3), m = f(4);\nvoid f(BE::Tensor y) {}",
        "int table[] = {f(1), f(2)};\nvoid f(BE::Tensor y) {}",
        "typedef void f_t(int); using f_u = void(int); void f(BE::Tensor y) {}",
        "template <class T, int n = 3> struct A { T t; };\nvoid f(BE::Tensor y) {}",
        "#define f_(x) void f(int x)\nvoid f(BE::Tensor y) {}",
        "#if A\nvoid f(BE::Tensor y) { if (a) {\n#else\nvoid f(BE::Tensor y) { if (b) {\n#endif\n } }\nvoid g() {}",
        "#if 0\nvoid f(int n);\n#if A\nvoid f(char n) {\n#endif\n#else\nvoid f(BE::Tensor y);\n#endif",
        "// void f(int n);\n/* void f(int n); */ void f(BE::Tensor y) {}",
        "// continued \\\nvoid f(int n);\nvoid f(BE::Tensor y) {}",
        'auto s = "void f(int n);"; auto t = R"x(" void f(int n) {)x"; char u = \'"\';\nvoid f(BE::Tensor y) {}',
        "int n = 1'000'000; /* ' */\nvoid f(BE::Tensor y) {}",
        "#error don't\nvoid f(BE::Tensor y) {}",
        "\r\nvoid\r\nf (\r\nBE::Tensor\r\ny)\r\n{}\r\n",
        "}} void f(BE::Tensor y)",
    ],
)
def test_the_function_is_found(source):
    assert tokens_of(source, ["f"]) == {"f": "ret"}
    assert resolve(source, {"f": ["ret"]})[0].parameters == (Parameter("ret", "y"),)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("namespace a { void f(BE::Tensor y) {} }", ["line 1", "namespace 'a'", "file scope"]),
        ('namespace a::b { extern "C" { void f(BE::Tensor y) {} } }', ["namespace 'a::b'"]),
        ("void a::f(BE::Tensor y) {}", ["namespace 'a'"]),
        ("\n__global__ void f(BE::Tensor y) {}", ["line 2", "__global__ kernel", "launches it"]),
        ("__global__ void __launch_bounds__(256) f(BE::Tensor y) {}", ["__global__ kernel"]),
        ("__device__ void f(BE::Tensor y) {}", ["__device__ function"]),
        ("template <typename T> void f(BE::Tensor y) {}", ["is a template"]),
        ("template <class T = int>\nvoid f(BE::Tensor y) {}", ["line 2", "is a template"]),
        ("int f(BE::Tensor y) {}", ["returns 'int'", "return void"]),
        ("static std::vector<int> f(BE::Tensor y) {}", ["vector<int>'", "return void"]),
        ("void* f(BE::Tensor y) {}", ["returns 'void*'"]),
        ("BE::Tensor f(BE::Tensor y) {}", ["returns 'BE::Tensor'"]),
        ("auto f(BE::Tensor y) -> void {}", ["returns 'auto'"]),
        (
            "void f(BE::Tensor y) {}\nvoid f(BE::Tensor y, int n) {}",
            ["overloaded", "line 1: f(BE::Tensor y)", "line 2"],
        ),
        ("void f(BE::Tensor y);\nvoid f(const BE::Tensor y);", ["overloaded", "line 2: f(const BE::Tensor y)"]),
        ("void f(BE::Tensor y) {}\nint f(int n) {}", ["line 2", "returns 'int'"]),
    ],
)
@pytest.mark.parametrize("functions", [["f"], {"f": []}, {"f": ["ret"]}])
def test_what_is_no_entry_point_is_refused(source, functions, words):
    text = refusal(source, functions)
    assert [word for word in ["'f'", *words] if word not in text] == []


@pytest.mark.parametrize(
    ("source", "name", "words"),
    [
        (
            PLAIN.replace(" f(", " forward("),
            "foward",
            ["'foward' not found", "did you mean 'forward'?", "give its tokens"],
        ),
        ("int main() { f(1); }", "f", ["'f' not found", "no 'void f(...)' at file scope"]),
        ("auto g = h(1);\nint a = (2;\nvoid f(BE::Tensor y) {}", "f", ["parenthesis of line 2 is never closed"]),
        ("#if 0\nvoid f(BE::Tensor y);\n#endif", "f", ["'f' not found"]),
        ("typedef void f(BE::Tensor y);", "f", ["'f' not found"]),
        ('const char* s = "void f(BE::Tensor y)";', "f", ["'f' not found"]),
        ("MACRO(void) f(BE::Tensor y);", "f", ["'f' not found"]),
        ("struct S { void f(BE::Tensor y) {} };", "f", ["'f' not found"]),
    ],
)
def test_a_missing_function_is_refused(source, name, words):
    text = refusal(source, [name])
    assert [word for word in words if word not in text] == []
    assert tokens_of(source, {name: ["arg", "ret"]}) == {name: "arg ret"}  # a macro may generate it


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ("float* n", "type 'float*' of parameter 'n'"),
        ("const float *n", "type 'const float*' of parameter 'n'"),
        ("float& n", "type 'float&' of parameter 'n'"),
        ("const float& n", "type 'const float&'"),
        ("float n[3]", "type 'float n[3]'"),
        ("BE::Tensor* n", "type 'BE::Tensor*'"),
        ("BE::Tensor&& n", "type 'BE::Tensor&&'"),
        ("std::vector<BE::Tensor> n", "type 'std::vector<BE::Tensor>'"),
        ("std::array<int, 3> n", "type 'std::array<int, 3>'"),
        ("void (*n)(int, int)", "type 'void(* n)(int, int)'"),
        ("flaot n", "type 'flaot' of parameter 'n' of 'f', line 3; did you mean 'float'?"),
        ("long double n", "type 'long double'"),
        ("unsigned float n", "type 'unsigned float'"),
        ("unsigned bool n", "type 'unsigned bool'"),
        ("signed unsigned n", "type 'signed unsigned'"),
        ("std::string n", "type 'std::string'"),
        ("__half n", "type '__half' of parameter 'n' of 'f', line 3; take arrays"),
        ("int n m", "type 'int n'"),
        ("auto n", "type 'auto'"),
        ("cudaStream_t s", "type 'cudaStream_t' of parameter 's'"),
        ("...", "type '...'"),
        ("void", "type 'void'"),
        ("", "type ''"),
    ],
)
def test_types_that_cannot_be_passed_are_refused(declared, words):
    source = f"\n\nvoid f(BE::Tensor y, {declared}, int m) {{}}"
    text = refusal(source, ["f"])
    assert f"Cannot map C++ {words}" in text
    assert "No Tensor" not in text


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ("", "No Tensor parameters found in void f() of line 1"),
        ("void", "No Tensor parameters found in void f()"),
        ("int n", "No Tensor parameters found in void f(int n)"),
        ("float* x", "No Tensor parameters found"),
        ("const BE::Tensor x, int n", "No non-const Tensor output found in void f(const BE::Tensor x, int n)"),
        ("BE::Tensor y, int", "parameter 2 of f(BE::Tensor y, int), line 1, has no name"),
        ("BE::Tensor y, int outs", "an attribute 'outs', which is taken"),
        ("BE::Tensor y, int größe", "attribute's name 'größe' is not an ASCII C identifier"),
        ("BE::Tensor y, int n, float n", "Duplicate attr 'n' of 'f'"),
        ("BE::Tensor y, int64_t stream, cudaStream_t stream", "Duplicate stream"),
    ],
)
def test_invalid_signatures_are_refused(parameters, words):
    assert words in refusal(f"void f({parameters}) {{}}", ["f"])


def test_names_of_tensors_that_are_not_ascii_are_forgotten():
    (spec,) = resolve("void f(const BE::Tensor größe, BE::Tensor y) {}", ["f"])
    assert spec.parameters == (Parameter("arg"), Parameter("ret", "y"))


# ---- annotations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "annotation",
    [
        "// @BE f arg ret attr.scale:float32",
        "//@BE f arg ret attr.scale:float32",
        "/// @BE f arg ret attr.scale:float32",
        "//\t @BE\tf\targ   ret\tattr.scale:float32  ",
        "// @BE f arg, ret, attr.scale:float32",
        "// @BE f: arg ret attr.scale:float32",
        "// @BE f:arg ret attr.scale:float32",
        "// @BE f args rets attrs.scale:float32 // scaled",
        "// @BE f arg ret attr.scale",
        "// @BE f arg ret attrs.scale// the type is looked up",
        "// @BE f",
        "// @BE f:",
        "// @BE f // all is inferred",
        "int n; // @BE f",
        "#define N 3 // @BE f",
        "  // @BE f",
        "/* a */ // @BE f",
        'auto s = R"(" /*)"; // @BE f',
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("first", [True, False])
def test_annotations(annotation, end, first):
    lines = [annotation, WITH_SCALE] if first else [WITH_SCALE, annotation]
    assert tokens_of(end.join(lines) + end) == {"f": "arg ret attr.scale:float32"}


@pytest.mark.parametrize(
    "source",
    [
        "",
        PLAIN,
        "/* @BE f arg ret */",
        "/* // @BE f arg ret */",
        "/*\n// @BE f arg ret\n*/",
        'auto s = "// @BE f arg ret";',
        'auto s = "\\"// @BE f arg ret";',
        'auto s = R"(\n// @BE f arg ret\n)";',
        'auto s = u8R"x(\n)"\n// @BE f arg ret\n)x";',
        "// see @BE f arg ret",
        "// @BEf arg ret",
        "// @be f arg ret",
        "// comment // @BE f arg ret",
        "// comment \\\n// @BE f arg ret",
        "#if 0\n// @BE f arg ret\n#endif",
    ],
)
def test_what_is_no_annotation(source):
    text = refusal(source)
    assert text.startswith("No '// @BE")
    assert "or pass functions" in text


def test_several_annotations_in_their_order():
    source = f"// @BE g ret\n{PLAIN}\n// @BE f\nvoid g(BE::Tensor z) {{}}\n"
    assert list(tokens_of(source).items()) == [("g", "ret"), ("f", "arg ret")]


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        ("// @BE f arg\n// @BE f arg ret", ["line 3", "Duplicate", "'f'"]),
        ("// @BE", ["line 2", "function's name '' is not an ASCII C identifier"]),
        ("// @BE // f", ["line 2", "function's name ''"]),
        ("// @BE 3f arg ret", ["line 2", "'3f' is not an ASCII C identifier"]),
        ("// @BE f();g ret", ["'f();g' is not an ASCII C identifier"]),
        ("// @BE fé ret", ["'fé' is not an ASCII C identifier"]),
        ("// @BE while ret", ["'while' is a keyword of C++"]),
        ("// @BE f arg ret \\\n// attr.n:int32", ["Invalid arg_spec token '\\\\'"]),
    ],
)
def test_invalid_annotations_are_refused(annotation, words):
    text = refusal(f"\n{annotation}\n{PLAIN}")
    assert [word for word in words if word not in text] == []


def test_functions_win_over_annotations():
    source = "// @BE 3f ret\n// @BE f ret ret ret\n" + PLAIN
    assert tokens_of(source, {"f": ["arg", "ret"]}) == {"f": "arg ret"}


# ---- tokens against signatures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "tokens"),
    [
        ("const BE::Tensor x, BE::Tensor y", "arg ret"),
        ("BE::Tensor x, BE::Tensor y", "arg ret"),  # const is only a convention
        ("BE::Tensor y, int n, const BE::Tensor x", "ret attr.n:int32 arg"),
        ("BE::Tensor y, uint16_t n", "ret attr.n:uint16"),
        ("BE::Tensor y, uint16_t n", "ret attr.n:float16"),
        ("BE::Tensor y, unsigned short n", "ret attr.n:bfloat16"),
        ("BE::Tensor y, float", "ret attr.n:float32"),
        ("BE::Tensor y, float other", "ret attr.n:float32"),
        ("BE::Tensor y, int64_t", "ret stream"),
        ("BE::Tensor y, cudaStream_t s", "ret stream"),
        ("BE::Tensor y, CUstream s", "ret stream"),  # the compiler knows the types that we do not
        ("BE::Tensor y, my::Number n", "ret attr.n:int32"),
        ("BE::Tensor y, int64_t stream", "ret attr.stream:int64"),
    ],
)
def test_tokens_that_fit(parameters, tokens):
    assert tokens_of(f"void f({parameters});", {"f": tokens.split()}) == {"f": tokens}


@pytest.mark.parametrize(
    ("parameters", "tokens", "words"),
    [
        ("const BE::Tensor x, BE::Tensor y", "ret arg", "parameter 1 is 'const BE::Tensor x', but its token is 'ret'"),
        ("BE::Tensor y", "ret ret", "2 tokens for 1 parameters"),
        ("BE::Tensor y, int n", "ret", "1 tokens for 2 parameters"),
        (
            "BE::Tensor y, double n",
            "ret attr.n:float32",
            "parameter 2 is 'double n', but its token is 'attr.n:float32'",
        ),
        ("BE::Tensor y, int16_t n", "ret attr.n:float16", "parameter 2 is 'int16_t n'"),
        ("BE::Tensor y, float n", "ret arg", "parameter 2 is 'float n'"),
        ("BE::Tensor y, BE::Tensor& n", "ret attr.n:int32", "parameter 2 is 'BE::Tensor& n'"),
        ("BE::Tensor y, int n", "ret stream", "parameter 2 is 'int n', but its token is 'stream'"),
        ("BE::Tensor y, int64_t stream", "ret ret", "parameter 2 is 'int64_t stream'"),
        ("BE::Tensor y, cudaStream_t stream", "ret attr.n:int64", "parameter 2 is 'cudaStream_t stream'"),
        ("BE::Tensor y, int a, int b", "ret attr.b:int32 attr.a:int32", "parameter 2 is 'int a'"),
        ("BE::Tensor y, float* n", "ret attr.n:float32", "Cannot map C++ type 'float*'"),
        ("BE::Tensor y, float* n", "ret attr.n", "Cannot map C++ type 'float*'"),
        ("BE::Tensor y, int number", "ret attr.numbr", "'numbr' not found in signature f(BE::Tensor y, int number)"),
        ("BE::Tensor y, int number", "ret attr.numbr", "did you mean 'number'?"),
        ("BE::Tensor y, BE::Tensor n", "ret attr.n", "Cannot map C++ type 'BE::Tensor'"),
    ],
)
def test_tokens_that_do_not_fit(parameters, tokens, words):
    text = refusal(f"\nvoid f({parameters}) {{}}", {"f": tokens.split()})
    assert words in text
    assert "line 2" in text or "tokens for" in text


def test_a_mismatch_shows_both_sides():
    text = refusal(f"// @BE f arg ret attr.scale:int32\n{WITH_SCALE}")
    assert "line 1" in text
    assert "tokens: arg ret attr.scale:int32;" in text
    assert "C++, line 2: void f(const BE::Tensor x, BE::Tensor y, float scale)" in text


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (["agr", "ret"], "Invalid arg_spec token 'agr' of 'f'; did you mean 'arg'?"),
        (["ret", ""], "Invalid arg_spec token ''"),
        (["ret", " arg"], "Invalid arg_spec token ' arg' of 'f'; did you mean 'arg'?"),
        (["ret", "atr.n:int32"], "did you mean 'attr.n:int32'?"),
        (["ret", "attr"], "Invalid arg_spec token 'attr'"),
        (["ret", "arg.x"], "Invalid arg_spec token 'arg.x'"),
        (["ret", "attr.:int32"], "the attribute's name '' is not an ASCII C identifier"),
        (["ret", "attr.n:"], "no type ''"),
        (["ret", "attr.n:flaot32"], "no type 'flaot32'; did you mean 'float32'?"),
        (["ret", "attr.n:complex64"], "no type 'complex64'"),
        (["ret", "attr.n:int32:int32"], "no type 'int32:int32'"),
        (["ret", "attr.n:int32\n"], "Invalid arg_spec token"),
        (["ret", "attr.n\n:int32"], "is not an ASCII C identifier"),
        (["ret", 'attr.n");system("x:int32'], "is not an ASCII C identifier"),
        (["ret", "attr.ñ:int32"], "'ñ' is not an ASCII C identifier"),
        (["ret", "attr.class:int32"], "'class' is a keyword of C++"),
        (["ret", "attr.outs:int32"], "an attribute 'outs', which is taken"),
        (["ret", "stream", "ctx.stream"], "Duplicate stream"),
        (["ret", "attr.n:int32", "attrs.n:int64"], "Duplicate attr 'n'"),
        (["arg", "attr.n:int32"], "no 'ret' among its tokens"),
        (["ret", "attr.n"], "give the type: 'attr.n:<type>'"),
    ],
)
def test_tokens_are_checked_without_a_signature(tokens, words):
    assert words in refusal("", {"f": tokens})


@pytest.mark.parametrize(
    ("functions", "words"),
    [
        ("f", "functions is the string 'f'; pass ['f']"),
        ([], "functions is empty"),
        ({}, "functions is empty"),
        (["f", 3], "functions has 3, of type int"),
        ([["f"]], "functions has ['f'], of type list"),
        (["f", "f"], "Duplicate entry for function 'f'"),
        ({3: ["ret"]}, "functions has 3"),
        ({"f": "arg ret"}, "the value of 'f' is the string 'arg ret'; pass a list: ['arg', 'ret']"),
        ({"f": None}, "the value of 'f' is None, of type NoneType"),
        ({"f": ["arg", None]}, "the value of 'f' has None"),
        ({"f": b"ret"}, "the value of 'f' has 114, of type int"),
        ({"f(x)": ["ret"]}, "'f(x)' is not an ASCII C identifier"),
        ({"f\n": ["ret"]}, "'f\\n' is not an ASCII C identifier"),
        (["int"], "'int' is a keyword of C++"),
        (7, "functions is 7; pass a dict, a list of names, or None"),
    ],
)
def test_invalid_functions_are_refused(functions, words):
    assert words in refusal(PLAIN, functions)


@pytest.mark.parametrize("functions", [["f"], ("f",), {"f": []}, {"f": ("arg", "ret")}, {"f": ["args", "rets"]}])
def test_ways_to_name_a_function(functions):
    assert tokens_of(PLAIN, functions) == {"f": "arg ret"}


# ---- functions that macros generate --------------------------------------------------------------------------------

SCALED = r"""
#define SCALED(NAME, T, ...)                                     \
  template <> void helper_##NAME<T>(T* x) { /* a, b */ }         \
  __global__ void kernel_##NAME(const T* x, T* y) {}             \
  void NAME##_##T(const BE::Tensor x, BE::Tensor y, T scale) {   \
    call(#NAME, x, y, scale, __VA_ARGS__);                       \
  }
"""
PASTED = r"""
#define PASTE_(A, B) A##B
#define PASTE(A, B) PASTE_(A, B)
#define PASTED(NAME, ...) void PASTE(NAME, _all)(BE::Tensor y, __VA_ARGS__) {}
"""


@pytest.mark.parametrize(
    ("source", "tokens"),
    [
        ("// @BE add_float\nSCALED(add, float)", {"add_float": "arg ret attr.scale:float32"}),
        ("// @BE f_int\n// twice\n\nSCALED ( f , int, 1, (2, 3) );", {"f_int": "arg ret attr.scale:int32"}),
        ("// @BE f_int args rets attrs.scale\nSCALED(f, int)", {"f_int": "arg ret attr.scale:int32"}),
        (
            "// @BE f_int\nSCALED(f, int)\n// @BE f_char\nSCALED(f, char)",
            {"f_int": "arg ret attr.scale:int32", "f_char": "arg ret attr.scale:int8"},
        ),
        ("// @BE f_all\nPASTED(f, int n, cudaStream_t stream)", {"f_all": "ret attr.n:int32 stream"}),
        ("#define M() void f(BE::Tensor y) {}\n// @BE f\nM()", {"f": "ret"}),
        ("#define M(P) void P##f(BE::Tensor y) {}\n// @BE f\nM()", {"f": "ret"}),
        (
            "#define M(P) void f(BE::Tensor y) {} void g##P(BE::Tensor y, int n) {}\n// @BE f\n// @BE g2\nM(2)",
            {"f": "ret", "g2": "ret attr.n:int32"},
        ),
        ("#define M(N) void N(BE::Tensor y)\n// @BE f\nM(f) {}", {"f": "ret"}),
        ("#define M(N) void N(BE::Tensor y) {} M(N)\n// @BE f\nM(f)", {"f": "ret"}),
        ("// @BE f\nM(f)\n#define M(N) void N(BE::Tensor y) {}", {"f": "ret"}),
        ("#define M(N, ...) void N(BE::Tensor y, ##__VA_ARGS__) {}\n// @BE f\nM(f, int n)", {"f": "ret attr.n:int32"}),
        ("#define M(N, args...) void N(BE::Tensor y, ## args) {}\n// @BE f\nM(f)", {"f": "ret"}),
    ],
)
def test_functions_from_macros(source, tokens):
    assert tokens_of(SCALED + PASTED + source) == tokens
    assert {name: tokens_of(SCALED + PASTED + source, [name])[name] for name in tokens} == tokens


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (SCALED + "// @BE add_int\nSCALED(add, float)", "'add_int' not found"),
        (SCALED + "// @BE add_float arg ret attr.scale:int32\nSCALED(add, float)", "parameter 3 is 'float scale'"),
        (SCALED + "// @BE kernel_add\nSCALED(add, float)", "__global__ kernel"),
        ("// @BE f\nUNKNOWN(f)", "'f' not found"),
        ("#define M (N) void f(BE::Tensor y) {}\n// @BE f\nM(f)", "'f' not found"),
        ("#define M(N) void N(BE::Tensor y) {}\n// @BE f\nint n;\nM(f)", "'f' not found"),
        ("#define M(N) void N(BE::Tensor y) {}\n// @BE f\nM(f", "parenthesis of line 3 is never closed"),
        ("#define M(N) M(N N) M(N N)\n// @BE f\nM(" + "x" * 50_000 + ")", "macros expand to over 2000000 characters"),
    ],
)
def test_invalid_macros_are_refused(source, words):
    assert words in refusal(source)


def test_tokens_are_trusted_where_no_signature_is_found():
    assert tokens_of("// @BE f arg ret attr.n:int32\nUNKNOWN(f)") == {"f": "arg ret attr.n:int32"}


# ---- whatever the text ---------------------------------------------------------------------------------------------

PIECES = [
    "void ", "f", "(", ")", "{", "}", "[", "]", "<", ">", ",", ";", "=", "::", "&", "*", "##", "#", "\\", "\n", "\r\n",
    "const ", "BE::Tensor ", "Tensor", "float ", "int64_t ", "stream", "template ", "__global__ ", "namespace ",
    'extern "C" ', "// @BE ", "// ", "/*", "*/", '"', "'", 'R"(', ')"', "#define M(x) ", "M(", "#if 0\n", "#else\n",
    "#endif\n", "arg ", "ret ", "attr.", "attr.n:int32 ", ":", "x##y", "é", "\x00", " ",
]  # fmt: skip
CODE = st.one_of(
    st.text(max_size=200), st.lists(st.sampled_from(PIECES), max_size=80).map("".join), st.just(SCALED + WITH_SCALE)
)
WORDS = st.one_of(st.sampled_from(["f", "ret", "arg", "attr.n:int32", "attr.n", "stream", "x y"]), st.text(max_size=8))
ANYTHING = st.one_of(WORDS, st.none(), st.integers(), st.binary(max_size=3))
FUNCTIONS = st.one_of(
    st.none(), ANYTHING, st.lists(ANYTHING, max_size=4),
    st.dictionaries(WORDS, st.lists(WORDS, max_size=5), max_size=3),
    st.dictionaries(ANYTHING, st.one_of(ANYTHING, st.lists(ANYTHING, max_size=3)), max_size=3),
)  # fmt: skip


def check_is_safe(source, functions):
    """Whatever is accepted can be written into C++; all else is a KernelError."""
    try:
        specs = resolve(source, functions)
    except KernelError as error:
        assert WHERE in str(error)  # noqa: PT017
        return
    assert specs
    for spec in specs:
        names = [spec.name, *(p.name for p in spec.parameters if p.kind == "attr" or p.name)]
        assert all(re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) for name in names)
        assert all((p.type in ATTRIBUTE_TYPES) if p.kind == "attr" else p.type == "" for p in spec.parameters)
        assert spec.results
        assert sum(p.kind == "stream" for p in spec.parameters) <= 1
        assert len({p.name for p in spec.attributes}) == len(spec.attributes)


@settings(max_examples=60)
@given(CODE, FUNCTIONS)
def test_no_text_breaks_it(source, functions):
    check_is_safe(source, functions)


@settings(max_examples=150)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_no_parameter_list_breaks_it(inside):
    forms = f"void f(BE::Tensor y, {inside});", f"{inside}\n;void f(BE::Tensor y);", f"// @BE f {inside}\n{PLAIN}"
    for source in forms:
        check_is_safe(source, ["f"])
        check_is_safe(source, {"f": ["ret", "attr.n:int32"]})
        check_is_safe(source, None)


@settings(max_examples=30)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=4), st.integers(1, 3_000))
def test_no_repetition_breaks_it(pieces, times):
    check_is_safe("".join(pieces) * times, ["f"])
    check_is_safe(f"void f({''.join(pieces) * times}) {{}}", ["f"])


@settings(max_examples=100)
@given(st.lists(ANYTHING, max_size=6))
def test_no_tokens_break_it(tokens):
    check_is_safe("", {"f": tokens})
    check_is_safe(WITH_SCALE, {"f": ["arg", "ret", *tokens]})


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("piece",
    ["(", "f(", "/*", '"', 'R"(', "//\\", "'", "1'", "\\\n", "{", "namespace a{", "#if 0\n", "// @BE a ret\nM(\n",
     "f()", "void f(BE::Tensor y);", "void f(", "<,", "=,", "[[", "::", "a::", "const ", "#define M(x) M(x)\n"],
)  # fmt: skip
@pytest.mark.parametrize(("form", "functions"), [("{}", None), ("{}", ["f"]), ("void f(BE::Tensor y, {})", ["f"])])
def test_long_texts_come_to_an_end(piece, form, functions):
    source = form.format(piece * (30_000 // len(piece)))
    assert len(source) > 29_000
    check_is_safe(source, functions)


# ---- there and back ------------------------------------------------------------------------------------------------

NAMES = st.text(string.ascii_letters + "_", min_size=1, max_size=6).map(lambda name: f"v{name}")
SPELLINGS = {
    "arg": ["const BE::Tensor {}", "BE::Tensor const& {}", "const Tensor& {}", "const\nTensor\t{}"],
    "ret": ["BE::Tensor {}", "Tensor {}", "BE::Tensor& {}"],
    "stream": ["int64_t stream", "cudaStream_t stream", "std::int64_t stream"],
}


@st.composite
def specs(draw):
    """Draw a description of a function, and a way to write it in C++."""
    names = iter(draw(st.lists(NAMES, min_size=9, max_size=9, unique=True)))
    kinds = ["ret", *draw(st.lists(st.sampled_from(["arg", "ret", "attr"]), max_size=6))]
    kinds = draw(st.permutations(kinds + ["stream"] * draw(st.booleans())))
    parameters, written = [], []
    for kind in kinds:
        name = "stream" if kind == "stream" else next(names)
        number = draw(st.sampled_from(sorted(ATTRIBUTE_TYPES))) if kind == "attr" else ""
        of_number = ATTRIBUTE_TYPES.get(number, "")
        forms = SPELLINGS.get(kind, [f"{of_number} {{}}", f"const {of_number} {{}} = 1"])
        parameters.append(Parameter(kind, name, number))
        written.append(draw(st.sampled_from(forms)).format(name))
    name = next(names)
    head = draw(st.sampled_from(["void", "static void", 'extern "C" void', "\nvoid /* ( */"]))
    return FunctionSpec(name, tuple(parameters)), f'{head} {name}({", ".join(written)}) {{ call(\'"\', "}}"); }}'


@settings(max_examples=40)
@given(st.lists(specs(), min_size=1, max_size=4, unique_by=lambda pair: pair[0].name), st.booleans())
def test_a_description_comes_back_from_its_text(pairs, windows):
    expected = tuple(spec for spec, _ in pairs)
    lines = [f"// @BE {spec.name} {' '.join(spec.tokens)}" for spec in expected] + [text for _, text in pairs]
    source = ("\r\n" if windows else "\n").join(["// written by a test", *lines])
    assert resolve(source) == expected
    assert resolve(source, {spec.name: spec.tokens for spec in expected}) == expected
    bits = {"float16": "uint16", "bfloat16": "uint16"}  # C++ does not tell them apart
    inferred = tuple(
        FunctionSpec(spec.name, tuple(Parameter(p.kind, p.name, bits.get(p.type, p.type)) for p in spec.parameters))
        for spec in expected
    )
    assert resolve(source, [spec.name for spec in expected]) == inferred
