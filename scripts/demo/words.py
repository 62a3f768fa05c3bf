"""The vocabulary of the small world. Several generators use each list.

Words are short and common, so that most of them become one token of the tokenizer.
"""

GIRLS = """Mia Lily Anna Nora Ella Zoe Ruby Clara Ivy Maya Lucy Rosa Emma Alice Nina Sara Tess Olive Wren Hazel
Daisy June Freya Leila Amara Priya Yuki Sofia Elsa Iris Molly Kira Lena Thea Vera Greta Naomi Flora Penny Carmen""".split()
BOYS = """Tom Ben Leo Max Sam Finn Oscar Hugo Noah Jack Theo Felix Milo Owen Eli Jonas Ravi Omar Kenji Luca
Pablo Anton Emil Oliver Henry Caleb Amir Marco Ivan Peter Simon Victor Walter Arlo Jasper Bruno Diego Otto Nico Toby""".split()
SURNAMES = """Hill Brook Stone Lake Marsh Wood Field Rivers Park Lane Berg Novak Silva Costa Moreau Tanaka Sato Kim Chen
Wang Patel Khan Singh Haddad Okoye Mensah Diallo Olsen Larsen Virtanen Keller Weber Vogel Rossi Greco Lopez Ortiz Reyes Walsh
Doyle Grant Shaw Frost Baker Carter Fisher Mason Potter Turner Weaver Cole Dale Ford Nash Page Reed Rowe Tate Webb York
Ashford Bellamy Crane Drake Ellis Finch Garner Hale Irwin Jarvis""".split()
CITIES = """Paris London Berlin Rome Madrid Oslo Lisbon Vienna Dublin Athens Cairo Tokyo Delhi Lima Boston Chicago
Toronto Sydney Nairobi Lagos Prague Warsaw Zurich Geneva Milan Naples Porto Bergen Helsinki Riga Hanoi Seoul Kyoto Osaka
Beijing Shanghai Mumbai Dakar Tunis Quito Bogota Havana Denver Seattle Dallas Austin Miami Perth Bristol York""".split()
COUNTRY_OF = dict(Paris="France", London="England", Berlin="Germany", Rome="Italy", Madrid="Spain", Oslo="Norway",
                  Lisbon="Portugal", Vienna="Austria", Dublin="Ireland", Athens="Greece", Cairo="Egypt", Tokyo="Japan",
                  Delhi="India", Lima="Peru", Nairobi="Kenya", Prague="Czechia", Warsaw="Poland", Helsinki="Finland",
                  Riga="Latvia", Hanoi="Vietnam", Seoul="Korea", Beijing="China", Tunis="Tunisia", Havana="Cuba")
JOBS = """teacher baker doctor farmer nurse pilot painter singer writer dentist carpenter gardener sailor tailor
librarian plumber chef fisherman builder vet waiter driver lawyer engineer potter dancer clerk judge actor coach""".split()
COLORS = "red blue green yellow orange purple pink brown black white gray gold silver".split()
FRUIT = "apple pear plum cherry grape lemon peach melon banana orange mango fig".split()
FOODS = """bread soup rice cheese honey cake pasta salad pizza noodles pancakes beans porridge pie jam toast
cookies stew eggs dumplings""".split()
PETS = "dog cat rabbit hamster parrot turtle goldfish pony mouse lizard".split()
WILD = """fox bear rabbit mouse owl frog hedgehog squirrel deer badger otter duck turtle crow robin beaver wolf
raccoon mole sparrow""".split()
THINGS = """ball kite book hat drum lamp key cup shell coin bell boat basket blanket button box candle clock doll
feather flute fork glove hammer jar ladder map mirror needle paper pencil piano pillow rope scarf shoe spoon
stick stone sword table towel train umbrella violin wagon wheel whistle window""".split()
NATURE = """river moon tree cloud forest garden mountain ocean rain snow star storm sun valley wind meadow island
leaf flower grass hill lake pond sand sea sky""".split()
PLACES = """house school market bridge castle farm tower village street library station kitchen church mill
harbor theater hotel office barn""".split()
BODY = "hand foot head nose ear eye arm leg knee thumb".split()
LIST_WORDS = sorted(set(FRUIT + FOODS + PETS + WILD + THINGS + NATURE + PLACES + BODY + COLORS + JOBS))
LETTERS = list("abcdefghijklmnopqrstuvwxyz")
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = """January February March April May June July August September October November December""".split()
NUMBER_NAMES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen twenty""".split()
PLURALS = {"cherry": "cherries", "peach": "peaches", "mouse": "mice", "goldfish": "goldfish", "deer": "deer",
           "wolf": "wolves", "fox": "foxes", "leaf": "leaves", "box": "boxes", "sky": "skies", "match": "matches",
           "pony": "ponies", "mango": "mangoes", "brush": "brushes", "berry": "berries"}

SYLLABLES = "ba be bo da de do fa fe fi ga go ha jo ka ke ki ko la le li lo ma me mi mo na ne ni no pa pe ra re ri ro sa se si so ta te ti to va ve vi wa ya yo za ze zo".split()
ENDINGS = "n l r s th k m x nd rt".split() + [""] * 6


def plural(noun):
    return PLURALS.get(noun, noun + "s")


def a(noun):
    """Return the noun with its indefinite article."""
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def count_of(n, noun):
    return f"{n} {noun if n == 1 else plural(noun)}"


def join_and(words):
    """Return "a, b and c"."""
    words = list(words)
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def sentence(text):
    return text[0].upper() + text[1:]
