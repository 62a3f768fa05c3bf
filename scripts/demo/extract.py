"""Extraction of named fields from a sentence into a JSON object, in the requested order.

An item has two keys, and must be on its side of the split by both. The first key is the person's
full name. The second key is the combination of two or more other fields with their values
(age=47|city=Dakar). A single value of a short closed list (a day, a color) cannot be held out,
because training needs every word of the list. For training no combination within the record may be
held out, requested or not. For evaluation the requested combination must be held out. """
import json

import words
from common import Doc, Item, combination, combinations_of, held_out, key_of

PERSON_TEXTS = ["{name} is {age} years old, lives in {city} and works as {a_job}.",
                "My name is {name}. I am {age} years old. I live in {city}, where I work as {a_job}.",
                "{name}, {age}, {a_job} from {city}, won the prize.",
                "Our new neighbor in {city} is called {name}. The {age}-year-old is {a_job}.",
                "At {age}, {name} moved to {city} and became {a_job}.",
                "The {job} {name} ({age}) has lived in {city} for years."]
PET_TEXTS = ["{name} has {a_species} named {pet}. It is {color} and {age} years old.",
             "{pet} is a {color} {species}, {age} years old. It belongs to {name}.",
             "The {color} {species} of {name} is called {pet} and is {age} years old."]
ORDER_TEXTS = ["{name} ordered {quantity} {items} for {price} dollars, to be sent to {city}.",
               "Please send {quantity} {items} to {name} in {city}. The price is {price} dollars.",
               "Order: {quantity} {items}, {price} dollars. Customer: {name}, {city}."]
EVENT_TEXTS = ["{name} invites you to a {event} on {day} at {time} in {city}.",
               "On {day} at {time}, there is a {event} in {city}. Please call {name}.",
               "The {event} in {city} starts at {time} on {day}. It is organized by {name}."]
EVENTS = "concert party meeting dinner wedding picnic workshop dance game show lecture fair".split()
ASK = ["Extract {fields} as JSON: {text}", "Extract the fields {fields} as JSON.\n\n{text}", "Give me {fields} as JSON.\nText: {text}",
       "Read this text and return JSON with {fields}.\n{text}", "{text}\n\nExtract {fields} from this text as JSON.",
       "Fill in a JSON form with the fields {fields}: {text}"]


def person(src, name):
    job = src.choice(words.JOBS)
    return PERSON_TEXTS, dict(name=name, age=src.randint(18, 90), city=place(src), job=job), dict(a_job=words.a(job))


def pet(src, name):
    species = src.choice(words.PETS)
    called = src.made_up_name() if src.chance(0.5) else src.first_name()
    fields = dict(name=name, pet=called, species=species, color=src.choice(words.COLORS), age=src.randint(1, 15))
    return PET_TEXTS, fields, dict(a_species=words.a(species))


def order(src, name):
    thing = src.choice(words.THINGS)
    n = src.randint(2, 40)
    fields = dict(name=name, item=thing, quantity=n, price=src.randint(3, 300), city=place(src))
    return ORDER_TEXTS, fields, dict(items=words.plural(thing))


def event(src, name):
    fields = dict(name=name, event=src.choice(EVENTS), day=src.choice(words.DAYS),
                  time=f"{src.randint(7, 22)}:{src.choice(('00', '15', '30', '45'))}", city=place(src))
    return EVENT_TEXTS, fields, {}


def place(src):
    return src.choice(words.CITIES) if src.chance(0.9) else src.made_up_name()


def choose_fields(src, fields):
    asked = list(fields)
    if src.chance(0.4):
        src.shuffle(asked)
    asked = asked[:src.randint(2, len(asked))]
    if src.chance(0.5) and "name" not in asked:
        asked.insert(0, "name")
    return asked


def keys_of(src, fields, asked):
    """Return the keys that must be on the source's side of the split: for training all keys of the
    record, else the requested keys."""
    if not src.held:
        return [key_of("fields", c) for c in combinations_of(fields)]
    others = [f for f in asked if f != "name"]
    return [key_of("fields", combination(fields, others))] if len(others) > 1 else []


def draw_record(src):
    """Return a text and its fields: (text, fields, requested fields, keys)."""
    name, name_key = src.full_name()
    make = src.choices((person, pet, order, event), (4, 2, 2, 2))[0]
    while True:
        texts, fields, extra = make(src, name)
        asked = choose_fields(src, fields)
        keys = keys_of(src, fields, asked)
        if keys and all(held_out(k) == src.held for k in keys):
            return src.choice(texts).format(**fields, **extra), fields, asked, [name_key, *keys]


def answer_of(fields, asked):
    return json.dumps({f: fields[f] for f in asked}, ensure_ascii=False)


def item(src):
    text, fields, asked, keys = draw_record(src)
    ask = src.choice(ASK).format(fields=words.join_and(asked), text=text)
    return Item("extract", ask, answer_of(fields, asked), keys=keys)


def drill(src):
    """Make texts with several selections of fields each, in which only the objects are learned. For
    training only."""
    doc = Doc("extract_drill", parts=[])
    for _ in range(src.randint(2, 4)):
        text, fields, asked, keys = draw_record(src)
        doc.parts.append((text + "\n", False))
        doc.keys += keys
        for asked in (asked, choose_fields(src, fields)):
            doc.parts += [(f"JSON with {words.join_and(asked)}: ", False), (answer_of(fields, asked), True), ("\n", False)]
    return doc
