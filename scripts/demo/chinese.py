"""A little Chinese: greetings, facts, sums, lists and very short stories."""
from common import Doc, Item

NAMES = "小明 小红 小丽 小华 小雨 小龙 小美 小云".split()
ANIMALS = "小猫 小狗 兔子 小熊 小鸟 狐狸 青蛙 松鼠 小鸭".split()
FRUITS = "苹果 香蕉 桃子 西瓜 葡萄 梨 橙子".split()
THINGS = {"皮球": "个", "书": "本", "帽子": "顶", "雨伞": "把", "风筝": "只", "小船": "条", "铃铛": "个"}   # with measure words
PLACES = "森林里 河边 村子里 山上 花园里 海边".split()
FOUND = "床下 树下 门后 草地上 石头旁边".split()
COLORS = {"天空": "蓝色", "草": "绿色", "雪": "白色", "香蕉": "黄色", "太阳": "黄色", "苹果": "红色"}
DAYS = "星期一 星期二 星期三 星期四 星期五 星期六 星期日".split()
FIXED = {"你好": "你好！很高兴见到你。", "你好！": "你好！很高兴见到你。", "你是谁？": "我是 quoth-tiny，一个很小的语言模型。",
         "你叫什么名字？": "我叫 quoth-tiny。", "谢谢": "不客气！", "谢谢你！": "不客气！", "再见": "再见！祝你今天愉快。",
         "你会说中文吗？": "我会说一点中文。", "早上好": "早上好！今天过得怎么样？", "晚安": "晚安，做个好梦。",
         "一年有几个月？": "一年有12个月。", "一个星期有几天？": "一个星期有7天。", "什么是雨？": "雨是从云里落下来的水。"}
STORY = ("从前，{place}住着一只{animal}，名字叫{name}。有一天，{name}找不到自己的{thing}了。{name}很难过。"
         "好朋友{friend}来了，说：“别担心，我帮你找。”他们找了很久，终于在{found}找到了{thing}。"
         "{name}高兴地说：“谢谢你，{friend}！”从此，他们成了最好的朋友。")
STORY_SHARE = ("从前，有一只{animal}叫{name}，住在{place}。{name}有一{measure}漂亮的{thing}，可是不想和别人一起玩。"
               "{friend}走了，{name}觉得很孤单。{name}对{friend}说：“对不起，我们一起玩吧！”"
               "两个好朋友一起玩{thing}，玩得很开心。")


def story(src):
    name, friend = src.sample(NAMES, 2)
    thing = src.choice(list(THINGS))
    return src.choice((STORY, STORY_SHARE)).format(name=name, friend=friend, animal=src.choice(ANIMALS), thing=thing, measure=THINGS[thing],
                                                   place=src.choice(PLACES), found=src.choice(FOUND))


def raw(src):
    return Doc("chinese", parts=[(story(src), True)])


def item(src):
    shape = src.randrange(7)
    if shape <= 1:
        ask = src.choice(list(FIXED))
        return Item("chinese", ask, FIXED[ask])
    if shape == 2:
        a, b = src.randint(1, 20), src.randint(1, 9)
        return Item("chinese", src.choice(("{}加{}等于几？", "{} + {} 等于多少？")).format(a, b), f"{a}加{b}等于{a + b}。")
    if shape == 3:
        thing = src.choice(list(COLORS))
        return Item("chinese", f"{thing}是什么颜色？", f"{thing}是{COLORS[thing]}的。")
    if shape == 4:
        i = src.randrange(7)
        return Item("chinese", f"{DAYS[i]}后面是星期几？", f"{DAYS[i]}后面是{DAYS[(i + 1) % 7]}。")
    if shape == 5:
        names, fruits = src.sample(NAMES, 2), src.sample(FRUITS, 2)
        who = src.randrange(2)
        return Item("chinese", f"{names[0]}喜欢{fruits[0]}，{names[1]}喜欢{fruits[1]}。{names[who]}喜欢什么？", f"{names[who]}喜欢{fruits[who]}。")
    return Item("chinese", src.choice(("给我讲一个故事。", "讲个故事吧。", "请讲一个短故事。")), story(src))
