"""Short children's stories: a hero, a friend, one of many small plots, and an ending that fits.
Texts have alternatives in brackets, [one|another], and names in braces. `tell` picks the
alternatives and inserts the names. Every plot keeps its characters and things to the end, so that a
reader and a small model can follow the plot. The key is hero + friend + thing, so a held-out story
has a cast that was never trained on. """
import re

import words
from common import Doc, Item, key_of

CHOICE = re.compile(r"\[([^\[\]]*)\]")
PRONOUNS = {"she": ("she", "her", "her", "girl"), "he": ("he", "him", "his", "boy")}
TRAITS = "kind little curious brave quiet happy clever shy gentle cheerful small young funny careful lively".split()
HEROES = words.WILD + "dragon robot cat dog pony wizard princess knight lion elephant monkey penguin fairy giant".split()
ALWAYS = {"princess": "she", "fairy": "she", "wizard": "he", "knight": "he", "giant": "he"}
SETTINGS = ["in a small village", "near a deep forest", "by the sea", "in a green valley", "at the edge of the woods",
            "on a quiet farm", "beside a wide river", "on top of a hill", "in a little house with a red roof",
            "in a busy town", "close to the mountains", "on a tiny island"]
TREASURES = "ball kite book drum bell boat basket blanket doll feather flute hat lamp scarf umbrella whistle ring box cup".split()
LOST_IN = ["under the bed", "behind the door", "under a bush", "in the tall grass", "beside the old well", "under the big oak tree",
           "behind the barn", "in the garden", "near the pond", "on the roof", "inside an old boot", "under a pile of leaves"]
SEEDS = "sunflower pumpkin tomato bean apple carrot rose pea melon".split()
BAKED = ["a honey cake", "an apple pie", "a loaf of bread", "a plum cake", "a cherry pie", "some cookies", "a big pancake", "some sweet buns"]
FEARS = ["the dark", "deep water", "loud thunder", "high places", "big dogs", "the old bridge"]
OPENINGS = ["Once upon a time, there was a {trait} {kind} named {hero}. {He} lived {setting}.",
            "Once upon a time, {setting}, there lived a {trait} {kind} named {hero}.",
            "Once upon a time, a {trait} {kind} named {hero} lived {setting}.",
            "One day, a {trait} {kind} named {hero} [went out to play|woke up early|looked out of the window].",
            "There was once a {trait} {kind} called {hero}, who lived {setting}.",
            "{hero} was a {trait} {kind} who lived {setting}."]
LOVES = ["", "", "{He} loved to [sing|run|climb|read|paint|dance|swim|watch the birds|look at the stars|help others|tell jokes].",
         "Every [morning|evening|day], {he} [sang a song|walked to the river|fed the birds|played outside|helped at home].",
         "{He} had a good friend named {friend}, a {ftrait} {fkind}."]
ENDINGS = ["From that day on, {hero} and {friend} were the best of friends.",
           "{hero} went home with a [happy|warm|full] heart.",
           "That night, {hero} slept very well.",
           "And they [all lived|lived] happily ever after.",
           "{hero} smiled, because it had been a wonderful day.",
           "And whenever {hero} saw {friend} again, they both had to laugh.",
           "It was the best day of the whole [summer|year|week]."]
MORAL = "[{He} had learned that|Now {he} knew that|{hero} never forgot that] "

LOST = ["One [morning|afternoon|day], {hero} could not find {his} {thing}. {He} looked [under the bed|behind the door|in the kitchen] and [in the garden|on the stairs|under the table], but it was not there.",
        "{He} felt [very sad|like crying|worried]. [Just then|Then|At that moment], {friend} the {fkind} [came by|passed by|knocked on the door].",
        "\"[What is wrong|Why are you so sad|What happened], {hero}?\" asked {friend}.",
        "\"I have lost my {thing},\" said {hero}. \"[It was a gift from my grandmother|I love it more than anything|I had it yesterday].\"",
        "\"[Do not worry|Do not cry|Cheer up],\" said {friend}. \"[We will look for it together|I will help you find it|Two can see more than one].\"",
        "They looked [all day|for a long time|everywhere]. At last, {friend} saw something [shiny|small|strange] {lost_in}. It was the {thing}!",
        "\"Thank you, {friend}!\" [cried|said|shouted] {hero} and [gave {fhim} a big hug|jumped for joy|danced around]."]
SHARE = ["One day, {hero} [got|found|was given] a [new|beautiful|shiny] {thing}. {He} [liked it so much that {he} did not want to share it|carried it everywhere].",
         "{friend} the {fkind} [came to play|wanted to see it|asked to hold it]. \"May I play with your {thing}, please?\" asked {friend}.",
         "\"No, it is mine!\" said {hero}. {friend} [walked away sadly|went home with tears in {fhis} eyes|said nothing and left].",
         "Soon, {hero} felt [lonely|bored|bad]. Playing alone with the {thing} was [no fun at all|not so nice].",
         "So {he} [ran to|went to find|walked to the house of] {friend}. \"I am sorry,\" said {hero}. \"[Let us play together|You can play with my {thing} too|Come and play with me].\"",
         "{friend} [smiled|was so happy|laughed]. They played with the {thing} until [the sun went down|it was dark|supper time]."]
SEED = ["In the spring, {hero} found a [tiny|small|little] {seed} seed. \"[I will plant it|Let me plant it],\" {he} said, and {he} put it into the ground.",
        "Every day, {hero} gave it [water|some water]. But nothing [happened|came up|grew]. \"[Maybe it is not a good seed|Perhaps it will never grow],\" said {hero}.",
        "\"[Be patient|You must wait|Give it time],\" said {friend} the {fkind}. \"[Good things need time|A seed sleeps before it wakes].\"",
        "So {hero} waited. [It rained, and the sun shone|The rain came, and then the sun]. One morning, there was a [small|tiny|bright] green leaf!",
        "The plant grew and grew. By [the end of summer|autumn|the time the days grew short], {he} had the [biggest|most beautiful|finest] {seed} plant of all.",
        "{hero} [shared it with|showed it to] {friend}. \"You were right,\" {he} said. \"It was worth the wait.\""]
BAKE = ["It was the birthday of {friend} the {fkind}, and {hero} wanted to bake {baked}.",
        "{He} took [flour, butter and eggs|flour, milk and sugar|everything from the shelf] and mixed it in a big bowl. But [there was no honey left|the sugar was all gone|there was no milk].",
        "{hero} [went to|ran to|knocked on the door of] [the old neighbor|the miller|{his} grandmother]. \"Can you help me, please?\" {he} asked.",
        "\"Of course,\" was the answer, \"[take what you need|here you are|I am glad to help].\"",
        "Soon the whole house [smelled wonderful|smelled sweet|was warm and smelled good]. {hero} [carried {baked} to {friend}|took {baked} out of the oven and ran to {friend}].",
        "\"Happy birthday!\" [said|called|sang] {hero}. {friend} [took a big bite|tasted it] and said, \"[This is the best thing I have ever eaten|It is perfect|What a lovely gift]!\""]
FEAR = ["But {hero} had a secret: {he} was afraid of {fear}.",
        "[One evening|One day|One night], {friend} the {fkind} did not come home. \"[Somebody must find {fhim}|I must go and look for {fhim}],\" said {hero}.",
        "The way was long, and {hero} had to face {fear}. {His} [heart beat fast|knees shook|hands were cold]. \"I can do this,\" {he} whispered.",
        "{He} took a deep breath and went on, step by step. And there, {lost_in}, sat {friend}.",
        "\"You came to find me!\" said {friend}. \"[Were you not afraid of {fear}|But you are afraid of {fear}]?\"",
        "\"I was,\" said {hero}, \"but [you are my friend|I thought of you|friends are more important].\" After that, {hero} was not so afraid of {fear} anymore."]
RESCUE = ["One [cold|windy|sunny] day, {hero} heard a [soft|small|sad] cry. A {fkind} was stuck {stuck}.",
          "\"Please help me!\" said the {fkind}. \"My name is {friend}, and I cannot get out.\"",
          "{hero} [pulled and pulled|tried with all {his} strength], but it did not work. Then {he} had an idea. {He} took {his} {thing} and [used it to|with its help {he} could] [reach {friend}|make the gap wider].",
          "[Slowly|Little by little|Bit by bit], {friend} came free. \"[You saved me|How can I ever thank you]!\" said {friend}.",
          "\"[It was nothing|I am glad you are safe|Anyone would do the same],\" said {hero}. They [walked home together|shared some {food} and talked until evening]."]
STUCK = ["in a hole", "between two rocks", "under a fallen branch", "in a thorn bush", "in the mud", "behind a fence"]
RACE = ["Every year there was a big race [around the lake|through the forest|up the hill]. {hero} wanted to win [more than anything|very much].",
        "{friend} the {fkind} wanted to win, too. \"I am the fastest of all!\" said {friend}.",
        "When the race began, {friend} ran ahead. {hero} was [slow but steady|right behind|far behind]. Then {friend} [tripped over a stone|fell over a root|hurt {fhis} foot].",
        "{hero} could win now! But {he} stopped. \"[Are you hurt|Can you stand|Let me help you]?\" {he} asked and held out {his} hand." ,
        "Together they walked to the finish. They were the last, but everyone [clapped and cheered|cheered loudly].",
        "\"[You are a true winner|You did not win the race, but you won a friend],\" said {friend}."]
RAIN = ["{hero} and {friend} the {fkind} had planned a picnic. They packed [bread|cake|soup|pie] and [apples|plums|cheese|honey] into a basket.",
        "But when they [opened the door|reached the meadow|sat down], it began to rain. \"Oh no!\" said {friend}. \"Our day is ruined.\"",
        "{hero} thought for a moment. \"[I have an idea|I know what to do],\" {he} said. {He} took [a big blanket|an old sheet|two chairs and a blanket] and built a tent [in the living room|in the barn|under the table].",
        "They sat inside, ate their food and told each other [funny stories|stories about ghosts|secrets] while the rain [fell on the roof|sang on the window].",
        "\"This is [even better|much nicer] than a picnic in the sun,\" said {friend}, and {hero} [agreed|nodded]."]
NIGHT = ["One night, {hero} could not sleep. {He} looked out of the window and saw that [a star had fallen from the sky|a small light was dancing in the garden].",
         "{He} put on {his} shoes and went outside. There sat {friend}, a {ftrait} {fkind}, with a [tiny|small|glowing] star in {fhis} arms.",
         "\"It has lost its way,\" said {friend}. \"[Can you help me bring it home|It wants to go back to the sky]?\"",
         "{hero} [thought hard|had an idea]. They [climbed the highest hill|climbed to the top of the tower|went up to the roof] and [held the star up high|lifted the star above their heads].",
         "The wind came, and [whoosh|one, two, three], the star [flew up|rose] into the sky. It [blinked|twinkled] as if to say thank you.",
         "Since then, whenever {hero} looks up at night, one star [shines a little brighter|winks at {him}]."]
MARKET = ["{hero} had saved [three|five|seven|ten] coins. {He} went to the market to buy a {thing}.",
          "On the way, {he} met {friend} the {fkind}, who [looked hungry|had nothing to eat|was sitting by the road]. \"[I have not eaten since yesterday|I am so hungry],\" said {friend}.",
          "{hero} looked at {his} coins. {He} [thought about the {thing}|really wanted the {thing}]. But then {he} bought [warm {food}|some {food}] and gave it to {friend}.",
          "\"You are very kind,\" said {friend}. \"[Come with me|I want to show you something].\" {He_f} took {hero} to [a small house|an old shop|a hidden garden].",
          "[On a shelf|In a corner|On the table] stood a {thing}, [even nicer than the one at the market|old but beautiful]. \"I made it myself. It is yours,\" said {friend}.",
          "{hero} [could hardly believe it|was full of joy|laughed with joy]."]
SONG = ["{hero} wanted to learn to play the {instrument}. But every time {he} played, it sounded [terrible|like a sick cat|wrong].",
        "\"[I will never learn it|I give up],\" said {hero} and [put the {instrument} away|sat down on the grass].",
        "{friend} the {fkind} heard it. \"Nobody plays well on the first day,\" said {friend}. \"[Play one note with me every day|Start with one small song].\"",
        "So they practiced [every day|every evening], first one note, then two, then a whole song.",
        "In the [summer|spring|winter], there was a [big party|feast|dance] in the village. {hero} played the {instrument}, and everybody [danced|sang along|clapped].",
        "\"[I knew you could do it|You did it],\" said {friend}."]
INSTRUMENTS = "flute drum violin piano trumpet guitar harp".split()
PLOTS = [(LOST, "it is good to ask for help."), (SHARE, "sharing makes everyone happy."), (SEED, "good things take time."),
         (BAKE, "a gift made by hand is the best gift."), (FEAR, "being brave means going on although you are afraid."),
         (RESCUE, "even small hands can do great things."), (RACE, "a friend is worth more than a prize."),
         (RAIN, "a good idea can save any day."), (NIGHT, "even the smallest light can find its way home."),
         (MARKET, "kindness always comes back."), (SONG, "big things begin with small steps.")]


def tell(src, text, cast):
    """Choose among the alternatives, innermost first, then insert the names."""
    while CHOICE.search(text):
        text = CHOICE.sub(lambda m: src.choice(m[1].split("|")), text)
    return text.format(**cast)


def draw_cast(src):
    pronoun = src.choice(("she", "he"))
    fpronoun = src.choice(("she", "he"))
    names = {"she": words.GIRLS, "he": words.BOYS}
    subject, him, his, child = PRONOUNS[pronoun]
    hero = src.choice(names[pronoun]) if src.chance(0.93) else src.made_up_name()
    friend = src.choice([n for n in names[fpronoun] if n != hero])
    fhe, fhim, fhis, _ = PRONOUNS[fpronoun]
    kind = child if src.chance(0.5) else src.choice([h for h in HEROES if ALWAYS.get(h, subject) == subject])
    return dict(hero=hero, friend=friend, he=subject, him=him, his=his, He=subject.capitalize(), His=his.capitalize(),
                fhim=fhim, fhis=fhis, He_f=fhe.capitalize(), kind=kind, fkind=src.choice([w for w in words.WILD if w != kind]),
                trait=src.choice(TRAITS), ftrait=src.choice(TRAITS), setting=src.choice(SETTINGS), thing=src.choice(TREASURES),
                lost_in=src.choice(LOST_IN), seed=src.choice(SEEDS), baked=src.choice(BAKED), fear=src.choice(FEARS),
                stuck=src.choice(STUCK), food=src.choice(words.FOODS), instrument=src.choice(INSTRUMENTS))


def cast_key(cast):
    return key_of("story", cast["hero"], cast["friend"], cast["thing"])


def paragraphs(src, sentences):
    """Join the sentences. Sometimes begin a new paragraph before a turn of the plot."""
    cut = src.randint(2, len(sentences) - 2)
    return " ".join(sentences[:cut]) + "\n\n" + " ".join(sentences[cut:])


def write(src, cast, opening=None):
    plot, moral = src.choice(PLOTS)
    opening = opening or src.choice(OPENINGS)
    loves = "" if "friend" in plot[0] or plot is NIGHT or plot is RESCUE else src.choice(LOVES)
    introduced = "{friend}" in loves
    parts = [opening, loves, *plot, src.choice(ENDINGS), MORAL + moral if src.chance(0.35) else ""]
    if introduced:
        parts = [p.replace("{friend} the {fkind}", "{friend}") for p in parts]
    return paragraphs(src, [tell(src, p, cast) for p in parts if p])


def raw(src):
    cast, key = src.fresh(lambda: draw_cast(src), cast_key)
    opening = src.choice(OPENINGS[:3]) if src.chance(0.5) else None
    return Doc("story", parts=[(write(src, cast, opening), True)], keys=[key])


ASK = ["Tell me a story.", "Please tell me a short story.", "Can you tell me a story?", "Write a story for children.", "I want to hear a story.",
       "Tell me a bedtime story.", "Once upon a time", "Write a short story."]
ASK_KIND = ["Tell me a story about {}.", "Write a short story about {}.", "Can you tell me a story about {}?", "I would like a story about {}."]


def item(src):
    """Make a story on request, with the requested hero."""
    cast, key = src.fresh(lambda: draw_cast(src), cast_key)
    shape = src.random()
    if shape < 0.45:
        ask = src.choice(ASK)
        opening = src.choice(OPENINGS[:3])
    elif shape < 0.7:
        ask, opening = src.choice(ASK_KIND).format(words.a(cast["kind"])), None
    else:
        ask, opening = src.choice(ASK_KIND).format(f"{words.a(cast['kind'])} named {cast['hero']}"), None
    return Item("story", ask, write(src, cast, opening), keys=[key])
