"""``enginehost import semoss``: takes what SEMOSS wrote, and says of each file whether it runs here.

``archives`` unpacks, ``survey`` finds what belongs together, ``gather`` copies it aside, ``judging`` loads it
there, ``placing`` moves what runs to its place, ``report`` tells.
"""
