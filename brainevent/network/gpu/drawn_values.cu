// SPDX-License-Identifier: Apache-2.0
// Values of laws, as the loops of `on_cpu_values.py` draw them.

BE float value_of(const Distribution& of, u32 word) {
    float x;
    if (of.kind == UNIFORM) x = be_uniform(word, of.a, of.b);
    else if (of.kind == NORMAL) x = be_normal(word, of.a, of.b);
    else if (of.kind == LOGNORMAL) x = be_lognormal(word, of.a, of.b);
    else if (of.kind == EXPONENTIAL) x = be_exponential(word, of.a);
    else x = be_integer(word, of.a, of.b, of.span);
    return fminf(fmaxf(x, of.low), of.high);
}

