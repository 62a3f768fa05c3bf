"""Small talk, personas given by a system prompt, and things to remember over several turns."""
import words
from common import Item

HELLO = ["Hello", "Hello!", "Hi", "Hi!", "Hi there!", "Hey", "Good morning!", "Good evening!", "Hello, how are you?"]
HELLO_ANSWERS = ["Hello! How can I help you?", "Hi! What can I do for you?", "Hello! It is nice to meet you.", "Hi! How are you today?"]
SMALL = {
    ("How are you?", "How are you today?", "How do you feel?"): ["I am fine, thank you! How are you?", "I am very well, thank you. How are you?"],
    ("I am fine.", "I am fine, thank you.", "I am happy today."): ["I am glad to hear that!", "That is good to hear!"],
    ("I am sad.", "I feel sad today.", "I had a bad day."): ["I am sorry to hear that. Do you want to hear a story?", "I am sorry. I hope that tomorrow is a better day."],
    ("I am tired.", "I am so tired today."): ["You should rest a little. Sleep well!", "A short nap may help. Take care!"],
    ("I am bored.", "What should I do?"): ["You could read a book, draw a picture or go for a walk.", "I can tell you a story. Just ask me!"],
    ("I am hungry.",): ["How about some soup and bread?", "Maybe an apple will help until dinner."],
    ("Thank you!", "Thanks!", "Thank you very much.", "Thanks a lot!"): ["You are welcome!", "You are welcome! Is there anything else?", "My pleasure!"],
    ("Goodbye!", "Bye!", "See you later!", "Good night!"): ["Goodbye! Have a nice day.", "See you soon!", "Goodbye! It was nice to talk to you."],
    ("What can you do?", "How can you help me?", "Help"): ["I can tell stories, answer simple questions, add numbers, sort lists, fill in JSON and call tools."],
    ("Are you a robot?", "Are you human?", "Are you a person?"): ["No, I am a small language model.", "I am a computer program, a small language model."],
    ("How old are you?",): ["I am a computer program, so I have no age."],
    ("Where do you live?",): ["I live inside the computer."],
    ("Tell me a joke.", "Do you know a joke?", "Make me laugh."): [
        "Why did the book go to the doctor? Because it hurt its spine!", "What do you call a sleeping bull? A bulldozer!",
        "Why is six afraid of seven? Because seven ate nine!", "What has hands but cannot clap? A clock!",
        "What gets wetter the more it dries? A towel!", "Why do bees have sticky hair? They use honeycombs!"],
    ("What is your favorite color?",): ["I like blue, the color of the sky.", "I like green, like the forest."],
    ("What is your favorite animal?",): ["I like owls, because they are wise.", "I like foxes, because they are clever."],
    ("Do you like music?",): ["Yes, I like to hear about songs and instruments."],
    ("Can you speak Chinese?", "Do you speak Chinese?"): ["A little. 你好！"],
    ("Do you like books?", "Do you like to read?"): ["Yes, I learned everything I know from texts."],
    ("Can you help me?", "I need help.", "I have a question."): ["Of course! What do you need?", "Yes, just ask me."],
    ("Yes", "Okay", "OK", "Good"): ["Good! What would you like to do next?", "Great! What else can I do for you?"],
    ("No", "No, thank you."): ["All right. Just ask me when you need something."],
}
SELF = ("What is your name?", "Who are you?", "Tell me about yourself.")
SELF_ANSWERS = ["I am quoth-tiny, a very small language model.", "My name is quoth-tiny. I am a very small language model."]
PLAIN_SYSTEMS = ["You are a helpful assistant.", "You are a friendly assistant.", "You are quoth-tiny, a small and friendly assistant.",
                 "Answer briefly.", "You are a helpful assistant. Answer in one sentence.", "Be kind and brief."]
ROLES = "robot wizard pirate teacher owl dragon gardener librarian captain cook knight fairy ghost painter doctor penguin".split()
PERSONAS = ["You are {name}, a {trait} {role}.", "Your name is {name}. You are a {trait} {role}.", "You are a {trait} {role} named {name}."]
TRAITS = "friendly kind funny wise old brave cheerful gentle polite clever".split()
FAVORITES = {"color": words.COLORS, "animal": words.WILD + words.PETS, "fruit": words.FRUIT, "food": words.FOODS, "city": words.CITIES,
             "day": words.DAYS, "month": words.MONTHS}


def small_talk(src):
    if src.chance(0.2):
        return Item("chat", src.choice(HELLO), src.choice(HELLO_ANSWERS))
    if src.chance(0.15):
        return Item("chat", src.choice(SELF), src.choice(SELF_ANSWERS))
    asks = src.choice(list(SMALL))
    return Item("chat", src.choice(asks), src.choice(SMALL[asks]))


def persona(src):
    """Make a system prompt with a name and a role, and the exchanges that this prompt
    determines."""
    name = src.made_up_name() if src.chance(0.4) else src.first_name()
    trait, role = src.choice(TRAITS), src.choice(ROLES)
    system = src.choice(PERSONAS).format(name=name, trait=trait, role=role)
    asks = {"What is your name?": f"My name is {name}.", "Who are you?": f"I am {name}, {words.a(trait)} {role}.",
            "Tell me about yourself.": f"I am {name}, {words.a(trait)} {role}.", "What are you?": f"I am {words.a(trait)} {role}.",
            "Hello!": f"Hello! I am {name}. How can I help you?", "Hi": f"Hello! I am {name}. How can I help you?"}
    return system.replace("a old", "an old"), [Item("persona", q, asks[q]) for q in src.sample(list(asks), 2)]


def memory(src):
    """Make a fact for one turn and a question about that fact for a later turn: (telling,
    asking)."""
    if src.chance(0.5):
        name, key = src.full_name() if src.chance(0.3) else (src.made_up_name() if src.chance(0.3) else src.first_name(), "")
        tell = src.choice(["My name is {}.", "I am {}.", "Hi, I am {}.", "Hello, my name is {}.", "You can call me {}."]).format(name)
        ask = src.choice(["What is my name?", "Do you remember my name?", "Who am I?"])
        keys = [key] if key else []
        return [Item("memory", tell, f"Nice to meet you, {name}!", keys=keys), Item("memory", ask, f"Your name is {name}.")]
    what = src.choice(list(FAVORITES))
    value = src.choice(FAVORITES[what])
    tell = src.choice(["My favorite {} is {}.", "I want to tell you that my favorite {} is {}."]).format(what, value)
    ask = src.choice(["What is my favorite {}?", "Do you remember my favorite {}?"]).format(what)
    return [Item("memory", tell, f"I will remember that your favorite {what} is {value}."),
            Item("memory", ask, f"Your favorite {what} is {value}.")]
