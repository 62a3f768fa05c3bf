"""Addition, subtraction, small products, counting and word problems.

Every sum of two two-digit numbers goes through Source.pair. a - b = c is keyed as the pair (b, c),
so a subtraction cannot leak a held-out sum. The thinking mode writes a column addition.
"""
import words
from common import Doc, Item, pair_key


def column_sum(a, b):
    """Return the written working of a + b."""
    lines, carry, place = [], 0, ("ones", "tens", "hundreds")
    for i in range(max(len(str(a)), len(str(b)))):
        x, y = a // 10 ** i % 10, b // 10 ** i % 10
        total = x + y + carry
        plus = f" + {carry}" if carry else ""
        lines.append(f"{place[i]}: {x} + {y}{plus} = {total}" + (", carry 1" if total > 9 else ""))
        carry = total // 10
    return "\n".join(lines) + f"\nSo {a} + {b} = {a + b}."


ASK_SUM = ["What is {} + {}?", "{} + {} = ?", "Add {} and {}.", "{} + {}", "{}+{}", "{}+{}=", "What is {}+{}?", "How much is {} plus {}?", "Calculate {} + {}.",
           "What is {} plus {}?"]
ASK_DIFFERENCE = ["What is {} - {}?", "{} - {} = ?", "{} - {}", "{}-{}", "How much is {} minus {}?", "What is {} minus {}?"]
ASK_PRODUCT = ["What is {} * {}?", "{} * {} = ?", "{}*{}", "What is {} times {}?", "How much is {} times {}?"]


def addition(src):
    (a, b), key = src.pair()
    return Item("add", src.choice(ASK_SUM).format(a, b), f"{a} + {b} = {a + b}", column_sum(a, b), [key])


def addition_small(src):
    a, b = src.randint(0, 20), src.randint(0, 9)
    return Item("add_small", src.choice(ASK_SUM).format(a, b), f"{a} + {b} = {a + b}", f"{a} + {b} = {a + b}.")


def subtraction(src):
    def draw():
        a = src.randint(2, 99)
        b = src.randint(1, a - 1)
        return b, a - b
    (b, c), key = src.fresh(draw, pair_key)
    return Item("subtract", src.choice(ASK_DIFFERENCE).format(b + c, b), f"{b + c} - {b} = {c}", f"{b + c} - {b} = {c}.", [key])


def product(src):
    a, b = src.randint(0, 10), src.randint(0, 10)
    return Item("multiply", src.choice(ASK_PRODUCT).format(a, b), f"{a} * {b} = {a * b}", f"{a} * {b} = {a * b}.")


def counting(src):
    start, n = src.randint(0, 60), src.randint(4, 10)
    shape = src.randrange(4)
    if shape == 0:
        numbers = range(start, start + n + 1)
        ask = f"Count from {numbers[0]} to {numbers[-1]}."
    elif shape == 1:
        numbers = range(start + n, start - 1, -1)
        ask = f"Count down from {numbers[0]} to {numbers[-1]}."
    elif shape == 2:
        numbers = range(2, 2 * n + 1, 2)
        ask = f"Count by twos up to {numbers[-1]}."
    else:
        numbers = range(start, start + 1)
        return Item("count", f"What number comes after {start}?", f"After {start} comes {start + 1}.")
    return Item("count", ask, ", ".join(map(str, numbers)))


def how_many(src):
    """Make a question about the number of times that a word occurs in a row."""
    names = src.sample(words.FRUIT, 2)
    row = [src.choice(names) for _ in range(src.randint(2, 6))]
    target = src.choice(names)
    n = row.count(target)
    ask = f"How many times is {target} in this list? {', '.join(row)}"
    return Item("how_many", ask, f"{sentence_count(n)}")


def sentence_count(n):
    return {1: "1 time"}.get(n, f"{n} times")


def compare(src):
    a, b = src.sample(range(100), 2)
    if src.chance(0.5):
        return Item("compare", f"Which is larger, {a} or {b}?", f"{max(a, b)} is larger.")
    return Item("compare", f"Which is smaller, {a} or {b}?", f"{min(a, b)} is smaller.")


GAIN = ["finds {n} more", "buys {n} more", "gets {n} more", "picks {n} more"]
LOSS = ["gives away {n}", "loses {n}", "eats {n}", "sells {n}"]


def word_problem(src):
    """Make a short story with one or two steps. The answer always follows thinking."""
    name, noun = src.first_name(), src.choice(words.FRUIT)
    a, b = src.randint(2, 60), src.randint(1, 9)  # one-digit steps: no two-digit sum can leak
    steps, total, think = [], a, []
    for n in (b, src.randint(1, 9))[:src.randint(1, 2)]:
        if n < total and src.chance(0.5):
            steps.append(src.choice(LOSS).format(n=n))
            think.append(f"{total} - {n} = {total - n}")
            total -= n
        else:
            steps.append(src.choice(GAIN).format(n=n))
            think.append(f"{total} + {n} = {total + n}")
            total += n
    ask = f"{name} has {words.count_of(a, noun)}. {name} {' and then '.join(steps)}. How many {words.plural(noun)} does {name} have now?"
    working = f"{name} starts with {a}.\n" + "\n".join(think)
    return Item("word_problem", ask, f"{name} has {words.count_of(total, noun)} now.", working)


def item(src):
    make = src.choices((addition, addition_small, subtraction, product, counting, how_many, compare, word_problem),
                       (50, 6, 10, 6, 6, 5, 5, 12))[0]
    return make(src)


def drill(src):
    """Make a page of sums in which only the results are learned: many sums in few tokens."""
    makers, doc = src.choice(((addition,), (addition,), (addition, addition_small), (subtraction, addition))), Doc("drill", parts=[])
    for _ in range(src.randint(8, 20)):
        made = src.choice(makers)(src)
        left, right = made.answer.split(" =")
        doc.parts += [(left + " =", False), (right, True), ("\n", False)]
        doc.keys += made.keys
    return doc
