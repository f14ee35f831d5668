"""A figure as SVG for a page: text stays text, ids are the picture's own, and shapes tell their
values under the pointer."""

import io
import json
import re
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence

import matplotlib
from matplotlib.artist import Artist
from matplotlib.figure import Figure

from anydepth.figures.style import drawing

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Noto Sans CJK SC', sans-serif"
PIXELS_PER_POINT = 1.8  # a column's width is 440 pixels, in which 7 points are readable on a telephone
TOUCHABLE = 5.5  # the radius around a marker that answers to a finger, in points
TIPS = "tips:"
MADE_BY = "<!-- made by anydepth report -->"
NAMESPACE = 'xmlns="http://www.w3.org/2000/svg"'
NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
REFERENCE = re.compile(r"(^#|url\(#)([\w-]+)")
DECIMALS = re.compile(r"-?\d+\.\d+")
# The page has its own fonts, the same on every machine; matplotlib before 3.11 writes the short
# form.
FAMILY, SIZE_AND_FAMILY = re.compile(r"font-family: [^;]*; ?"), re.compile(r"font: ([\d.]+px) [^;]*")
LEVEL = re.compile(r"^rotate\(-?0 ")
METADATA = {"Creator": None, "Date": None, "Format": None, "Type": None}


def xml_words(text: str) -> str:
    """`text` with a space for each character that XML does not know."""
    return NOT_IN_XML.sub(" ", text)


def tell(artist: Artist, tips: Sequence[str]) -> None:
    """Gives the shapes of an artist (a bar, a line's markers, a mesh's cells) in their order what
    they tell under the pointer."""
    artist.set_gid(TIPS + json.dumps(list(tips)))


def figure_svg(figure: Figure, *, name: str, description: str) -> str:
    """The figure as an SVG element whose ids begin with `name`, with a description for those who do
    not see it. Same figure, same bytes."""
    root = ElementTree.fromstring(_drawn(figure))
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {
            key.rpartition("}")[2]: _short(key, value)
            for key, value in element.items()
            if not (key == "transform" and LEVEL.match(value))
        }
    for element in [
        *root.findall("metadata"),
        *(each for each in root.findall("defs") if each.find("style") is not None),
    ]:
        root.remove(element)  # the style would reach beyond the picture
    for group in list(root.iter("g")):
        if group.get("id", "").startswith(TIPS):
            _tell_tips(group, json.loads(group.attrib.pop("id").removeprefix(TIPS)))
    _rename_ids(root, name)
    _unwrap(root)
    width, height = (float(side) * PIXELS_PER_POINT for side in root.get("viewBox", "").split()[2:])
    about = ElementTree.Element("desc")
    about.text = xml_words(description)
    root.insert(0, about)
    root.attrib = {
        "viewBox": root.get("viewBox", ""),
        "width": f"{width:.0f}",
        "height": f"{height:.0f}",
        "role": "group",
        "aria-label": about.text,
        "font-family": FONT,
        "stroke-linejoin": "round",
        "pointer-events": "none",  # but for the shapes that have a tip
    }
    return ElementTree.tostring(root, encoding="unicode")


def standalone(svg: str) -> str:
    """A picture as a file of its own."""
    return f"{MADE_BY}\n{svg.replace('<svg ', f'<svg {NAMESPACE} ', 1)}\n"


def _drawn(figure: Figure) -> bytes:
    """Matplotlib's own SVG, without the time and the versions that made it."""
    stream = io.BytesIO()
    with drawing(), matplotlib.rc_context({"svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)  # the reader's fonts may have it
        figure.savefig(stream, format="svg", metadata=METADATA)
    return stream.getvalue()


def _short(key: str, value: str) -> str:
    """An attribute on one line, with at most two decimals in its numbers; an id as it is."""
    if key == "id":
        return value
    line = " ".join(SIZE_AND_FAMILY.sub(r"font-size: \1", FAMILY.sub("", value)).split())
    return DECIMALS.sub(lambda found: f"{round(float(found[0]), 2) + 0.0:g}", line)  # adding 0 turns -0 into 0


def _tell_tips(group: ElementTree.Element, tips: Sequence[str]) -> None:
    """Wraps each shape of a group, its markers where it has some, with its tip."""
    tag = "path" if group.find(".//use") is None else "use"
    parents = {shape: parent for parent in group.iter() if parent.tag != "defs" for shape in parent if shape.tag == tag}
    for (shape, parent), tip in zip(parents.items(), tips, strict=True):
        point = ElementTree.Element("g", {"class": "point"})
        ElementTree.SubElement(point, "title").text = xml_words(tip)
        if tag == "use":
            place = {"cx": shape.get("x", ""), "cy": shape.get("y", "")}
            ElementTree.SubElement(point, "circle", {**place, "r": f"{TOUCHABLE}", "fill-opacity": "0"})
        parent[list(parent).index(shape)] = point
        point.append(shape)
        parent.set("pointer-events", "all")


def _rename_ids(root: ElementTree.Element, name: str) -> None:
    """Numbers the ids that something refers to, and drops the others."""
    new: dict[str, str] = {}

    def renamed(found: re.Match[str]) -> str:
        return found[1] + new.setdefault(found[2], f"{name}-{len(new) + 1}")

    for element in root.iter():
        for key in ("href", "clip-path", "style"):
            if key in element.attrib:
                element.set(key, REFERENCE.sub(renamed, element.attrib[key]))
    for element in root.iter():
        if old := element.attrib.pop("id", ""):
            element.attrib |= {"id": new[old]} if old in new else {}


def _unwrap(element: ElementTree.Element) -> None:
    """Puts what groups without attributes hold in their place, and drops the space between
    elements."""
    children: list[ElementTree.Element] = []
    for child in element:
        _unwrap(child)
        child.tail = None
        children += list(child) if child.tag == "g" and not child.attrib else [child]
    if children:
        element.text = None
    element[:] = children
