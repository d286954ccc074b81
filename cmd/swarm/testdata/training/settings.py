"""Settings in the formats of the guides' users: nested maps in YAML, dotted keys, and key=value on the command line
(Hydra's overrides).

It supports only the YAML of such files: maps, scalars, comments, anchors and aliases of scalars. It needs no library.
"""

import re
import sys

_LINE = re.compile(r"^( *)([\w.-]+|\"[^\"]*\") *:(?: +(.*))?$")


def read(path):
    """Returns the file's settings by dotted key, in order: {"training.batch_size": 128}."""
    found, anchors, above = {}, {}, []  # above: (indentation, key) of the maps around the line
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
    """Applies key=value to the settings; +key=value adds a key. Like Hydra, an unknown key ends the program."""
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
    """Returns a setting that must be a whole number above 0."""
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
    """Returns a value without its trailing comment."""
    if text[:1] in ("'", '"'):
        end = text.find(text[0], 1)
        return text[:end + 1]
    return re.split(r"(?:^| )#", text, maxsplit=1)[0].strip()
