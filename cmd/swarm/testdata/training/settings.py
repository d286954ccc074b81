"""Settings as the guides' users have them: nested maps in YAML, dotted keys, and key=value on the command line (Hydra's overrides).

Of YAML just what such files hold: maps, scalars, comments, anchors and aliases of scalars. No library is needed.
"""

import re
import sys

_LINE = re.compile(r"^( *)([\w.-]+|\"[^\"]*\") *:(?: +(.*))?$")


def read(path):
    """The file's settings by dotted key, in its order: {"training.batch_size": 128}."""
    found, anchors, above = {}, {}, []  # above: (indentation, key) of the maps that the line is in
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\r\n")
            if not line.strip() or line.lstrip().startswith("#") or line.strip() in ("---", "..."):
                continue
            match = _LINE.match(line)
            if not match:
                sys.exit("{}:{}: {!r} is neither a map nor a value".format(path, number, line))
            depth, key, text = len(match.group(1)), match.group(2).strip('"'), _bare(match.group(3) or "")
            above = [a for a in above if a[0] < depth]
            if text.startswith("&"):
                name, _, text = text[1:].partition(" ")
                anchors[name] = text.strip()
            elif text.startswith("*"):
                text = anchors[text[1:]]
            if text:
                found[".".join([a[1] for a in above] + [key])] = scalar(text)
            else:
                above.append((depth, key))
    return found


def override(settings, arguments):
    """The settings with those of key=value; +key=value adds one. A key that isn't there ends the program, as Hydra does."""
    for argument in arguments:
        key, equals, text = argument.partition("=")
        if not equals:
            sys.exit("{!r} is no key=value".format(argument))
        if key.startswith("+"):
            key = key[1:]
        elif key not in settings:
            sys.exit("Could not override '{}'.\nKey '{}' is not in struct".format(key, key))
        settings[key] = scalar(text)
    return settings


def whole(settings, key):
    """A setting that must be a whole number above 0."""
    value = settings[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        sys.exit("{}={!r} must be a whole number above 0".format(key, value))
    return value


def scalar(text):
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if text in ("true", "True", "false", "False"):
        return text in ("true", "True")
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return None if text in ("null", "~") else text


def _bare(text):
    """A value without the comment behind it."""
    if text[:1] in ("'", '"'):
        end = text.find(text[0], 1)
        return text[:end + 1]
    return re.split(r"(?:^| )#", text, maxsplit=1)[0].strip()
