"""Compares the rows that an engine finds in three versions of a file, for every form of a value."""

# The number of values of a column that are asked in every form. The first one is also cast to other types. All other
# values are asked in the first form only.
FULL = 2


def compare(count, forms, old, new, zero):
    """Asks for values by every form, and returns the numbers of questions and of lost rows.

    `forms` yields the number of a value, the name of a form and a question. `old` has no filters, `new` has filters,
    and all bits of the filters of `zero` are 0. A question that finds fewer rows in `zero` shows that the engine asks
    filters. `new` is asked only in such forms.
    """
    result = {"found": 0, "asked": [], "lost": {}}
    asked = result["asked"]
    for number, form, question in forms:
        if number >= FULL and form not in asked:
            continue
        before = ask(count, old, question)
        if not isinstance(before, int) or before == 0:
            continue
        result["found"] += 1
        if form not in asked and ask(count, zero, question) != before:
            asked.append(form)
        if form in asked:
            after = ask(count, new, question)
            if after != before:
                result["lost"].setdefault(form, f"{question}: {before} rows, then {after}"[:200])
    return result


def ask(count, path, question):
    try:
        return count(path, question)
    except BaseException as error:
        # DataFusion raises PanicException, which is no Exception.
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"error: {error}"[:80]


def quoted(text):
    return "'" + str(text).replace("'", "''") + "'"


def conditions(name, text, kind, cast, kinds, is_short):
    """Yields conditions that a value of the type `kind` fulfils. `kinds` are other types for casts."""
    typed, plain = cast(quoted(text), kind), quoted(text)
    yield "typed", f"{name} = {typed}"
    if is_short:
        return
    yield "text", f"{name} = {plain}"
    yield "number", f"{name} = {text}"
    yield "in", f"{name} in ({typed}, {typed})"
    yield "in texts", f"{name} in ({plain}, 'x')"
    yield "between", f"{name} between {typed} and {typed}"
    yield "distinct", f"{name} is not distinct from {typed}"
    yield "or", f"({name} = {typed} or {name} is null)"
    for other in kinds:
        yield f"value as {other}", f"{name} = {cast(typed, other)}"
        yield f"column as {other}", f"{cast(name, other)} = {cast(typed, other)}"
