"""Question answering about a small closed world.

Questions have two kinds. The model may remember constant facts, such as the sound of a cow or the
day after Monday. It must read short passages about people to answer questions about these people.
"""
import words
from common import Doc, Item

SOUNDS = dict(cow="moo", dog="woof", cat="meow", duck="quack", sheep="baa", pig="oink", lion="roar", frog="croak", bee="buzz",
              owl="hoot", horse="neigh", rooster="cock-a-doodle-doo", mouse="squeak", wolf="howl", snake="hiss")
LEGS = dict(dog=4, cat=4, cow=4, horse=4, bird=2, duck=2, spider=8, ant=6, bee=6, snake=0, fish=0, lion=4, frog=4, octopus=8)
HOMES = dict(bird="in a nest", bee="in a hive", fox="in a den", fish="in the water", spider="in a web", dog="in a kennel",
             rabbit="in a burrow", cow="in a barn", horse="in a stable", bear="in a cave", ant="in an anthill", lion="in the savanna")
EATS = dict(rabbit="carrots and grass", cow="grass", cat="fish and mice", monkey="bananas", squirrel="nuts", bee="nectar",
            panda="bamboo", horse="hay", mouse="cheese and seeds", lion="meat", frog="flies", koala="leaves")
YOUNG = dict(dog="puppy", cat="kitten", cow="calf", sheep="lamb", horse="foal", hen="chick", bear="cub", frog="tadpole", pig="piglet",
             duck="duckling", goat="kid", deer="fawn")
COLORS = {"the sky": "blue", "grass": "green", "snow": "white", "a banana": "yellow", "a strawberry": "red", "coal": "black", "an orange": "orange",
          "a lemon": "yellow", "milk": "white", "a ripe tomato": "red", "a carrot": "orange", "the sea": "blue", "a leaf": "green",
          "chocolate": "brown", "the sun": "yellow", "blood": "red", "a frog": "green"}
OPPOSITES = """hot/cold big/small day/night up/down open/closed happy/sad fast/slow old/young wet/dry full/empty light/dark
hard/soft high/low left/right rich/poor strong/weak early/late near/far loud/quiet clean/dirty begin/end good/bad long/short
thick/thin sweet/sour tall/short inside/outside asleep/awake""".split()
KINDS = {"an animal": words.WILD, "a fruit": words.FRUIT, "a color": words.COLORS, "a tool": ["hammer", "saw", "drill", "shovel", "axe"],
         "a job": words.JOBS, "a food": words.FOODS, "a place": words.PLACES}
WHY = {"Why is the sky blue?": "The air scatters blue light more than red light, so the sky looks blue to us.",
       "Why do leaves fall in autumn?": "Trees drop their leaves in autumn to save water and energy for the winter.",
       "Why do we sleep?": "We sleep so that the body can rest and the mind can sort what it has learned.",
       "Why is the sea salty?": "Rivers carry salt from the rocks into the sea, and it stays there when the water dries up.",
       "Why does the moon shine?": "The moon shines because it reflects the light of the sun.",
       "Why do birds sing?": "Birds sing to find a partner and to tell others where their home is.",
       "Why do cats purr?": "Cats often purr when they are happy and calm.",
       "What is rain?": "Rain is water that falls from the clouds in small drops.",
       "What is snow?": "Snow is frozen water that falls from the clouds as small white crystals.",
       "What is a rainbow?": "A rainbow is an arc of colors that appears when the sun shines through drops of rain.",
       "What is the moon?": "The moon is a big ball of rock that goes around the Earth.",
       "What is the sun?": "The sun is a star. It gives us light and warmth.",
       "What is ice?": "Ice is water that is frozen.",
       "What is a friend?": "A friend is someone who likes you, helps you and is honest with you.",
       "What is a library?": "A library is a place where you can read and borrow books.",
       "What is a computer?": "A computer is a machine that follows instructions very fast.",
       "How do plants grow?": "Plants grow from seeds. They need water, light and good soil.",
       "How do fish breathe?": "Fish breathe with gills, which take oxygen from the water.",
       "How do bees make honey?": "Bees collect nectar from flowers and turn it into honey in their hive.",
       "How do birds fly?": "Birds fly by beating their wings, which push the air down and lift them up.",
       "How many days are in a week?": "There are 7 days in a week.", "How many months are in a year?": "There are 12 months in a year.",
       "How many hours are in a day?": "There are 24 hours in a day.", "How many minutes are in an hour?": "There are 60 minutes in an hour.",
       "How many legs does a table have?": "Most tables have 4 legs.", "How many seasons are there?": "There are 4 seasons: spring, summer, autumn and winter.",
       "How many colors does a rainbow have?": "A rainbow has 7 colors.", "Which season comes after winter?": "Spring comes after winter.",
       "Which season comes after summer?": "Autumn comes after summer.", "What do we drink when we are thirsty?": "We drink water when we are thirsty.",
       "What is the largest animal?": "The blue whale is the largest animal.", "What is the fastest animal on land?": "The cheetah is the fastest animal on land.",
       "What is the tallest animal?": "The giraffe is the tallest animal.", "Where does the sun rise?": "The sun rises in the east.",
       "Where does the sun set?": "The sun sets in the west."}


def about_animals(src):
    table, ask, answer = src.choice((
        (SOUNDS, ["What does {} say?", "What sound does {} make?"], "{} says \"{}\"."),
        (LEGS, ["How many legs does {} have?"], "{} has {} legs."),
        (HOMES, ["Where does {} live?"], "{} lives {}."),
        (EATS, ["What does {} eat?"], "{} eats {}."),
        (YOUNG, ["What is a young {bare} called?", "What do you call the baby of {}?"], "A young {bare} is called {value}.")))
    animal = src.choice(list(table))
    one, value = words.a(animal), table[animal]
    if table is YOUNG:
        value = words.a(value)
    fill = lambda text: text.format(words.sentence(one) if text.startswith("{}") else one, value, bare=animal, value=value)
    return Item("fact", fill(src.choice(ask)), fill(answer))


def about_words(src):
    shape = src.randrange(4)
    if shape == 0:
        pair = src.choice(OPPOSITES).split("/")
        if pair != ["tall", "short"] and src.chance(0.5) and pair[1] != "short":
            pair.reverse()
        return Item("fact", src.choice(["What is the opposite of {}?", "Tell me the opposite of {}."]).format(pair[0]), f"The opposite of {pair[0]} is {pair[1]}.")
    if shape == 1:
        thing = src.choice(list(COLORS))
        return Item("fact", f"What color is {thing}?", f"{words.sentence(thing)} is {COLORS[thing]}.")
    if shape == 2:
        cities = list(words.COUNTRY_OF)
        city = src.choice(cities)
        return Item("fact", f"In which country is {city}?", f"{city} is in {words.COUNTRY_OF[city]}.")
    kind = src.choice(list(KINDS))
    word = src.choice(KINDS[kind])
    other = src.choice([k for k in KINDS if word not in KINDS[k]])
    if src.chance(0.4):
        return Item("fact", f"Is {word} {other}?", f"No, {word} is {kind}.")
    return Item("fact", f"Is {word} {kind}?", f"Yes, {word} is {kind}.")


def about_time(src):
    names, ask = src.choice(((words.DAYS, "day"), (words.MONTHS, "month")))
    i = src.randrange(len(names))
    if src.chance(0.5):
        return Item("fact", f"Which {ask} comes after {names[i]}?", f"After {names[i]} comes {names[(i + 1) % len(names)]}.")
    return Item("fact", f"Which {ask} comes before {names[i]}?", f"Before {names[i]} comes {names[i - 1]}.")


def why(src):
    question = src.choice(list(WHY))
    return Item("fact", question, WHY[question])


RELATIONS = {"lives in": (words.CITIES, "Where does {n} live?", "{n} lives in {v}."),
             "likes to eat": (words.FOODS, "What does {n} like to eat?", "{n} likes to eat {v}."),
             "has a": (words.PETS, "What pet does {n} have?", "{n} has a {v}."),
             "wears a hat that is": (words.COLORS, "What color is the hat of {n}?", "The hat of {n} is {v}."),
             "works as a": ([j for j in words.JOBS if j[0] not in "aeiou"], "What is the job of {n}?", "{n} is a {v}."),
             "has a birthday in": (words.MONTHS, "When is the birthday of {n}?", "The birthday of {n} is in {v}.")}


def draw_passage(src):
    """Make two to four people and one relation: (text, relation, {person: value})."""
    people = src.sample(words.GIRLS + words.BOYS, src.randint(2, 4))
    relation = src.choice(list(RELATIONS))
    values = dict(zip(people, src.sample(RELATIONS[relation][0], len(people))))
    return " ".join(f"{n} {relation} {v}." for n, v in values.items()), relation, values


def ask_passage(src, relation, values, backwards=0.2):
    """Make a question about a person of the passage, in either direction, or about a stranger:
    (question, answer)."""
    _, ask, answer = RELATIONS[relation]
    who = src.choice(list(values))
    shape = src.random()
    if shape < backwards:
        return f"Who {relation} {values[who]}?", f"{who} {relation} {values[who]}."
    if shape < backwards + 0.1:
        stranger = src.choice([n for n in words.GIRLS + words.BOYS if n not in values])
        return ask.format(n=stranger), f"The text does not say that about {stranger}."
    return ask.format(n=who), answer.format(n=who, v=values[who])


def passage(src):
    text, relation, values = draw_passage(src)
    question, reply = ask_passage(src, relation, values)
    layout = src.choice(("{t} {q}", "{t}\n\n{q}", "Read this: {t}\n{q}", "{q} {t}"))
    return Item("passage", layout.format(t=text, q=question), reply)


def drill(src):
    """Make several passages with several questions each, in which only the answers are learned.
    The model is slow to learn to look for a word before the requested one."""
    doc = Doc("passage_drill", parts=[])
    for _ in range(src.randint(1, 2)):
        text, relation, values = draw_passage(src)
        doc.parts.append((text + "\n", False))
        for _ in range(src.randint(2, 4)):
            question, reply = ask_passage(src, relation, values, backwards=0.45)
            doc.parts += [(question + "\n", False), (reply, True), ("\n", False)]
    return doc


def item(src):
    make = src.choices((about_animals, about_words, about_time, why, passage), (3, 3, 2, 3, 5))[0]
    return make(src)
