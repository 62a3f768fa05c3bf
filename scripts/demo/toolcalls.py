"""Conversations with tools: the call, the result in a user turn, and an answer that uses the
result.

Tools have two families: a dozen known tools with natural requests, and invented look-up tools
(get_price_of, find_owner). The names, parameters and requests of invented tools are random, so
the model learns to read the description. The key of a call is its name and arguments.
"""
import json

import words
from common import Doc, key_of

TYPES = {str: "string", int: "integer"}


def tool(name, description, /, **parameters):
    properties = {p: {"type": TYPES[t]} for p, t in parameters.items()}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {
        "type": "object", "properties": properties, "required": list(parameters)}}}


def city(src):
    return src.choice(words.CITIES) if src.chance(0.85) else src.made_up_name()


def weather(src):
    where, sky, degrees = city(src), src.choice("sunny rainy cloudy windy snowy foggy".split()), src.randint(1, 35)
    ask = src.choice(["What is the weather in {}?", "How is the weather in {} today?", "Tell me the weather in {}.", "Do I need an umbrella in {}?"])
    return ask.format(where), {"city": where}, {"weather": sky, "temperature": degrees}, f"It is {sky} in {where}, with {degrees} degrees."


def clock(src):
    where, time = city(src), f"{src.randint(0, 23)}:{src.randint(10, 59)}"
    ask = src.choice(["What time is it in {}?", "Tell me the time in {}.", "What is the time in {} now?"])
    return ask.format(where), {"city": where}, {"time": time}, f"It is {time} in {where}."


def calculator(src):
    (x, y), _ = src.pair(100, 999) if src.chance(0.6) else src.pair()
    sign, value = src.choice((("+", x + y), ("*", x * y)))
    expression = f"{x} {sign} {y}"
    ask = src.choice(["Use the calculator: {}", "Calculate {} for me.", "Please compute {}.", "What is {}? Use the calculator."])
    return ask.format(expression), {"expression": expression}, {"result": value}, f"{expression} = {value}"


def timer(src):
    n = src.randint(1, 300)
    ask = src.choice(["Set a timer for {} minutes.", "Wake me in {} minutes.", "Please start a timer of {} minutes.", "I need a timer for {} minutes."])
    return ask.format(n), {"minutes": n}, {"status": "ok"}, f"The timer is set for {n} minutes."


MESSAGES = ["I will be late", "dinner is ready", "see you tomorrow", "happy birthday", "call me back", "I am at home", "the train is late",
            "thank you for the cake", "we need milk", "good luck", "the meeting is over", "I miss you", "come to the party", "bring an umbrella"]


def message(src):
    to, text = src.full_name()[0] if src.chance(0.4) else src.first_name(), src.choice(MESSAGES)
    ask = src.choice(["Send a message to {}: {}", "Tell {}: {}", "Write to {}: {}", "Please send {} this message: {}"])
    return ask.format(to, text), {"to": to, "text": text}, {"status": "sent"}, f"I sent the message to {to}."


def music(src):
    song = src.choice(words.COLORS).capitalize() + " " + src.choice(words.NATURE).capitalize()
    ask = src.choice(["Play the song {}.", "Please play {}.", "I want to hear the song {}."])
    return ask.format(song), {"song": song}, {"status": "playing"}, f"Now playing {song}."


def reminder(src):
    what = src.choice(["buy {}", "find the {}", "clean the {}", "paint the {}", "repair the {}"])
    text, day = what.format(src.choice(words.FOODS if what.startswith("buy") else words.THINGS)), src.choice(words.DAYS)
    ask = src.choice(["Remind me to {} on {}.", "Set a reminder to {} on {}.", "Please remind me to {} on {}."])
    return ask.format(text, day), {"text": text, "day": day}, {"status": "ok"}, f"I will remind you to {text} on {day}."


def translate(src):
    word, language = src.choice(words.LIST_WORDS), src.choice("French German Spanish Italian Chinese".split())
    foreign = src.made_up_name().lower()
    ask = src.choice(["Translate {} into {}.", "How do you say {} in {}?", "What is {} in {}?"])
    return ask.format(word, language), {"word": word, "language": language}, {"translation": foreign}, f"In {language}, {word} is {foreign}."


ROOMS = words.PLACES + "bedroom bathroom garden garage hall cellar attic nursery studio corridor workshop cabin shed garret tent lobby".split()


def light(src):
    room, state = src.choice(ROOMS), src.choice(("on", "off"))
    ask = src.choice(["Turn {s} the light in the {r}.", "Switch {s} the {r} light.", "Please turn the {r} light {s}."])
    return ask.format(r=room, s=state), {"room": room, "state": state}, {"status": "ok"}, f"The light in the {room} is now {state}."


def recipe(src):
    food, minutes = src.choice(words.FRUIT + words.FOODS), src.randint(10, 60)
    if src.chance(0.4):
        food += " and " + src.choice(words.FOODS)
    dish = f"{food} {src.choice('soup cake pie salad stew'.split())}"
    ask = src.choice(["Find a recipe with {}.", "What can I cook with {}?", "I need a recipe with {}."])
    return ask.format(food), {"ingredient": food}, {"recipe": dish, "minutes": minutes}, f"You can make {dish}. It takes {minutes} minutes."


def dice(src):
    sides = src.randint(4, 300)
    n = src.randint(1, sides)
    ask = src.choice(["Roll a die with {} sides.", "Please roll a {}-sided die."])
    return ask.format(sides), {"sides": sides}, {"result": n}, f"You rolled a {n}."


KNOWN = [(tool("get_weather", "Get the weather in a city.", city=str), weather),
         (tool("get_time", "Get the time in a city.", city=str), clock),
         (tool("calculator", "Evaluate an arithmetic expression.", expression=str), calculator),
         (tool("set_timer", "Start a timer.", minutes=int), timer),
         (tool("send_message", "Send a message to a person.", to=str, text=str), message),
         (tool("play_song", "Play a song.", song=str), music),
         (tool("add_reminder", "Remind the user of something on a day.", text=str, day=str), reminder),
         (tool("translate", "Translate a word into a language.", word=str, language=str), translate),
         (tool("set_light", "Turn a light on or off.", room=str, state=str), light),
         (tool("find_recipe", "Find a recipe with an ingredient.", ingredient=str), recipe),
         (tool("roll_dice", "Roll a die.", sides=int), dice)]

NUMBERS = "price weight age size height number rating length width year level score stock distance speed".split()
TEXTS = {"color": words.COLORS, "owner": words.GIRLS + words.BOYS, "author": words.SURNAMES, "address": words.CITIES, "shape": ["round", "flat", "square"],
         "status": ["open", "closed", "ready", "lost", "new"], "place": words.PLACES, "maker": words.SURNAMES}
VERBS = ["get", "find", "fetch", "lookup", "read"]
PARAMETERS = ["item", "name", "object", "query", "thing", "id", "key"]


def lookup(src):
    """Make an invented tool that returns one attribute of a thing."""
    attribute, parameter = src.choice(NUMBERS + list(TEXTS)), src.choice(PARAMETERS)
    name = f"{src.choice(VERBS)}_{attribute}"
    described = tool(name, f"{src.choice(('Get', 'Find', 'Return'))} the {attribute} of a given {parameter}.", **{parameter: str})

    def use(src):
        thing, the = (src.choice(words.THINGS + words.PLACES + words.WILD), "the ") if src.chance(0.7) else (src.made_up_name(), "")
        value = src.choice(TEXTS[attribute]) if attribute in TEXTS else src.randint(1, 500)
        ask = src.choice(["What is the {} of {}?", "Get the {} of {}.", "Tell me the {} of {}.", "Find the {} of {}, please.", "I need the {} of {}."])
        return ask.format(attribute, the + thing), {parameter: thing}, {attribute: value}, f"The {attribute} of {the}{thing} is {value}."
    return described, use


def draw_call(src, name, use):
    """Return one use of a tool whose arguments are on this side of the split."""
    return src.fresh(lambda: use(src), lambda made: key_of("call", name, json.dumps(made[1], ensure_ascii=False)))


def offered(src, n, known=0.65):
    """Return n tools, a share of them known tools. No two tools return the same thing (get_price
    and find_price), so a request has one right answer."""
    chosen = {}
    while len(chosen) < n:
        described, use = src.choice(KNOWN) if src.chance(known) else lookup(src)
        chosen.setdefault(described["function"]["name"].split("_", 1)[-1], (described, use))
    return list(chosen.values())


def call(name, arguments):
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def doc(src, chat_item, short=False, counts=(1, 1, 2, 2, 3, 4), known=0.65):
    """Make a conversation with tools: one to three requests, sometimes one that needs no tool."""
    tools = offered(src, src.choice(counts), known)
    messages, keys = [], []
    for _ in range(1 if short else src.choice((1, 1, 1, 2, 3))):
        if src.chance(0.15):
            talk = chat_item(src)
            messages += [{"role": "user", "content": talk.user}, {"role": "assistant", "content": talk.answer}]
            keys += talk.keys
            continue
        turn, key = request(src, *src.choice(tools))
        messages += turn
        keys += key
    return Doc("tool", messages=messages, tools=[t for t, _ in tools], keys=keys)


def drill(src):
    """Make several tools and one request after the other, in which only the calls follow: many
    choices in few tokens."""
    tools = offered(src, src.choice((2, 3, 3, 4)), known=0.2)
    messages, keys = [], []
    for _ in range(src.randint(3, 5)):
        turn, key = request(src, *src.choice(tools))
        messages += turn[:2]
        keys += key
    return Doc("tool_drill", messages=messages, tools=[t for t, _ in tools], keys=keys)


def request(src, described, use):
    """Return the four messages of one request, sometimes with two calls together."""
    name = described["function"]["name"]
    made = [draw_call(src, name, use)]
    if name in ("get_weather", "get_time") and src.chance(0.15):
        made.append(draw_call(src, name, use))
    asks = [m[0][0] for m in made]
    calls = [call(name, m[0][1]) for m in made]
    results = [{"role": "tool", "content": json.dumps(m[0][2], ensure_ascii=False)} for m in made]
    turn = [{"role": "user", "content": " ".join(asks)}, {"role": "assistant", "content": "", "tool_calls": calls},
            *results, {"role": "assistant", "content": " ".join(m[0][3] for m in made)}]
    return turn, [m[1] for m in made]


def thought(messages):
    """Return the thinking before the last message. The thinking states the necessary tool, the
    presence of a result, or the need for no tool."""
    last = messages[-1]
    if "tool_calls" in last:
        names = [c["function"]["name"] for c in last["tool_calls"]]
        said = f"I need the tool {names[0]} for this."
    elif messages[-2]["role"] == "tool":
        said = "The tool has answered. I can tell the result."
    else:
        said = "I need no tool for this."
    return said + "\n</think>\n\n"
